// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

func metricsConfig() *MetricsConfig {
	return &MetricsConfig{IdleAfter: 3 * time.Second, StaleAfter: time.Minute, Buckets: DefaultDurationBuckets()}
}

func newStream(cfg *MetricsConfig) *StreamMetrics {
	return NewStreamMetrics(cfg, testWorker(), 3, receivedAt)
}

// emission is what one emission said of one series: its points, in order.
type emission map[string][]pmetric.NumberDataPoint

func key(name string, attributes pcommon.Map) string {
	parts := []string{}
	for k, v := range attributes.All() {
		parts = append(parts, strings.TrimPrefix(k, "fpm.")+"="+v.AsString())
	}
	sort.Strings(parts)
	return name + "{" + strings.Join(parts, ",") + "}"
}

// emit makes an emission and gives its numbers by series; histograms show up
// as name_count and name_sum.
func emit(t *testing.T, now time.Time, streams ...*StreamMetrics) emission {
	t.Helper()
	b := NewMetricsBuilder("scope", "1", now)
	for _, m := range streams {
		b.AddStream(m, now, false)
	}
	b.Commit()
	return numbers(b.Metrics())
}

func numbers(metrics pmetric.Metrics) emission {
	all := emission{}
	number := func(name string, attributes pcommon.Map, flags pmetric.DataPointFlags, start, at pcommon.Timestamp, value float64) {
		point := pmetric.NewNumberDataPoint()
		point.SetStartTimestamp(start)
		point.SetTimestamp(at)
		point.SetFlags(flags)
		if !flags.NoRecordedValue() {
			point.SetDoubleValue(value)
		}
		all[key(name, attributes)] = append(all[key(name, attributes)], point)
	}
	for _, resource := range metrics.ResourceMetrics().All() {
		for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
			switch metric.Type() {
			case pmetric.MetricTypeSum:
				for _, p := range metric.Sum().DataPoints().All() {
					number(metric.Name(), p.Attributes(), p.Flags(), p.StartTimestamp(), p.Timestamp(), float64(p.IntValue())+p.DoubleValue())
				}
			case pmetric.MetricTypeGauge:
				for _, p := range metric.Gauge().DataPoints().All() {
					number(metric.Name(), p.Attributes(), p.Flags(), p.StartTimestamp(), p.Timestamp(), float64(p.IntValue())+p.DoubleValue())
				}
			case pmetric.MetricTypeHistogram:
				for _, p := range metric.Histogram().DataPoints().All() {
					number(metric.Name()+"_count", p.Attributes(), p.Flags(), p.StartTimestamp(), p.Timestamp(), float64(p.Count()))
					number(metric.Name()+"_sum", p.Attributes(), p.Flags(), p.StartTimestamp(), p.Timestamp(), p.Sum())
				}
			case pmetric.MetricTypeExponentialHistogram:
				for _, p := range metric.ExponentialHistogram().DataPoints().All() {
					number(metric.Name()+"_count", p.Attributes(), p.Flags(), p.StartTimestamp(), p.Timestamp(), float64(p.Count()))
					number(metric.Name()+"_sum", p.Attributes(), p.Flags(), p.StartTimestamp(), p.Timestamp(), p.Sum())
				}
			}
		}
	}
	return all
}

// last is the newest value of a series.
func (e emission) last(t *testing.T, series string) float64 {
	t.Helper()
	points := e[series]
	require.NotEmpty(t, points, "no series %s in %v", series, e.names())
	newest := points[0]
	for _, p := range points {
		if p.Timestamp() > newest.Timestamp() {
			newest = p
		}
	}
	return newest.DoubleValue()
}

