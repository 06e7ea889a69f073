// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// Own telemetry that the tests look at.
const (
	metricRecords  = "otelcol_fpm_receiver_records"
	metricRestarts = "otelcol_fpm_receiver_restarts"
	metricDropped  = "otelcol_fpm_receiver_dropped_records"
)

// logsAndTraces is a configuration of both signals from one receiver to one
// backend.
func logsAndTraces(receiver string, b *backend) string {
	return fmt.Sprintf(`
receivers: {fpm: %s}
exporters: {otlp_grpc: %s}
service:
  pipelines:
    logs: {receivers: [fpm], exporters: [otlp_grpc]}
    traces: {receivers: [fpm], exporters: [otlp_grpc]}
`, receiver, b.exporter())
}

// engine is a publisher of two ranks over tcp, and of one of another worker over
// ipc.
type engine struct {
	*harness.Publisher
	port    int
	ipc     string
	sockets map[stream]int
}

func startEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{
		Publisher: harness.StartPublisher(t),
		port:      harness.FreePorts(t, 2),
		ipc:       "ipc://" + filepath.Join(t.TempDir(), "fpm"),
	}
	e.sockets = map[stream]int{
		{"w", 0}: e.Bind(fmt.Sprintf("tcp://127.0.0.1:%d", e.port)),
		{"w", 1}: e.Bind(fmt.Sprintf("tcp://127.0.0.1:%d", e.port+1)),
		{"v", 0}: e.Bind(e.ipc),
	}
	return e
}

func (e *engine) receiver(traces string) string {
	return fmt.Sprintf("{namespace: prod, component: prefill, backend: dynamo_vllm, endpoints: [{endpoint: '127.0.0.1:%d', dp_size: 2}, "+
		"{endpoint: '%s', attributes: {cluster: east}}], traces: %s}", e.port, e.ipc, traces)
}

func (e *engine) waitSubscribers() {
	for _, socket := range e.sockets {
		e.WaitSubscribers(socket, 1)
	}
}

// publishRandom publishes a run of random records on every socket, in which all
// kinds of record are.
func (e *engine) publishRandom(count int, first uint64) {
	for i, id := range slices.SortedFunc(maps.Keys(e.sockets), compareStreams) {
		e.Passes(e.sockets[id], harness.Passes{
			Count: count, First: first, Seed: int64(first) + int64(i), WorkerID: id.worker, DPRank: id.rank,
		})
	}
}

func compareStreams(a, b stream) int {
	return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.rank, b.rank))
}

// TestSpansSayWhatWasPublished_COL95_FR34 compares every span with the payload of
// its pass and with the log record of the same pass.
func TestSpansSayWhatWasPublished_COL95_FR34(t *testing.T) {
	const each, maxSpans, window = 1000, 40, 10 * time.Second
	b, e := startBackend(t), startEngine(t)
	collector := harness.Start(t, logsAndTraces(e.receiver(fmt.Sprintf("{max_spans: %d, window: %v}", maxSpans, window)), b))
	e.waitSubscribers()
	e.publishRandom(each, 1)
	collector.WaitSum(metricRecords, nil, float64(each*len(e.sockets)))
	require.Zero(t, collector.Metrics().Sum(metricDropped, nil))
	collector.Stop()

	payloads := published(t, e.Publisher)
	records := recordsByStream(b.logRecords())
	passes := byStream(b.passes())
	require.Len(t, payloads, len(e.sockets))
	for id, sent := range payloads {
		requireSpans(t, passes[id], sent, records[id])
		requirePlace(t, e, id, passes[id])
	}
	require.Len(t, passes, len(payloads))

	traces := tracesOf(t, b.all())
	for _, of := range traces {
		of.requireBounded(t, maxSpans, window)
	}
	for id, windows := range byStream(b.windows()) {
		requireChain(t, windows)
		require.Greater(t, len(windows), 10, "max_spans must have cut %v", id)
		left := timedOf(payloads[id])
		for i, root := range windows {
			of := traces[root.TraceID()]
			of.requireTotals(t, int64(i+1), left[:len(of.passes)])
			left = left[len(of.passes):]
			requirePlace(t, e, id, []span{root})
		}
		require.Empty(t, left)
	}
}

func timedOf(sent []payload) (timed []payload) {
	for _, p := range sent {
		if p.timed() {
			timed = append(timed, p)
		}
	}
	return timed
}

func recordsByStream(all []record) map[stream][]record {
	streams := map[stream][]record{}
	for _, r := range all {
		id := stream{text(r.Attributes(), "fpm.worker_id"), integer(r.Attributes(), "fpm.dp_rank")}
		streams[id] = append(streams[id], r)
	}
	return streams
}

// requireSpans compares the spans of a stream with all of its payloads and log
// records: a span for each timed one, in their order (FR-15).
func requireSpans(t *testing.T, passes []span, sent []payload, records []record) {
	t.Helper()
	require.Len(t, records, len(sent))
	require.NotEmpty(t, passes)
	for i, p := range sent {
		require.Equal(t, p.CounterID, integer(records[i].Attributes(), "fpm.counter_id"))
		if !p.timed() {
			continue
		}
		require.NotEmpty(t, passes, "pass %d has no span", p.CounterID)
		requireSpan(t, passes[0], p, records[i])
		passes = passes[1:]
	}
	require.Empty(t, passes, "spans of what is not timed")
}

// place are the attributes that tell where a span came from.
var place = []string{"server.address", "server.port", "fpm.capture_mode"}

func requireSpan(t *testing.T, s span, p payload, r record) {
	t.Helper()
	require.Equal(t, ptrace.SpanKindInternal, s.Kind())
	require.Equal(t, ptrace.StatusCodeUnset, s.Status().Code())
	require.Equal(t, r.ObservedTimestamp(), s.EndTimestamp(), "the end is the time of receipt")
	require.Equal(t, p.duration(), length(s), "wall_time to the nanosecond: %v", p.WallTime)
	attributes := s.Attributes().AsRaw()
	maps.DeleteFunc(attributes, func(name string, _ any) bool { return slices.Contains(place, name) })
	require.Equal(t, p.attributes(), attributes)
	require.Equal(t, r.resource, s.resource)
}

func requirePlace(t *testing.T, e *engine, id stream, spans []span) {
	t.Helper()
	resource := map[string]any{
		"service.namespace": "prod", "service.name": "prefill", "service.instance.id": id.worker,
		"fpm.producer.id": id.worker, "fpm.backend": "dynamo_vllm",
	}
	server := map[string]any{"server.address": "127.0.0.1", "server.port": int64(e.port) + id.rank}
	if id.worker == "v" {
		resource["cluster"] = "east"
		server = map[string]any{"server.address": e.ipc[len("ipc://"):]}
	}
	for _, s := range spans {
		require.Equal(t, resource, s.resource)
		require.Equal(t, "github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver", s.scope)
		attributes := s.Attributes().AsRaw()
		maps.DeleteFunc(attributes, func(name string, _ any) bool {
			return name != "server.address" && name != "server.port"
		})
		require.Equal(t, server, attributes)
	}
}
