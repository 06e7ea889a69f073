// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// trace is one window as it arrived.
type trace struct {
	root   *span
	passes []span
	stream stream
}

// tracesOf puts spans together. Each trace must have one root, which came after
// all of its passes (COL-95), and be of one stream.
func tracesOf(t *testing.T, all []span) map[pcommon.TraceID]*trace {
	t.Helper()
	traces := map[pcommon.TraceID]*trace{}
	ids := map[pcommon.SpanID]bool{}
	for _, s := range all {
		require.False(t, s.TraceID().IsEmpty())
		require.False(t, s.SpanID().IsEmpty())
		require.False(t, ids[s.SpanID()], "a span id occurs twice")
		ids[s.SpanID()] = true
		of := traces[s.TraceID()]
		if of == nil {
			of = &trace{stream: streamOf(s)}
			traces[s.TraceID()] = of
		}
		require.Equal(t, of.stream, streamOf(s), "streams share a trace")
		require.Nil(t, of.root, "a span came after its root")
		if s.Name() == "forward_pass.window" {
			of.root = &s
			continue
		}
		require.Equal(t, "forward_pass", s.Name())
		of.passes = append(of.passes, s)
	}
	for id, of := range traces {
		require.NotNil(t, of.root, "trace %v has no root", id)
		require.NotEmpty(t, of.passes)
		for _, s := range of.passes {
			require.Equal(t, of.root.SpanID(), s.ParentSpanID())
			require.Zero(t, s.Links().Len())
		}
		require.True(t, of.root.ParentSpanID().IsEmpty())
	}
	return traces
}

func streamOf(s span) stream {
	worker, _ := s.resource["service.instance.id"].(string)
	return stream{worker, integer(s.Attributes(), "fpm.dp_rank")}
}

// slew: windows are measured by the steady clock, timestamps are those of the wall
// clock, which may be slewed by 1/2000 meanwhile.
const slew = 1000

// requireBounded is FR-33: neither too many spans nor too long, unless a single
// pass is longer.
func (of *trace) requireBounded(t *testing.T, maxSpans int, window time.Duration) {
	t.Helper()
	require.LessOrEqual(t, len(of.passes)+1, maxSpans)
	first, last, longest := pcommon.Timestamp(math.MaxUint64), pcommon.Timestamp(0), time.Duration(0)
	for _, s := range of.passes {
		first, last = min(first, s.StartTimestamp()), max(last, s.EndTimestamp())
		longest = max(longest, length(s))
	}
	require.Equal(t, first, of.root.StartTimestamp())
	require.Equal(t, last, of.root.EndTimestamp())
	require.LessOrEqual(t, length(*of.root), max(window+window/slew, longest))
}

func length(s span) time.Duration { return time.Duration(s.EndTimestamp() - s.StartTimestamp()) }

// requireTotals compares the root with the sums over its passes' payloads.
func (of *trace) requireTotals(t *testing.T, number int64, passes []payload) {
	t.Helper()
	seconds := new(big.Float).SetPrec(2000) // exact
	sums := make([]*big.Int, 5)
	for i := range sums {
		sums[i] = new(big.Int)
	}
	for _, p := range passes {
		seconds.Add(seconds, big.NewFloat(p.WallTime))
		for i, value := range []int64{
			p.Scheduled.PrefillRequests, p.Scheduled.PrefillTokens, p.Scheduled.PrefillKVTokens,
			p.Scheduled.DecodeRequests, p.Scheduled.DecodeKVTokens,
		} {
			sums[i].Add(sums[i], big.NewInt(value))
		}
	}
	attributes := of.root.Attributes().AsRaw()
	total, _ := seconds.Float64()
	require.InEpsilon(t, total, attributes["fpm.window.time"], 1e-12)
	ratio, _ := attributes["fpm.busy_ratio"].(float64)
	if d := length(*of.root).Seconds(); d > 0 {
		require.InDelta(t, d, total/ratio, d/slew+1e-6)
	} else {
		require.Zero(t, ratio)
	}
	for i, name := range []string{
		"fpm.window.prefill_steps", "fpm.window.prefill_tokens", "fpm.window.prefill_kv_tokens",
		"fpm.window.decode_steps", "fpm.window.decode_kv_tokens",
	} {
		require.Equal(t, saturated(sums[i]), attributes[name], name)
	}
	require.Equal(t, number, attributes["fpm.window.number"])
	require.EqualValues(t, len(passes), attributes["fpm.window.passes"])
}

func saturated(sum *big.Int) int64 {
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return sum.Int64()
}

// requireChain: window N of a stream links to window N-1, and to no other.
func requireChain(t *testing.T, windows []span) {
	t.Helper()
	for i, root := range windows {
		require.EqualValues(t, i+1, integer(root.Attributes(), "fpm.window.number"))
		if i == 0 {
			require.Zero(t, root.Links().Len())
			continue
		}
		require.Equal(t, 1, root.Links().Len())
		link := root.Links().At(0)
		require.Equal(t, windows[i-1].TraceID(), link.TraceID())
		require.Equal(t, windows[i-1].SpanID(), link.SpanID())
	}
}

// byStream groups spans, in the order in which they came.
func byStream(all []span) map[stream][]span {
	streams := map[stream][]span{}
	for _, s := range all {
		streams[streamOf(s)] = append(streams[streamOf(s)], s)
	}
	return streams
}