func (e emission) names() (all []string) {
	for name := range e {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

func work(seconds float64, prefills, prefillTokens, decodes int64) *fpm.ForwardPass {
	return &fpm.ForwardPass{
		WallTime: seconds,
		Scheduled: fpm.Scheduled{
			PrefillRequests: prefills, PrefillTokens: prefillTokens, PrefillKVTokens: 10 * prefills,
			DecodeRequests: decodes, DecodeKVTokens: 100 * decodes,
		},
		Queued: fpm.Queued{PrefillRequests: 7, PrefillTokens: 700, DecodeRequests: 2, DecodeKVTokens: 20},
	}
}

func TestEachKindFeedsWhatItShould_STR_63(t *testing.T) {
	at := receivedAt
	for _, tt := range []struct {
		name string
		pass *fpm.ForwardPass
		want map[string]float64
	}{
		{"STR-63a", work(0.02, 1, 128, 2), map[string]float64{
			"fpm.records{dp_rank=3,record.kind=pass}":                      1,
			"fpm.forward_passes{dp_rank=3,pass.kind=mixed}":                1,
			"fpm.forward_passes.untimed{dp_rank=3,pass.kind=mixed}":        0,
			"fpm.forward_pass.time{dp_rank=3,pass.kind=mixed}":             0.02,
			"fpm.forward_pass.duration_count{dp_rank=3,pass.kind=mixed}":   1,
			"fpm.forward_pass.duration_sum{dp_rank=3,pass.kind=mixed}":     0.02,
			"fpm.forward_pass.duration_count{dp_rank=3,pass.kind=prefill}": 0,
			"fpm.request_steps{dp_rank=3,phase=prefill}":                   1,
			"fpm.request_steps{dp_rank=3,phase=decode}":                    2,
			"fpm.prefill.tokens{dp_rank=3}":                                128,
			"fpm.kv_read.tokens{dp_rank=3,phase=prefill}":                  10,
			"fpm.kv_read.tokens{dp_rank=3,phase=decode}":                   200,
			"fpm.batch.requests_count{dp_rank=3,phase=prefill}":            1,
			"fpm.batch.requests_sum{dp_rank=3,phase=decode}":               2,
			"fpm.batch.tokens_sum{dp_rank=3}":                              130,
			"fpm.batch.kv_tokens{dp_rank=3,phase=prefill}":                 10,
			"fpm.batch.kv_tokens{dp_rank=3,phase=decode}":                  200,
			"fpm.queue.requests{dp_rank=3,phase=prefill}":                  7,
			"fpm.queue.requests{dp_rank=3,phase=decode}":                   2,
			"fpm.queue.prefill_tokens{dp_rank=3}":                          700,
			"fpm.queue.decode_kv_tokens{dp_rank=3}":                        20,
			"fpm.records.missing{dp_rank=3}":                               0,
		}},
		{"STR-63c no time", work(0, 0, 0, 2), map[string]float64{
			"fpm.records{dp_rank=3,record.kind=untimed}":                  1,
			"fpm.forward_passes{dp_rank=3,pass.kind=decode}":              1,
			"fpm.forward_passes.untimed{dp_rank=3,pass.kind=decode}":      1,
			"fpm.forward_pass.time{dp_rank=3,pass.kind=decode}":           0,
			"fpm.forward_pass.duration_count{dp_rank=3,pass.kind=decode}": 0,
			"fpm.request_steps{dp_rank=3,phase=decode}":                   2,
			"fpm.batch.requests_count{dp_rank=3,phase=prefill}":           0,
			"fpm.batch.kv_tokens{dp_rank=3,phase=decode}":                 200,
			"fpm.queue.prefill_tokens{dp_rank=3}":                         700,
		}},
		{"STR-63c over 24 h", work(86400.5, 0, 0, 0), map[string]float64{
			"fpm.records{dp_rank=3,record.kind=untimed}":            1,
			"fpm.forward_passes.untimed{dp_rank=3,pass.kind=empty}": 1,
			"fpm.forward_pass.time{dp_rank=3,pass.kind=empty}":      0,
		}},
		{"STR-63b", &fpm.ForwardPass{}, map[string]float64{
			"fpm.records{dp_rank=3,record.kind=heartbeat}":  1,
			"fpm.forward_passes{dp_rank=3,pass.kind=empty}": 0,
			"fpm.batch.tokens_count{dp_rank=3}":             0,
			"fpm.queue.requests{dp_rank=3,phase=prefill}":   0,
		}},
		{"STR-63d", &fpm.ForwardPass{Queued: fpm.Queued{PrefillRequests: 5}}, map[string]float64{
			"fpm.records{dp_rank=3,record.kind=queue_only}": 1,
			"fpm.queue.requests{dp_rank=3,phase=prefill}":   5,
			"fpm.forward_passes{dp_rank=3,pass.kind=empty}": 0,
			"fpm.batch.kv_tokens{dp_rank=3,phase=decode}":   0,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newStream(metricsConfig())
			m.Fold(tt.pass, 0, at)
			got := emit(t, at.Add(time.Second), m)
			for series, want := range tt.want {
				require.InDelta(t, want, got.last(t, series), 0, series)
			}
		})
	}
}

// The counts of many passes are the sums of what went in, exactly.
func TestTotalsAreExact_STR_101(t *testing.T) {
	m := newStream(metricsConfig())
	random := rand.New(rand.NewPCG(1, 2))
	var passes, tokens, steps, missing int64
	var exact float64
	for i := range 20_000 {
		p := work(random.ExpFloat64()/50, random.Int64N(3), random.Int64N(5000), random.Int64N(200))
		lost := random.Int64N(2)
		m.Fold(p, lost, receivedAt.Add(time.Duration(i)*time.Millisecond))
		passes++
		missing += lost
		tokens += p.Scheduled.PrefillTokens
		steps += p.Scheduled.DecodeRequests
		exact += p.WallTime
	}
	got := emit(t, receivedAt.Add(21*time.Second), m)
	sum := func(prefix string) (total float64) {
		for series := range got {
			if strings.HasPrefix(series, prefix) {
				total += got.last(t, series)
			}
		}
		return total
	}
	require.InDelta(t, passes, sum("fpm.forward_passes{"), 0)
	require.InDelta(t, passes, sum("fpm.forward_pass.duration_count{"), 0)
	require.InDelta(t, tokens, sum("fpm.prefill.tokens{"), 0)
	require.InDelta(t, steps, got.last(t, "fpm.request_steps{dp_rank=3,phase=decode}"), 0)
	require.InDelta(t, missing, sum("fpm.records.missing{"), 0)
	require.InEpsilon(t, exact, sum("fpm.forward_pass.duration_sum{"), 1e-9)
	require.InEpsilon(t, exact, sum("fpm.forward_pass.time{"), 1e-9)
}

func TestSTR_71_TotalsSaturate(t *testing.T) {
	m := newStream(metricsConfig())
	p := work(1, math.MaxInt64, math.MaxInt64, math.MaxInt64)
	p.Scheduled.PrefillKVTokens, p.Scheduled.DecodeKVTokens = math.MaxInt64, math.MaxInt64
	for range 3 {
		m.Fold(p, math.MaxInt64, receivedAt)
	}
	require.EqualValues(t, math.MaxInt64, m.prefillTokens)
	require.EqualValues(t, math.MaxInt64, m.missing)
	require.Equal(t, [phases]int64{math.MaxInt64, math.MaxInt64}, m.steps)
	require.Equal(t, [phases]int64{math.MaxInt64, math.MaxInt64}, m.kvRead)
	require.Positive(t, m.batchTokens.sum.value())
}

func TestSTR_97_IdleGauges(t *testing.T) {
	at := func(seconds float64) time.Time { return receivedAt.Add(time.Duration(seconds * float64(time.Second))) }
	for _, tt := range []struct {
		name   string
		wall   float64
		idleAt int // the first second at which the gauges are 0
	}{{"pass of 0.02 s", 0.02, 3}, {"pass of 5 s", 5, 10}, {"untimed", 0, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			m := newStream(metricsConfig())
			m.Fold(work(tt.wall, 1, 10, 1), 0, at(0))
			for second := 1; second <= tt.idleAt+1; second++ {
				m.Fold(&fpm.ForwardPass{}, 0, at(float64(second)))
				if second < tt.idleAt {
					require.Equal(t, [phases]int64{10, 100}, m.state.batchKV, second)
					require.EqualValues(t, 700, m.state.queuePrefillTokens, second)
				} else {
					require.Equal(t, gauges{}, m.state, second)
				}
			}
		})
	}
	t.Run("untimed counts as 0 s, whatever was before", func(t *testing.T) {
		m := newStream(metricsConfig())
		m.Fold(work(5, 1, 10, 1), 0, at(0))
		m.Fold(work(0, 1, 10, 1), 0, at(1))
		m.Fold(&fpm.ForwardPass{}, 0, at(3.9))
		require.NotEqual(t, gauges{}, m.state)
		m.Fold(&fpm.ForwardPass{}, 0, at(4))
		require.Equal(t, gauges{}, m.state)
	})
	t.Run("queue_only shows the queue at once", func(t *testing.T) {
		m := newStream(metricsConfig())
		m.Fold(work(0.02, 1, 10, 1), 0, at(0))
		queueOnly := &fpm.ForwardPass{Queued: fpm.Queued{PrefillRequests: 9}}
		m.Fold(queueOnly, 0, at(1))
		require.EqualValues(t, 9, m.state.queueRequests[prefill])
		require.Equal(t, [phases]int64{10, 100}, m.state.batchKV, "as for a heartbeat")
		m.Fold(queueOnly, 0, at(3))
		require.Equal(t, [phases]int64{}, m.state.batchKV)
		require.EqualValues(t, 9, m.state.queueRequests[prefill])
	})
}

// Every total begins with a 0 at the stream's start, so that nothing is lost to
// the first scrape (COL-92, FR-18).
func TestFR_18_EveryTotalBeginsAt0(t *testing.T) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 1, 10, 1), 5, receivedAt)
	now := receivedAt.Add(time.Second)
	for series, points := range emit(t, now, m) {
		if points[0].StartTimestamp() == 0 { // a gauge
			require.Len(t, points, 1, series)
			continue
		}
		require.Len(t, points, 2, series)
		require.Zero(t, points[0].DoubleValue(), series)
		require.Equal(t, pcommon.NewTimestampFromTime(receivedAt), points[0].Timestamp())
		for _, p := range points {
			require.Equal(t, pcommon.NewTimestampFromTime(receivedAt), p.StartTimestamp(), series)
		}
	}
	refused := newStream(metricsConfig())
	refused.Fold(work(0.02, 1, 10, 1), 5, receivedAt)
	b := NewMetricsBuilder("scope", "1", now)
	b.AddStream(refused, now, false)
	b.Abandon()
	require.Len(t, emit(t, now, refused)["fpm.forward_pass.time{dp_rank=3,pass.kind=mixed}"], 2, "what was refused did not begin")

	scoped := work(0.02, 1, 10, 1)
	scoped.TimingScope = []byte("execute_model_cuda")
	m.Fold(scoped, 0, now)
	again := emit(t, now.Add(time.Second), m)
	require.Len(t, again["fpm.prefill.tokens{dp_rank=3}"], 1, "once")
	require.Len(t, again["fpm.forward_pass.time{dp_rank=3,pass.kind=mixed}"], 1)
	require.Len(t, again["fpm.forward_pass.time{dp_rank=3,pass.kind=mixed,timing_scope=execute_model_cuda}"], 2, "new series begin at 0 too")
}

