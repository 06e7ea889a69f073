// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// recorder is an Observer that keeps everything.
type recorder struct {
	mu       sync.Mutex
	rows     int
	dropped  map[DropReason]int
	raw      int
	gzip     int
	flushed  int
	opened   int
	pruned   map[PruneCause]int
	failures map[Op]int
	statuses []error
}

func newRecorder() *recorder {
	return &recorder{dropped: map[DropReason]int{}, pruned: map[PruneCause]int{}, failures: map[Op]int{}}
}

func (r *recorder) RowsWritten(n int)                    { r.do(func() { r.rows += n }) }
func (r *recorder) RowsDropped(reason DropReason, n int) { r.do(func() { r.dropped[reason] += n }) }
func (r *recorder) BytesWritten(raw, gz int)             { r.do(func() { r.raw += raw; r.gzip += gz }) }
func (r *recorder) Flushed()                             { r.do(func() { r.flushed++ }) }
func (r *recorder) SegmentOpened()                       { r.do(func() { r.opened++ }) }
func (r *recorder) SegmentsPruned(c PruneCause, n int)   { r.do(func() { r.pruned[c] += n }) }
func (r *recorder) Failed(op Op)                         { r.do(func() { r.failures[op]++ }) }
func (r *recorder) Status(err error)                     { r.do(func() { r.statuses = append(r.statuses, err) }) }

func (r *recorder) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func get[T any](r *recorder, f func() T) (value T) {
	r.do(func() { value = f() })
	return value
}

func (r *recorder) written() int           { return get(r, func() int { return r.rows }) }
func (r *recorder) drops(d DropReason) int { return get(r, func() int { return r.dropped[d] }) }
func (r *recorder) fails(op Op) int        { return get(r, func() int { return r.failures[op] }) }
func (r *recorder) flushes() int           { return get(r, func() int { return r.flushed }) }
func (r *recorder) prunes(c PruneCause) int {
	return get(r, func() int { return r.pruned[c] })
}

func (r *recorder) opens() int    { return get(r, func() int { return r.opened }) }
func (r *recorder) rawBytes() int { return get(r, func() int { return r.raw }) }
func (r *recorder) allDrops() int {
	return get(r, func() (n int) {
		for _, d := range r.dropped {
			n += d
		}
		return n
	})
}

// reported gives every status, in order.
func (r *recorder) reported() []error {
	return get(r, func() []error { return slices.Clone(r.statuses) })
}

// status is the last one reported; nothing reported is well.
func (r *recorder) status() error {
	return get(r, func() error {
		if len(r.statuses) == 0 {
			return nil
		}
		return r.statuses[len(r.statuses)-1]
	})
}

// rig is a writer over a temporary directory, with everything that a test looks at.
type rig struct {
	*Writer
	t    *testing.T
	obs  *recorder
	logs *observer.ObservedLogs
	dir  string
}

type setup struct {
	cfg    Config
	limits limits
	disk   fileSystem
	idle   bool // not started
}

// newRig starts a buffered writer with the defaults; change alters that. It is shut down when the test ends.
func newRig(t *testing.T, change ...func(*setup)) *rig {
	t.Helper()
	dir := t.TempDir()
	s := setup{
		cfg: Config{
			Base: filepath.Join(dir, "dynamo-fpm"), RollBytes: DefaultRollBytes, MaxSegments: DefaultMaxSegments,
			FlushInterval: DefaultFlushInterval, FlushBytes: DefaultFlushBytes,
			CompressionLevel: DefaultCompressionLevel, MaxOpenFiles: DefaultMaxOpenFiles,
		},
		limits: defaultLimits(),
		disk:   disk{},
	}
	for _, c := range change {
		c(&s)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	r := &rig{t: t, obs: newRecorder(), logs: logs, dir: filepath.Dir(s.cfg.Base)}
	r.Writer = newWriter(s.cfg, r.obs, zap.New(core), s.disk, s.limits)
	if !s.idle {
		require.NoError(t, r.Start())
	}
	t.Cleanup(func() { _ = r.Shutdown(context.Background()) })
	return r
}

// next starts another writer over the same directory, as after a restart.
func (r *rig) next(change ...func(*setup)) *rig {
	return newRig(r.t, append([]func(*setup){func(s *setup) { s.cfg.Base = r.cfg.Base }}, change...)...)
}

func (r *rig) enqueue(records ...Record) {
	r.t.Helper()
	require.NoError(r.t, r.Enqueue(records))
}

func (r *rig) shutdown() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(r.t, r.Shutdown(ctx))
}

// eventually polls, with a deadline that no healthy run comes near.
func (r *rig) eventually(condition func() bool, what string) {
	r.t.Helper()
	require.Eventually(r.t, condition, 20*time.Second, 2*time.Millisecond, what)
}

