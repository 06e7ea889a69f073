// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// Own telemetry that the tests look at.
const (
	metricMessages   = "otelcol_fpm_receiver_messages"
	metricRecords    = "otelcol_fpm_receiver_records"
	metricInvalid    = "otelcol_fpm_receiver_invalid_messages"
	metricDuplicates = "otelcol_fpm_receiver_duplicates"
	metricMissing    = "otelcol_fpm_receiver_missing_records"
	metricGaps       = "otelcol_fpm_receiver_gaps"
	metricRestarts   = "otelcol_fpm_receiver_restarts"
	metricMismatches = "otelcol_fpm_receiver_counter_mismatches"
	metricConnects   = "otelcol_fpm_receiver_connects"
	metricDropped    = "otelcol_fpm_receiver_dropped_records"
	metricRows       = "otelcol_fpm_trace_exporter_rows_written"
	metricRowsLost   = "otelcol_fpm_trace_exporter_rows_dropped"
)

// route is one way from the publishers to files.
type route struct{ transport, body string }

var routes = []route{{"tcp", "map"}, {"tcp", "msgpack"}, {"ipc", "map"}, {"ipc", "msgpack"}}

func (r route) String() string { return r.transport + "_" + r.body }

// stage is a collector with all four routes from two ranks, and the publisher.
// A rank is one socket that is bound to tcp and to ipc, so that every subscriber
// of both transports gets the same messages.
type stage struct {
	t         *testing.T
	collector *harness.Collector
	publisher *harness.Publisher
	ranks     [2]int // socket of each rank
	bases     map[string]string
	dir       string
	published map[int]int // messages by socket
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, publisher: harness.StartPublisher(t), bases: map[string]string{}, published: map[int]int{}, dir: t.TempDir()}
	port := harness.FreePorts(t, len(s.ranks))
	for rank := range s.ranks {
		s.ranks[rank] = s.publisher.Bind(s.endpoint("tcp", port, rank), s.endpoint("ipc", port, rank))
	}
	s.collector = harness.Start(t, s.config(port))
	for _, socket := range s.ranks {
		s.publisher.WaitSubscribers(socket, len(routes))
	}
	return s
}

func (s *stage) endpoint(transport string, port, rank int) string {
	if transport == "tcp" {
		return fmt.Sprintf("tcp://127.0.0.1:%d", port+rank)
	}
	return fmt.Sprintf("ipc://%s/fpm.%d", s.dir, rank)
}

// config gives each route its receiver, exporter and pipeline; those over ipc
// have a sampler in full mode, which must change nothing (SMP-17).
func (s *stage) config(port int) string {
	var receivers, exporters, pipelines strings.Builder
	for _, r := range routes {
		base := strings.TrimSuffix(s.endpoint(r.transport, port, 0), ".0")
		s.bases[r.String()] = filepath.Join(s.dir, r.String())
		processors := ""
		if r.transport == "ipc" {
			processors = "processors: [fpm_sampler], "
		}
		fmt.Fprintf(&receivers, "  fpm/%s: {endpoints: [{endpoint: '%s', dp_size: %d}], logs: {body: %s}}\n", r, base, len(s.ranks), r.body)
		fmt.Fprintf(&exporters, "  fpm_trace/%s: {path: %s, flush_interval: 50ms, max_segments: 10000}\n", r, s.bases[r.String()])
		fmt.Fprintf(&pipelines, "    logs/%s: {receivers: [fpm/%s], %sexporters: [fpm_trace/%s]}\n", r, r, processors, r)
	}
	return fmt.Sprintf("receivers:\n%sprocessors:\n  fpm_sampler: {mode: full}\nexporters:\n%sservice:\n  pipelines:\n%s",
		receivers.String(), exporters.String(), pipelines.String())
}

// arrived waits until all routes have received everything that was published.
func (s *stage) arrived() {
	s.t.Helper()
	total := 0
	for _, n := range s.published {
		total += n
	}
	s.collector.WaitSum(metricMessages, nil, float64(total*len(routes)))
}

// vector publishes a payload and waits for it, so that each has a receive time
// of its own and its own place in the files.
func (s *stage) vector(sequence uint64, v fpmtest.Vector) {
	s.t.Helper()
	s.publisher.Payload(s.ranks[0], sequence, v.Name, hex.EncodeToString(v.Payload))
	s.published[s.ranks[0]]++
	s.arrived()
}

