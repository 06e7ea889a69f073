// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

func tracesConfig() *TracesConfig { return &TracesConfig{Window: 10 * time.Second, MaxSpans: 1000} }

func newTraces(cfg *TracesConfig) *StreamTraces {
	return NewStreamTraces(cfg, fpm.StreamKey{Endpoint: "tcp://a:1", WorkerID: "7", DPRank: 3}, receivedAt)
}

func TestOnlyTimedPassesBecomeSpans_FR_15(t *testing.T) {
	cfg := tracesConfig()
	cfg.MinDuration = 10 * time.Millisecond
	traces := newTraces(cfg)
	require.True(t, traces.Wants(work(0.01, 0, 0, 1)))
	require.False(t, traces.Wants(work(0.0099, 0, 0, 1)), "under min_duration")
	require.False(t, traces.Wants(work(0, 0, 0, 1)), "untimed")
	require.False(t, traces.Wants(work(86401, 0, 0, 1)), "over 24 h")
	require.False(t, traces.Wants(&fpm.ForwardPass{}), "heartbeat")
	require.False(t, traces.Wants(&fpm.ForwardPass{Queued: fpm.Queued{PrefillRequests: 1}}), "queue_only")
}

// One hour at 100 passes a second: no trace is longer than the window or has
// more than max_spans (FR-33).
func TestFR_33_TracesAreBounded(t *testing.T) {
	for _, cfg := range []*TracesConfig{tracesConfig(), {Window: 10 * time.Second, MaxSpans: 100}, {Window: time.Hour, MaxSpans: 2}} {
		traces := newTraces(cfg)
		seen := map[pcommon.TraceID]int{}
		spans := map[pcommon.SpanID]bool{}
		var closed []*Window
		for i := range 360_000 / 10 {
			id, window := traces.Add(work(0.01, 0, 0, 1), receivedAt.Add(time.Duration(i)*10*time.Millisecond))
			seen[id.Trace]++
			require.False(t, spans[id.Span], "span ids differ")
			spans[id.Span] = true
			require.NotEqual(t, id.Span, id.Parent)
			if window != nil {
				closed = append(closed, window)
			}
		}
		closed = append(closed, traces.Close())
		require.Len(t, seen, len(closed))
		for i, window := range closed {
			require.LessOrEqual(t, seen[window.id.trace]+1, cfg.MaxSpans)
			require.EqualValues(t, seen[window.id.trace], window.Passes)
			require.LessOrEqual(t, window.End.Sub(window.Start), cfg.Window)
			require.EqualValues(t, i+1, window.Number)
			if i > 0 {
				require.Equal(t, closed[i-1].id, window.previous, "each links to the one before")
			}
		}
	}
}

func TestFR_33_IDsNeverMeet(t *testing.T) {
	seen := map[pcommon.TraceID]bool{}
	for _, endpoint := range []string{"tcp://a:1", "tcp://b:1"} {
		for _, worker := range []string{"", "7", `7" 3`} {
			for rank := range int64(3) {
				for life := range 3 {
					traces := NewStreamTraces(tracesConfig(), fpm.StreamKey{Endpoint: endpoint, WorkerID: worker, DPRank: rank}, receivedAt.Add(time.Duration(life)))
					for window := range 3 {
						id, _ := traces.Add(work(0.01, 0, 0, 1), receivedAt.Add(time.Duration(window)*time.Minute))
						require.False(t, seen[id.Trace])
						require.False(t, id.Trace.IsEmpty())
						seen[id.Trace] = true
					}
				}
			}
		}
	}
	require.Len(t, seen, 2*3*3*3*3)
}

func TestIDsAreDeterministic(t *testing.T) {
	first, _ := newTraces(tracesConfig()).Add(work(0.01, 0, 0, 1), receivedAt)
	second, _ := newTraces(tracesConfig()).Add(work(0.02, 0, 0, 1), receivedAt.Add(time.Second))
	require.Equal(t, first, second, "they follow from the stream, its start, the window and the place in it")
}

func TestASinglePassMayBeLongerThanTheWindow(t *testing.T) {
	traces := newTraces(tracesConfig())
	_, closed := traces.Add(work(60, 0, 0, 1), receivedAt)
	require.Nil(t, closed)
	_, closed = traces.Add(work(0.01, 0, 0, 1), receivedAt.Add(time.Millisecond))
	require.NotNil(t, closed)
	require.Equal(t, time.Minute, closed.End.Sub(closed.Start))
	require.InDelta(t, 1, closed.BusyRatio(), 1e-9)
}

// An engine that overlaps passes may report one that began before the window's
// first: the root covers it, and huge counts stop at the highest number (STR-71).
func TestSTR_71_RootCoversItsPasses(t *testing.T) {
	traces := newTraces(tracesConfig())
	for i, wall := range []float64{0.01, 2} {
		p := work(wall, 0, 0, 1)
		p.Scheduled.PrefillTokens = math.MaxInt64
		traces.Add(p, receivedAt.Add(time.Duration(i)*time.Second))
	}
	window := traces.Close()
	require.Equal(t, receivedAt.Add(-time.Second), window.Start)
	require.Equal(t, receivedAt.Add(time.Second), window.End)
	require.EqualValues(t, math.MaxInt64, window.Work.PrefillTokens)
	require.InDelta(t, 2.01/2, window.BusyRatio(), 1e-12)
}