func (r *rig) path(producer string, index uint64) string {
	return filepath.Join(r.dir, segmentName(filepath.Base(r.cfg.Base)+"."+producer, index))
}

// segments lists the names of the segments of all producers, by index.
func (r *rig) segments() []string {
	r.t.Helper()
	entries, err := os.ReadDir(r.dir)
	require.NoError(r.t, err)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segmentSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// counters gives the counter of each row of one segment.
func (r *rig) counters(producer string, index uint64) []int64 {
	r.t.Helper()
	return counters(r.t, readRows(r.t, r.path(producer, index)))
}

// counters takes the shortcut past a JSON parser, which is slow under the race detector.
func counters(t *testing.T, lines []string) []int64 {
	t.Helper()
	var all []int64
	for _, line := range lines {
		require.True(t, strings.HasPrefix(line, rowHead) && strings.HasSuffix(line, "}}"), "a whole row")
		_, rest, found := strings.Cut(line, `"counter_id":`)
		require.True(t, found)
		digits, _, _ := strings.Cut(rest, ",")
		counter, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(t, err)
		all = append(all, counter)
	}
	return all
}

type parsedRow struct {
	Timestamp uint64
	Event     struct {
		Schema string
		Source struct {
			Namespace, Component string
			ProducerID           string `json:"producer_id"`
		}
		FPM struct {
			WorkerID  string `json:"worker_id"`
			DPRank    int64  `json:"dp_rank"`
			CounterID int64  `json:"counter_id"`
		}
	}
}

func parseRow(t *testing.T, line string) (row parsedRow) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(line), &row), line)
	require.Equal(t, "dynamo.fpm.trace.v1", row.Event.Schema)
	return row
}

// readRows reads a segment as strict consumers do, with the standard library.
func readRows(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return decodeRows(t, data)
}

func decodeRows(t *testing.T, data []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(text, []byte("\n")), "ends with a whole row")
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// members splits a segment into its gzip members, each decompressed.
func members(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	reader := bufio.NewReader(f)
	z, err := gzip.NewReader(reader)
	require.NoError(t, err)
	var all []string
	for {
		z.Multistream(false)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		all = append(all, string(text))
		if err = z.Reset(reader); err == io.EOF { //nolint:errorlint // as documented
			return all
		}
		require.NoError(t, err)
	}
}

// pass is a record of the producer "4192", rank 0, observed that many milliseconds after the epoch.
func pass(counter int64, observedMillis uint64) Record {
	return passOf("4192", counter, observedMillis)
}

func passOf(producer string, counter int64, observedMillis uint64) Record {
	return Record{
		Source:           fpm.Source{Namespace: "default", Component: "backend", ProducerID: producer},
		Worker:           producer,
		CounterID:        counter,
		CaptureMode:      "full",
		ObservedUnixNano: observedMillis * 1e6,
		Canonical:        payload(producer, counter, ""),
	}
}

// payload is a canonical payload; with a filler its row can be made as large as a test needs.
func payload(worker string, counter int64, filler string) []byte {
	p := fpm.ForwardPass{WorkerID: []byte(worker), CounterID: counter, WallTime: 0.025}
	p.Scheduled.DecodeRequests, p.Scheduled.DecodeKVTokens = 3, 1024
	encoded := fpm.AppendPayload(nil, &p)
	if filler == "" {
		return encoded
	}
	encoded[0]++ // one more pair
	return fpm.AppendString(fpm.AppendString(encoded, "filler"), filler)
}

// sized is a record whose row has n bytes, with a timestamp of one digit.
func sized(counter int64, n int) Record {
	r := pass(counter, uint64(counter))
	r.Canonical = payload("4192", counter, "x")
	length := len(appendRecord(appendRowHead(nil, 0), &r))
	r.Canonical = payload("4192", counter, strings.Repeat("x", n-length+1))
	return r
}

func run(first, last int64) []Record {
	var all []Record
	for c := first; c <= last; c++ {
		all = append(all, pass(c, uint64(c)))
	}
	return all
}

func sequence(first, last int64) []int64 {
	var all []int64
	for c := first; c <= last; c++ {
		all = append(all, c)
	}
	return all
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func indexesOf(names []string, prefix string) []uint64 {
	var all []uint64
	for _, name := range names {
		if index, ok := parseSegmentName(prefix, name); ok {
			all = append(all, index)
		}
	}
	slices.Sort(all)
	return all
}

// put hands records over in the way of the durability, and expects all of them to be taken.
func (r *rig) put(records ...Record) {
	r.t.Helper()
	if r.cfg.Durability == Buffered {
		r.enqueue(records...)
		return
	}
	unwritten, err := r.Write(r.t.Context(), records)
	require.NoError(r.t, err)
	require.Empty(r.t, unwritten)
}

func isMember(data []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, z)
	return err == nil
}