func TestSTR_75_TimingScopes(t *testing.T) {
	m := newStream(metricsConfig())
	var scopes TimingScopes
	for i, scope := range []string{"a", "other", "b", "c", strings.Repeat("x", 129), "d", "e", "a", strings.Repeat("y", 5000)} {
		p := work(1, 1, 1, 1)
		p.TimingScope = scopes.Limit([]byte(scope))
		m.Fold(p, 0, receivedAt.Add(time.Duration(i)))
	}
	m.Fold(work(1, 1, 1, 1), 0, receivedAt)
	got := emit(t, receivedAt.Add(time.Second), m)
	for scope, want := range map[string]float64{"a": 2, "b": 1, "c": 1, "d": 1, "other": 4} {
		require.InDelta(t, want, got.last(t, fmt.Sprintf("fpm.forward_pass.time{dp_rank=3,pass.kind=mixed,timing_scope=%s}", scope)), 0)
	}
	require.InDelta(t, 1, got.last(t, "fpm.forward_pass.time{dp_rank=3,pass.kind=mixed}"), 0, "absent is no value")
	for series := range got {
		require.NotContains(t, series, "timing_scope=e")
	}
}

func TestSTR_98_FR_16_Stale(t *testing.T) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
	live := emit(t, receivedAt.Add(59*time.Second), m)
	require.InDelta(t, 700, live.last(t, "fpm.queue.prefill_tokens{dp_rank=3}"), 0, "not set to 0 before")

	stale := emit(t, receivedAt.Add(time.Minute), m)
	require.Len(t, stale, len(live), "every series ends")
	for series, points := range stale {
		require.Len(t, points, 1, series)
		require.True(t, points[0].Flags().NoRecordedValue(), series)
		require.Equal(t, pmetric.NumberDataPointValueTypeEmpty, points[0].ValueType(), series)
	}
	require.Empty(t, emit(t, receivedAt.Add(2*time.Minute), m), "once")

	m.Fold(work(0.02, 1, 10, 1), 0, receivedAt.Add(3*time.Minute))
	back := emit(t, receivedAt.Add(3*time.Minute+time.Second), m)
	require.InDelta(t, 20, back.last(t, "fpm.prefill.tokens{dp_rank=3}"), 0, "totals go on")
	require.Equal(t, pcommon.NewTimestampFromTime(receivedAt), back["fpm.prefill.tokens{dp_rank=3}"][0].StartTimestamp())
}