func TestWindowsEndWithoutPasses(t *testing.T) {
	traces := newTraces(tracesConfig())
	require.Nil(t, traces.Expire(receivedAt))
	require.Nil(t, traces.Close())
	traces.Add(work(1, 2, 20, 3), receivedAt)
	traces.Add(work(2, 2, 20, 3), receivedAt.Add(4*time.Second))
	require.Nil(t, traces.Expire(receivedAt.Add(8*time.Second)))
	closed := traces.Expire(receivedAt.Add(9 * time.Second)) // 10 s after the first pass began
	require.NotNil(t, closed)
	require.EqualValues(t, 2, closed.Passes)
	require.InDelta(t, 3, closed.Seconds, 1e-9)
	require.InDelta(t, 3./5, closed.BusyRatio(), 1e-9)
	require.Equal(t, fpm.Scheduled{PrefillRequests: 4, PrefillTokens: 40, PrefillKVTokens: 40, DecodeRequests: 6, DecodeKVTokens: 600}, closed.Work)
	require.Nil(t, traces.Expire(receivedAt.Add(time.Hour)), "once")
}

func TestSpans(t *testing.T) {
	traces := newTraces(tracesConfig())
	p := work(0.006472394, 1, 128, 2)
	p.DPRank, p.CounterID, p.TimingScope = 3, 42, []byte("model")
	p.Scheduled.HasPrefillLengthVariance, p.Scheduled.PrefillLengthVariance = true, 100.5
	p.Queued.HasDecodeKVVariance, p.Queued.DecodeKVVariance = true, 0.5
	id, _ := traces.Add(p, receivedAt)
	b := NewTracesBuilder("scope", "1.2.3")
	pass := &Span{Worker: testWorker(), ServerAddress: "10.0.0.7", ServerPort: 20380}
	pass.SetPass(p, id, receivedAt)
	b.Append(pass)
	b.Append(&Span{Worker: testWorker(), ServerAddress: "10.0.0.7", ServerPort: 20380, DPRank: 3, Root: traces.Close()})
	traces.Add(p, receivedAt.Add(time.Minute))
	b.Append(&Span{Worker: testWorker(), ServerAddress: "/run/fpm.0", DPRank: 3, Root: traces.Close()})

	taken := b.Take()
	require.Equal(t, 1, taken.ResourceSpans().Len())
	spans := taken.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	child, root, second := spans.At(0), spans.At(1), spans.At(2)

	require.Equal(t, "forward_pass", child.Name())
	require.Equal(t, ptrace.SpanKindInternal, child.Kind())
	require.Equal(t, pcommon.NewTimestampFromTime(receivedAt), child.EndTimestamp())
	require.EqualValues(t, 6_472_394, child.EndTimestamp()-child.StartTimestamp(), "to the nanosecond")
	require.Equal(t, map[string]any{
		"fpm.pass.kind": "mixed", "fpm.timing_scope": "model", "fpm.counter_id": int64(42), "fpm.dp_rank": int64(3),
		"server.address": "10.0.0.7", "server.port": int64(20380),
		"fpm.scheduled.prefill_requests": int64(1), "fpm.scheduled.prefill_tokens": int64(128), "fpm.scheduled.prefill_kv_tokens": int64(10),
		"fpm.scheduled.decode_requests": int64(2), "fpm.scheduled.decode_kv_tokens": int64(200), "fpm.scheduled.prefill_length_variance": 100.5,
		"fpm.queued.prefill_requests": int64(7), "fpm.queued.prefill_tokens": int64(700), "fpm.queued.decode_requests": int64(2),
		"fpm.queued.decode_kv_tokens": int64(20), "fpm.queued.decode_kv_tokens_variance": 0.5,
	}, child.Attributes().AsRaw())
	require.True(t, IsForwardPassSpan(child))

	require.Equal(t, "forward_pass.window", root.Name())
	require.False(t, IsForwardPassSpan(root), "a sampler lets it through (SMP-23)")
	require.Equal(t, child.TraceID(), root.TraceID())
	require.Equal(t, child.ParentSpanID(), root.SpanID())
	require.True(t, root.ParentSpanID().IsEmpty())
	require.Zero(t, root.Links().Len(), "nothing comes before the first")
	require.Equal(t, child.StartTimestamp(), root.StartTimestamp())
	require.Equal(t, child.EndTimestamp(), root.EndTimestamp())
	require.Equal(t, map[string]any{
		"fpm.dp_rank": int64(3), "server.address": "10.0.0.7", "server.port": int64(20380), "fpm.window.number": int64(1), "fpm.window.passes": int64(1),
		"fpm.window.time": 0.006472394, "fpm.window.prefill_steps": int64(1), "fpm.window.prefill_tokens": int64(128),
		"fpm.window.prefill_kv_tokens": int64(10), "fpm.window.decode_steps": int64(2), "fpm.window.decode_kv_tokens": int64(200),
		"fpm.busy_ratio": 1.0,
	}, root.Attributes().AsRaw())

	require.NotEqual(t, root.TraceID(), second.TraceID())
	require.Equal(t, 1, second.Links().Len())
	require.Equal(t, root.TraceID(), second.Links().At(0).TraceID())
	require.Equal(t, root.SpanID(), second.Links().At(0).SpanID())
}

func BenchmarkSpans(b *testing.B) {
	traces := newTraces(tracesConfig())
	builder := NewTracesBuilder("scope", "")
	p := work(0.01, 1, 128, 2)
	worker := testWorker()
	at := receivedAt
	b.ReportAllocs()
	b.SetBytes(1)
	for i := 0; b.Loop(); i++ {
		at = at.Add(10 * time.Millisecond)
		id, _ := traces.Add(p, at)
		s := Span{Worker: worker, ServerAddress: "10.0.0.7", ServerPort: 20380}
		s.SetPass(p, id, at)
		builder.Append(&s)
		if i%100 == 99 {
			builder.Take()
		}
	}
}
