// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

const (
	ackSenders        = 4
	recordsPerRequest = 25
)

// kills is how often the collector is killed: E2E_KILLS, else 10. The subset of make
// test kills it once.
func kills(t *testing.T) int {
	t.Helper()
	if testing.Short() {
		return 1
	}
	text := os.Getenv("E2E_KILLS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "E2E_KILLS")
	require.Positive(t, n, "E2E_KILLS")
	return n
}

// recordKey names one record of the test.
type recordKey struct {
	worker  string
	counter int64
}

// sentRecord is what is known of a record that was offered.
type sentRecord struct {
	acknowledged bool
	life         int // of the collector, when it was offered
}

// senders offer records by OTLP, each record once, and keep what was acknowledged.
type senders struct {
	t      *testing.T
	url    string
	client *http.Client
	life   atomic.Int64 // of the collector: kills so far

	mu      sync.Mutex
	records map[recordKey]sentRecord
	acked   int
}

// TestAcknowledgedSurvivesKill_FIL57 kills the collector again and again under
// load. With durability synced and a stored, synced queue, nothing that the OTLP
// receiver acknowledged is missing afterwards, no record stands more often than
// redelivery explains, and no file is damaged but for a torn tail.
func TestAcknowledgedSurvivesKill_FIL57(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "rows")
	address := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1))
	config := ackConfig(address, base, filepath.Join(dir, "queue"))
	s := &senders{
		t: t, url: "http://" + address + "/v1/logs", records: map[recordKey]sentRecord{},
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: ackSenders}},
	}
	defer s.client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for i := range ackSenders {
		running.Go(func() { s.run(ctx, fmt.Sprintf("w%d", i)) })
	}

	n := kills(t)
	found := newShelf(base)
	random := rand.New(rand.NewPCG(57, 57))
	for range n {
		collector := harness.Start(t, config) // ready: the stored queue is open again (FIL-57)
		before := s.acknowledged()
		harness.Eventually(t, func() bool { return s.acknowledged() > before }, "nothing is acknowledged")
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		collector.Kill()
		collector.RequireNoPanic()
		found.read(t, int(s.life.Load()))
		s.life.Add(1)
	}
	collector := harness.Start(t, config)
	before := s.acknowledged()
	harness.Eventually(t, func() bool { return s.acknowledged() > before }, "nothing is acknowledged")
	cancel()
	running.Wait()

	harness.Eventually(t, func() bool { return len(s.missing(rowsNow(t, base))) == 0 }, "acknowledged records are missing")
	collector.Stop()
	collector.RequireNoPanic()
	found.read(t, n)
	s.requireSound(found.copies)
}

func ackConfig(address, base, storage string) string {
	return fmt.Sprintf(`
receivers:
  otlp: {protocols: {http: {endpoint: '%s'}}}
exporters:
  fpm_trace:
    path: '%s'
    durability: synced
    max_segments: 100000
    sending_queue:
      storage: file_storage
      queue_size: 10000
      batch: {flush_timeout: 100ms, min_size: 200, max_size: 2000}
extensions:
  file_storage: {directory: '%s', create_directory: true, fsync: true}
service:
  extensions: [file_storage]
  pipelines:
    logs: {receivers: [otlp], exporters: [fpm_trace]}
`, address, base, storage)
}

// run offers request after request until the context ends. A request that failed
// is not offered again, so redelivery can only come from the collector.
func (s *senders) run(ctx context.Context, worker string) {
	for first := int64(0); ctx.Err() == nil; first += recordsPerRequest {
		// LogsData and ExportLogsServiceRequest have the same wire form.
		body, err := new(plog.ProtoMarshaler).MarshalLogs(request(worker, first))
		if err != nil {
			s.t.Error(err)
			return
		}
		s.offered(worker, first)
		if s.post(body) {
			s.confirmed(worker, first)
		} else {
			time.Sleep(100 * time.Millisecond) // it is down
		}
		time.Sleep(time.Millisecond)
	}
}

// post reports whether the collector acknowledged everything. The answer then has
// no partial success, or an empty one (field 1, length 0).
func (s *senders) post(body []byte) bool {
	response, err := s.client.Post(s.url, "application/x-protobuf", bytes.NewReader(body)) //nolint:noctx // has a timeout
	if err != nil {
		return false
	}
	answer, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		return false
	}
	return len(answer) == 0 || bytes.Equal(answer, []byte{0x0a, 0})
}