func TestRefusedEmissionEndsSeriesAgain(t *testing.T) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
	emit(t, receivedAt.Add(time.Second), m)
	over := receivedAt.Add(2 * time.Minute)
	for range 2 {
		b := NewMetricsBuilder("scope", "1", over)
		b.AddStream(m, over, false) // and no Commit
		require.Positive(t, b.Metrics().DataPointCount())
	}
	require.NotEmpty(t, emit(t, over, m))
	require.Empty(t, emit(t, over, m))
}

func TestARecordDuringTheLastEmissionBeginsAnew(t *testing.T) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
	emit(t, receivedAt.Add(time.Second), m)
	over := receivedAt.Add(2 * time.Minute)
	b := NewMetricsBuilder("scope", "1", over)
	b.AddStream(m, over, false)
	m.Fold(work(0.02, 1, 10, 1), 0, over)
	b.Commit()
	require.InDelta(t, 20, emit(t, over, m).last(t, "fpm.prefill.tokens{dp_rank=3}"), 0)
}

func TestForgottenStreams_STR_99(t *testing.T) {
	never := newStream(metricsConfig())
	never.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
	require.False(t, never.Done())
	never.Forget()
	require.True(t, never.Done(), "nothing was begun, nothing is to end")
	require.Empty(t, emit(t, receivedAt, never))

	emitted := newStream(metricsConfig())
	emitted.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
	emit(t, receivedAt, emitted)
	emitted.Forget()
	require.False(t, emitted.Done())
	for series, points := range emit(t, receivedAt, emitted) {
		require.True(t, points[0].Flags().NoRecordedValue(), series)
	}
	require.True(t, emitted.Done())
}