// TestFullStreamToRows_STR95 sends every vector and 10,000 random records over
// tcp and ipc, through both forms of the body: the valid ones arrive as rows of
// exactly the expected text, the others are counted by reason and never appear.
func TestFullStreamToRows_STR95(t *testing.T) {
	s := newStage(t)
	started := time.Now()
	expected := map[string]string{} // row text of a vector by name
	sequence := uint64(0)
	for _, v := range fpmtest.Vectors(t) {
		if !v.Valid {
			continue
		}
		if v.RowFPM != "" {
			expected[v.Name] = v.RowFPM
		}
		s.vector(sequence, v)
		// The writer drops a row that repeats the counter of its stream (FIL-29),
		// and most vectors have the same identity: another record stands between.
		id := identity{WorkerID: "4192"}
		if v.RowFPM != "" {
			id = identityOf(t, v.RowFPM)
		}
		other := id.CounterID ^ 1
		s.publisher.Record(s.ranks[0], sequence+1, "between", id.WorkerID, id.DPRank, other, 0.5)
		s.published[s.ranks[0]]++
		s.arrived()
		sequence += 2
	}

	invalid := s.invalidVectors(&sequence)
	s.oversizeVectors(&sequence, invalid)

	for rank, socket := range s.ranks {
		s.publisher.Passes(socket, harness.Passes{
			Count: 5000, First: 100_000, Seed: int64(rank), WorkerID: fmt.Sprintf("e2e-%d", rank), DPRank: int64(rank), Rate: 2500,
		})
		s.published[socket] += 5000
	}
	s.requireCounts(invalid)
	s.collector.Stop()

	sent := s.validSent(expected)
	for _, r := range routes {
		t.Run(r.String(), func(t *testing.T) { s.requireRows(t, r, sent, started) })
	}
}

// invalidVectors publishes those that cost only themselves (STR-53).
func (s *stage) invalidVectors(sequence *uint64) (byReason map[string]float64) {
	s.t.Helper()
	byReason = map[string]float64{}
	for _, v := range fpmtest.Vectors(s.t) {
		if !v.Valid && v.Reason != "oversize" {
			s.publisher.Payload(s.ranks[0], *sequence, v.Name, hex.EncodeToString(v.Payload))
			*sequence++
			byReason[v.Reason]++
			s.published[s.ranks[0]]++
		}
	}
	s.arrived()
	return byReason
}

// oversizeVectors publishes those that end the connection (ZMQ-19), and waits
// until all have connected again.
func (s *stage) oversizeVectors(sequence *uint64, byReason map[string]float64) {
	s.t.Helper()
	connects := harness.Labels{"result": "ok"}
	connected := s.collector.Metrics().Sum(metricConnects, connects)
	for _, v := range fpmtest.Vectors(s.t) {
		if v.Valid || v.Reason != "oversize" {
			continue
		}
		s.publisher.Payload(s.ranks[0], *sequence, v.Name, hex.EncodeToString(v.Payload))
		*sequence++
		byReason[v.Reason]++
		connected += float64(len(routes))
		s.collector.WaitSum(metricConnects, connects, connected)
		s.publisher.WaitSubscribers(s.ranks[0], len(routes))
	}
	require.Equal(s.t, 2.0, byReason["oversize"]) //nolint:testifylint // a count
}

// requireCounts compares the own telemetry with what was published (STR-50).
func (s *stage) requireCounts(invalid map[string]float64) {
	s.t.Helper()
	harness.Eventually(s.t, func() bool {
		m := s.collector.Metrics()
		return m.Sum(metricRecords, nil) >= float64(len(routes)*(len(s.publisher.Sent())-int(sum(invalid)))) &&
			m.Sum(metricRows, nil)+m.Sum(metricRowsLost, nil) >= m.Sum(metricRecords, nil)
	}, "records and rows do not arrive: %v", s.collector.Metrics())
	m := s.collector.Metrics()
	want := map[string]float64{}
	for reason, n := range invalid {
		want[reason] = n * float64(len(routes))
	}
	got := m.By(metricInvalid, "reason", nil)
	for reason, n := range got {
		if n == 0 {
			delete(got, reason) // reasons without a message are emitted as well
		}
	}
	require.Equal(s.t, want, got)
	for endpoint, messages := range m.By(metricMessages, "endpoint", nil) {
		of := harness.Labels{"endpoint": endpoint}
		outcomes := m.Sum(metricRecords, of) + m.Sum(metricDuplicates, of) + m.Sum(metricInvalid, of)
		require.Equal(s.t, messages, outcomes, "STR-50 at %s", endpoint) //nolint:testifylint // counts
	}
	require.Zero(s.t, m.Sum(metricDropped, nil))
	require.Zero(s.t, m.Sum(metricRowsLost, nil))
}