// request holds records of one worker, as a receiver fpm would emit them.
func request(worker string, first int64) plog.Logs {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr(fpmpdata.AttrServiceNamespace, "default")
	resource.Resource().Attributes().PutStr(fpmpdata.AttrServiceName, "backend")
	resource.Resource().Attributes().PutStr(fpmpdata.AttrServiceInstanceID, worker)
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	for counter := first; counter < first+recordsPerRequest; counter++ {
		pass := fpm.ForwardPass{
			WorkerID: []byte(worker), CounterID: counter, WallTime: 0.025,
			Scheduled: fpm.Scheduled{DecodeRequests: 1, DecodeKVTokens: counter},
		}
		record := records.AppendEmpty()
		record.SetEventName(fpmpdata.EventName)
		record.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		record.SetObservedTimestamp(record.Timestamp())
		record.Attributes().PutStr(fpmpdata.AttrWorkerID, worker)
		record.Attributes().PutInt(fpmpdata.AttrDPRank, 0)
		record.Attributes().PutInt(fpmpdata.AttrCounterID, counter)
		record.Body().SetEmptyBytes().FromRaw(fpm.AppendPayload(nil, &pass))
	}
	return logs
}

func (s *senders) offered(worker string, first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for counter := first; counter < first+recordsPerRequest; counter++ {
		s.records[recordKey{worker, counter}] = sentRecord{life: int(s.life.Load())}
	}
}

func (s *senders) confirmed(worker string, first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for counter := first; counter < first+recordsPerRequest; counter++ {
		key := recordKey{worker, counter}
		record := s.records[key]
		record.acknowledged = true
		s.records[key] = record
	}
	s.acked += recordsPerRequest
}

func (s *senders) acknowledged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// missing lists the acknowledged records without a row.
func (s *senders) missing(rows map[recordKey][]int) (keys []recordKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, record := range s.records {
		if record.acknowledged && len(rows[key]) == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// requireSound judges the rows of all files.
func (s *senders) requireSound(rows map[recordKey][]int) {
	s.t.Helper()
	require.Empty(s.t, s.missing(rows), "acknowledged, and without a row")
	drained := s.drained(rows)
	repeated := 0
	for key, lives := range rows {
		_, known := s.records[key]
		require.True(s.t, known, "%+v was never sent", key)
		require.True(s.t, redelivered(lives, drained), "%+v was written in the lives %v, which no redelivery explains", key, lives)
		if len(lives) > 1 {
			repeated++
		}
	}
	s.t.Logf("%d kills: %d records acknowledged of %d offered, %d rows, %d of them more than once",
		s.life.Load(), s.acked, len(s.records), len(rows), repeated)
	require.Less(s.t, repeated, len(rows), "only what was in flight comes again")
}

// drained are the lives that wrote a record that was offered in them. What waited
// in the queue at their start was written before, because the queue keeps the order.
func (s *senders) drained(rows map[recordKey][]int) map[int]bool {
	lives := map[int]bool{}
	for key, written := range rows {
		if offered := s.records[key].life; slices.Contains(written, offered) {
			lives[offered] = true
		}
	}
	return lives
}

// redelivered tells whether a kill explains each row of a record beyond the first:
// it was written, and the kill came before the queue had noted so. Then the next life
// writes it once more, or a later one if that does not get so far.
func redelivered(lives []int, drained map[int]bool) bool {
	for i := 1; i < len(lives); i++ {
		if lives[i] <= lives[i-1] {
			return false
		}
		for between := lives[i-1] + 1; between < lives[i]; between++ {
			if drained[between] {
				return false
			}
		}
	}
	return true
}

func TestRedelivered_FIL57(t *testing.T) {
	drained := map[int]bool{0: true, 1: true, 3: true}
	for _, tc := range []struct {
		lives []int
		want  bool
	}{
		{[]int{0}, true},
		{[]int{0, 1}, true},
		{[]int{0, 1, 2}, true},
		{[]int{1, 3}, true}, // life 2 did not get so far
		{[]int{0, 0}, false},
		{[]int{0, 2}, false},
		{[]int{0, 1, 1}, false},
		{[]int{1, 4}, false},
	} {
		require.Equal(t, tc.want, redelivered(tc.lives, drained), "%v", tc.lives)
	}
}

// shelf knows the segments that were read, and in which life of the collector each
// record was written, once for each row. No life touches the segments of another.
type shelf struct {
	base   string
	known  map[string]bool
	copies map[recordKey][]int
}

func newShelf(base string) *shelf {
	return &shelf{base: base, known: map[string]bool{}, copies: map[recordKey][]int{}}
}

// read takes the segments that are new as those of a life that has ended. Each may
// have a torn tail (FIL-57).
func (s *shelf) read(t *testing.T, life int) {
	t.Helper()
	for _, path := range harness.Segments(t, s.base) {
		if s.known[path] {
			continue
		}
		s.known[path] = true
		rows, _ := harness.ReadSegment(t, path)
		for _, row := range rows {
			id := identityOf(t, row.FPM)
			require.Equal(t, row.ProducerID, id.WorkerID)
			key := recordKey{id.WorkerID, id.CounterID}
			s.copies[key] = append(s.copies[key], life)
		}
	}
}

// rowsNow are the rows of all files so far.
func rowsNow(t *testing.T, base string) map[recordKey][]int {
	t.Helper()
	s := newShelf(base)
	s.read(t, 0)
	return s.copies
}