// Remote write ends the series of a sum and of a bucket only when the point has
// them.
func TestEndOfAHistogramKeepsItsShape_STR_98(t *testing.T) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
	emit(t, receivedAt, m)
	over := receivedAt.Add(2 * time.Minute)
	b := NewMetricsBuilder("scope", "1", over)
	b.AddStream(m, over, false)
	histograms := 0
	for _, metric := range b.Metrics().ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		if metric.Type() != pmetric.MetricTypeHistogram {
			continue
		}
		histograms++
		for _, p := range metric.Histogram().DataPoints().All() {
			require.True(t, p.Flags().NoRecordedValue(), metric.Name())
			require.True(t, p.HasSum(), metric.Name())
			require.Positive(t, p.ExplicitBounds().Len(), metric.Name())
			require.Equal(t, p.ExplicitBounds().Len()+1, p.BucketCounts().Len(), metric.Name())
		}
	}
	require.Equal(t, 3, histograms)
}

// What an emission has begun must end, although the stream lost its state before
// the consumer had taken it (STR-99).
func TestForgottenWhileEmitted_STR_99(t *testing.T) {
	for _, taken := range []bool{true, false} {
		m := newStream(metricsConfig())
		m.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
		b := NewMetricsBuilder("scope", "1", receivedAt)
		b.AddStream(m, receivedAt, false)
		m.Forget()
		require.False(t, m.Done(), "nobody knows yet")
		if !taken {
			b.Abandon()
			require.True(t, m.Done(), "nothing was begun")
			continue
		}
		b.Commit()
		require.False(t, m.Done())
		for series, points := range emit(t, receivedAt, m) {
			require.True(t, points[0].Flags().NoRecordedValue(), series)
		}
		require.True(t, m.Done())
	}
}

