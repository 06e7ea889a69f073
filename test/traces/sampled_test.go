// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestSampledTracesStayReadable_SMP23 runs the sampler beside the whole traces:
// every root passes unchanged, and each sampled span, the newest of its tick, has
// its root.
func TestSampledTracesStayReadable_SMP23(t *testing.T) {
	const each, runs = 200, 5
	whole, sampled, e := startBackend(t), startBackend(t), startEngine(t)
	collector := harness.Start(t, fmt.Sprintf(`
receivers: {fpm: %s}
processors: {fpm_sampler: {interval: 100ms}}
exporters: {otlp_grpc: %s, otlp_grpc/sampled: %s}
service:
  pipelines:
    traces: {receivers: [fpm], exporters: [otlp_grpc]}
    traces/sampled: {receivers: [fpm], processors: [fpm_sampler], exporters: [otlp_grpc/sampled]}
`, e.receiver("{max_spans: 50}"), whole.exporter(), sampled.exporter()))
	e.waitSubscribers()
	for run := range runs {
		e.publishRandom(each, uint64(run*each))
		// A tick has emitted something of this run of every stream.
		harness.Eventually(t, func() bool {
			newest := newestCounters(sampled.passes())
			for id := range e.sockets {
				if counter, ok := newest[id]; !ok || counter < int64(run*each) {
					return false
				}
			}
			return true
		}, "nothing of run %d was sampled", run)
	}
	collector.WaitSum(metricRecords, nil, float64(runs*each*len(e.sockets)))
	collector.Stop()

	spans := map[pcommon.SpanID]span{}
	for _, s := range whole.all() {
		spans[s.SpanID()] = s
	}
	require.Equal(t, names(whole.windows()), names(sampled.windows()), "roots pass, in order")
	for _, s := range sampled.windows() {
		require.Equal(t, spans[s.SpanID()].Attributes().AsRaw(), s.Attributes().AsRaw(), "no stamp")
	}
	passes := sampled.passes()
	require.GreaterOrEqual(t, len(passes), runs*len(e.sockets))
	require.Less(t, len(passes), len(whole.passes())/2)
	roots := map[pcommon.SpanID]span{}
	for _, root := range sampled.windows() {
		roots[root.SpanID()] = root
	}
	for _, s := range passes {
		root, ok := roots[s.ParentSpanID()]
		require.True(t, ok, "a sampled span has no root")
		require.Equal(t, root.TraceID(), s.TraceID())
		require.Equal(t, streamOf(root), streamOf(s))
		requireStamped(t, spans[s.SpanID()], s)
	}
	require.Equal(t, newestCounters(whole.passes()), newestCounters(passes), "the last one leaves at shutdown at the latest")
}

func names(all []span) (names []string) {
	for _, s := range all {
		names = append(names, s.TraceID().String()+" "+s.SpanID().String())
	}
	return names
}

// newestCounters is the counter of the last span of each stream.
func newestCounters(passes []span) map[stream]int64 {
	newest := map[stream]int64{}
	for _, s := range passes {
		newest[streamOf(s)] = integer(s.Attributes(), "fpm.counter_id")
	}
	return newest
}

// requireStamped: a sampled span is the original with fpm.capture_mode.
func requireStamped(t *testing.T, original, sampled span) {
	t.Helper()
	want := original.Attributes().AsRaw()
	want["fpm.capture_mode"] = "sampled"
	require.Equal(t, want, sampled.Attributes().AsRaw())
	require.Equal(t, original.Name(), sampled.Name())
	require.Equal(t, original.StartTimestamp(), sampled.StartTimestamp())
	require.Equal(t, original.EndTimestamp(), sampled.EndTimestamp())
	require.Equal(t, original.resource, sampled.resource)
}