func sum(counts map[string]float64) (total float64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// validSent is the text of every valid record in the order of publication, by
// worker_id. A vector's own text outranks what Python makes of it.
func (s *stage) validSent(expected map[string]string) map[string][]string {
	s.t.Helper()
	valid := map[string]bool{"": true, "between": true}
	for _, v := range fpmtest.Vectors(s.t) {
		valid[v.Name] = v.Valid
	}
	byWorker := map[string][]string{}
	for _, sent := range s.publisher.Sent() {
		if !valid[sent.Name] {
			continue
		}
		text := sent.FPM
		if own, ok := expected[sent.Name]; ok {
			text = own
		}
		require.NotEmpty(s.t, text, sent.Name)
		worker := identityOf(s.t, text).WorkerID
		byWorker[worker] = append(byWorker[worker], text)
	}
	return byWorker
}

// requireRows compares the files of a route with what was sent, row by row.
func (s *stage) requireRows(t *testing.T, r route, sent map[string][]string, started time.Time) {
	t.Helper()
	rows := harness.Rows(t, s.bases[r.String()])
	got := map[string][]string{}
	for _, row := range rows {
		worker := identityOf(t, row.FPM).WorkerID
		got[worker] = append(got[worker], row.FPM)
		requireEnvelope(t, row, worker, started)
	}
	require.Len(t, got, len(sent))
	for worker, want := range sent {
		require.Len(t, got[worker], len(want), "worker %q", worker)
		for i := range want {
			if want[i] != got[worker][i] {
				require.Equal(t, want[i], got[worker][i], "worker %q, row %d", worker, i)
			}
		}
	}
}

func requireEnvelope(t *testing.T, row harness.Row, worker string, started time.Time) {
	t.Helper()
	sound := row.Schema == "dynamo.fpm.trace.v1" && row.Namespace == "default" && row.Component == "backend" && row.CaptureMode == "full" &&
		row.ObservedMS >= uint64(started.UnixMilli()) && row.ObservedMS <= uint64(time.Now().UnixMilli())
	if worker == "" {
		sound = sound && strings.Contains(row.ProducerID, "://") // the endpoint (STR-103)
	} else {
		sound = sound && row.ProducerID == worker
	}
	require.True(t, sound, "%+v", row)
}

// TestSequenceAccounting_STR66 leaves a hole, repeats a message and starts anew.
func TestSequenceAccounting_STR66(t *testing.T) {
	s := newStage(t)
	socket := s.ranks[1]
	publish := func(first uint64, count int) {
		s.publisher.Passes(socket, harness.Passes{Count: count, First: first, Seed: int64(first), WorkerID: "w", DPRank: 1})
		s.published[socket] += count
		s.arrived()
	}
	publish(7, 500)
	publish(517, 500)                                               // 10 missing, one gap
	s.publisher.Record(socket, 1016, "again", "w", 1, 1016, 0.5)    // the sequence of the last one
	s.publisher.Payload(socket, 1017, "broken", "80")               // received, so not missing (STR-69)
	s.publisher.Record(socket, 1018, "mismatch", "w", 1, 4711, 0.5) // counter_id is not the sequence (STR-67)
	s.published[socket] += 3
	s.arrived()
	publish(0, 100) // a restart
	s.publisher.Heartbeats(socket, 3, 100, "w", 1, 10*time.Millisecond)
	s.published[socket] += 3
	s.arrived()

	m := s.collector.Metrics()
	each := float64(len(routes))
	for metric, want := range map[string]float64{
		metricMissing: 10, metricGaps: 1, metricDuplicates: 1, metricInvalid: 1, metricMismatches: 1, metricRestarts: 1,
		metricRecords: 500 + 500 + 1 + 100 + 3,
	} {
		require.Equal(t, want*each, m.Sum(metric, nil), metric) //nolint:testifylint // counts
	}
	s.collector.Stop()
	for _, r := range routes {
		rows := harness.Rows(t, s.bases[r.String()])
		require.Len(t, rows, 500+500+1+100+3, r)
		require.Len(t, harness.Segments(t, s.bases[r.String()]), 2, "a restart begins a new segment (FIL-28)")
	}
}