func TestRanksOfAWorkerShareItsMetrics_COL_94(t *testing.T) {
	cfg := metricsConfig()
	var streams []*StreamMetrics
	b := NewMetricsBuilder("scope", "1", receivedAt)
	for rank := range int64(4) {
		m := NewStreamMetrics(cfg, testWorker(), rank, receivedAt)
		m.Fold(work(0.02, 1, 10, 1), 0, receivedAt)
		streams = append(streams, m)
		b.AddStream(m, receivedAt, false)
	}
	require.Equal(t, 1, b.Metrics().ResourceMetrics().Len())
	require.Equal(t, workerMetrics, b.Metrics().MetricCount())
	require.Equal(t, "4192", b.Metrics().ResourceMetrics().At(0).Resource().Attributes().AsRaw()[AttrServiceInstanceID])
	require.Len(t, streams, 4)
}

func TestExponentialHistogram(t *testing.T) {
	cfg := metricsConfig()
	cfg.Exponential = true
	m := newStream(cfg)
	for range 1000 {
		m.Fold(work(0.02, 0, 0, 1), 0, receivedAt)
		m.Fold(work(5, 0, 0, 1), 0, receivedAt)
	}
	b := NewMetricsBuilder("scope", "1", receivedAt.Add(time.Second))
	b.AddStream(m, receivedAt.Add(time.Second), false)
	for _, metric := range b.Metrics().ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		if metric.Name() != "fpm.forward_pass.duration" {
			require.NotEqual(t, pmetric.MetricTypeExponentialHistogram, metric.Type())
			continue
		}
		require.Equal(t, pmetric.MetricTypeExponentialHistogram, metric.Type())
		for _, p := range metric.ExponentialHistogram().DataPoints().All() {
			kind, _ := p.Attributes().Get(AttrPassKind)
			if kind.Str() != "decode" || p.Timestamp() == p.StartTimestamp() {
				require.Zero(t, p.Count())
				continue
			}
			require.EqualValues(t, 2000, p.Count())
			require.InEpsilon(t, 5020, p.Sum(), 1e-9)
			inBuckets := uint64(0)
			base := math.Exp2(math.Exp2(-float64(p.Scale())))
			for i, count := range p.Positive().BucketCounts().AsRaw() {
				inBuckets += count
				if count > 0 {
					low := math.Pow(base, float64(int(p.Positive().Offset())+i))
					require.True(t, (low < 0.02 && 0.02 <= low*base*1.000001) || (low < 5 && 5 <= low*base*1.000001), "bucket from %v", low)
				}
			}
			require.EqualValues(t, 2000, inBuckets)
		}
	}
}

func TestBucketBoundsAreInclusive(t *testing.T) {
	h := newBucketHistogram([]float64{1, 2})
	for _, value := range []float64{0, 1, 1.5, 2, 3} {
		h.record(value)
	}
	require.Equal(t, []uint64{2, 2, 1}, h.counts)
}

func TestExemplarsAreShownOnce(t *testing.T) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 0, 0, 1), 0, receivedAt)
	emitted := Span{PassKind: fpm.PassDecode, Seconds: 0.02, End: receivedAt, ID: SpanID{Trace: pcommon.TraceID{1}, Span: pcommon.SpanID{2}}}
	m.Offer(&emitted)
	exemplars := func() (all []pmetric.Exemplar) {
		b := NewMetricsBuilder("scope", "1", receivedAt)
		b.AddStream(m, receivedAt, false)
		b.Commit()
		for _, metric := range b.Metrics().ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			if metric.Type() == pmetric.MetricTypeHistogram {
				for _, p := range metric.Histogram().DataPoints().All() {
					for _, e := range p.Exemplars().All() {
						all = append(all, e)
					}
				}
			}
		}
		return all
	}
	shown := exemplars()
	require.Len(t, shown, 1)
	require.Equal(t, pcommon.TraceID{1}, shown[0].TraceID())
	require.Equal(t, pcommon.SpanID{2}, shown[0].SpanID())
	require.InDelta(t, 0.02, shown[0].DoubleValue(), 0)
	require.Empty(t, exemplars())
}

func TestEndpointMetrics(t *testing.T) {
	state := &EndpointState{
		Namespace: "default", Component: "backend", InstanceID: "10.0.0.7:20380", ServerAddress: "10.0.0.7", ServerPort: 20380, Start: receivedAt,
	}
	b := NewMetricsBuilder("scope", "1", receivedAt.Add(time.Second))
	b.AddEndpoint(state, false)
	require.Equal(t, map[string]any{
		"service.namespace": "default", "service.name": "backend", "service.instance.id": "10.0.0.7:20380",
		"server.address": "10.0.0.7", "server.port": int64(20380),
	}, b.Metrics().ResourceMetrics().At(0).Resource().Attributes().AsRaw())
	first := numbers(b.Metrics())
	require.Equal(t, []string{"fpm.endpoint.restarts{}", "fpm.endpoint.up{}"}, first.names(), "the last record is absent before the first")
	require.InDelta(t, 0, first.last(t, "fpm.endpoint.up{}"), 0)

	state.Up, state.LastRecord, state.Restarts = true, receivedAt, 2
	b = NewMetricsBuilder("scope", "1", receivedAt.Add(time.Second))
	b.AddEndpoint(state, false)
	second := numbers(b.Metrics())
	require.InDelta(t, 1, second.last(t, "fpm.endpoint.up{}"), 0)
	require.InDelta(t, 1782777601.25, second.last(t, "fpm.endpoint.last_record.time{}"), 1e-6)
	require.InDelta(t, 2, second.last(t, "fpm.endpoint.restarts{}"), 0)
	require.Equal(t, pcommon.NewTimestampFromTime(receivedAt), second["fpm.endpoint.restarts{}"][0].StartTimestamp(), "of the receiver (COL-92)")

	b = NewMetricsBuilder("scope", "1", receivedAt.Add(time.Second))
	b.AddEndpoint(state, true)
	for series, points := range numbers(b.Metrics()) {
		require.True(t, points[0].Flags().NoRecordedValue(), series)
	}
}

func TestFR_19_NoIdentifierIsALabel(t *testing.T) {
	m := newStream(metricsConfig())
	p := work(0.02, 1, 10, 1)
	p.CounterID, p.WorkerID = 987654321, []byte("w")
	m.Fold(p, 0, receivedAt)
	for series := range emit(t, receivedAt, m) {
		for _, word := range []string{"counter_id", "sequence", "producer", "987654321", "worker"} {
			require.NotContains(t, series, word)
		}
	}
}

func TestFloatSumKeepsSmallNumbers(t *testing.T) {
	var s floatSum
	s.add(1e15)
	for range 1000 {
		s.add(0.001)
	}
	require.InDelta(t, 1, s.value()-1e15, 0)
}

func BenchmarkFold(b *testing.B) {
	m := newStream(metricsConfig())
	p := work(0.02, 1, 10, 3)
	p.TimingScope = []byte("execute_model_cuda")
	at := receivedAt
	b.ReportAllocs()
	b.SetBytes(1)
	for b.Loop() {
		at = at.Add(time.Millisecond)
		m.Fold(p, 0, at)
	}
}

// BenchmarkEmit is the cost of one stream in one emission, whatever number of
// messages came.
func BenchmarkEmit(b *testing.B) {
	m := newStream(metricsConfig())
	m.Fold(work(0.02, 1, 10, 3), 0, receivedAt)
	b.ReportAllocs()
	b.SetBytes(1)
	for b.Loop() {
		builder := NewMetricsBuilder("scope", "1", receivedAt)
		builder.AddStream(m, receivedAt, false)
		builder.Commit()
	}
}
