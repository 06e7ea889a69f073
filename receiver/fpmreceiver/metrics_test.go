// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// startSignals starts a receiver with a consumer for each signal; nil: no
// pipeline.
func startSignals(t *testing.T, cfg *Config, logs consumer.Logs, metrics consumer.Metrics, traces consumer.Traces) *run {
	t.Helper()
	r := newRun(t, cfg, logs)
	r.nextMetrics, r.nextTraces = metrics, traces
	require.NoError(t, r.Start(t.Context(), r.host))
	return r
}

// series are the newest points of all numbers that a sink got, by instance and
// metric, with the rank and kind left out: the tests have one rank.
type point struct {
	value float64
	stale bool
}

func newest(sink *consumertest.MetricsSink) map[[2]string]point {
	all := map[[2]string]point{}
	for _, metrics := range sink.AllMetrics() {
		for _, resource := range metrics.ResourceMetrics().All() {
			instance, _ := resource.Resource().Attributes().Get("service.instance.id")
			for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
				for _, p := range numberPoints(metric) {
					key := [2]string{instance.Str(), metric.Name()}
					if phase, ok := p.Attributes().Get("fpm.phase"); ok {
						key[1] += " " + phase.Str()
					}
					if kind, ok := p.Attributes().Get("fpm.record.kind"); ok {
						key[1] += " " + kind.Str()
					}
					all[key] = point{value: float64(p.IntValue()) + p.DoubleValue(), stale: p.Flags().NoRecordedValue()}
				}
			}
		}
	}
	return all
}

func numberPoints(metric pmetric.Metric) (all []pmetric.NumberDataPoint) {
	var slice pmetric.NumberDataPointSlice
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		slice = metric.Sum().DataPoints()
	case pmetric.MetricTypeGauge:
		slice = metric.Gauge().DataPoints()
	default:
		return nil
	}
	for _, p := range slice.All() {
		all = append(all, p)
	}
	return all
}

func TestMetricsAreEmittedAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.MetricsSink{}
		r := startSignals(t, testConfig(nobody), nil, sink, nil)
		time.Sleep(4900 * time.Millisecond)
		r.feedNumbered(0, 0, pass("7", 0, 0), heartbeat("7", 1))
		require.Empty(t, sink.AllMetrics())
		time.Sleep(200 * time.Millisecond)
		require.Len(t, sink.AllMetrics(), 1)
		got := newest(sink)
		require.InDelta(t, 1, got[[2]string{"7", "fpm.records pass"}].value, 0)
		require.InDelta(t, 1, got[[2]string{"7", "fpm.records heartbeat"}].value, 0)
		require.InDelta(t, 3, got[[2]string{"7", "fpm.request_steps decode"}].value, 0)
		require.InDelta(t, 0, got[[2]string{nobody[len("ipc://"):], "fpm.endpoint.up"}].value, 0, "never connected: 0 from the start")
		time.Sleep(5 * time.Second)
		require.Len(t, sink.AllMetrics(), 2)
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// A stream that gives way while its first series are on their way to the consumer
// ends with the next emission, or the consumer would hold them for ever (FR-19).
func TestFR_19_StreamForgottenDuringAnEmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(nobody)
		cfg.MaxStreams = 2
		sink := &busyMetrics{}
		r := startSignals(t, cfg, nil, sink, nil)
		sink.during = func() { r.feedNumbered(0, 1, pass("8", 0, 1), pass("9", 0, 2)) }
		r.feedNumbered(0, 0, pass("7", 0, 0))
		time.Sleep(5100 * time.Millisecond)
		got := newest(&sink.MetricsSink)
		require.Equal(t, point{value: 1}, got[[2]string{"7", "fpm.records pass"}])
		time.Sleep(5 * time.Second)
		got = newest(&sink.MetricsSink)
		require.True(t, got[[2]string{"7", "fpm.records pass"}].stale)
		require.Equal(t, point{value: 1}, got[[2]string{"8", "fpm.records pass"}])
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// busyMetrics lets something happen during the first emission.
type busyMetrics struct {
	consumertest.MetricsSink
	during func()
}

func (s *busyMetrics) ConsumeMetrics(ctx context.Context, metrics pmetric.Metrics) error {
	if s.during != nil {
		s.during()
		s.during = nil
	}
	return s.MetricsSink.ConsumeMetrics(ctx, metrics)
}

// The end: last totals, then no value for any series (COL-93).
func TestCOL_93_ShutdownEndsEverySeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.MetricsSink{}
		r := startSignals(t, testConfig(nobody), nil, sink, nil)
		r.feedNumbered(0, 0, pass("7", 0, 0))
		require.NoError(t, r.Shutdown(t.Context()))
		require.Len(t, sink.AllMetrics(), 2)
		last := &consumertest.MetricsSink{}
		require.NoError(t, last.ConsumeMetrics(t.Context(), sink.AllMetrics()[0]))
		require.InDelta(t, 1, newest(last)[[2]string{"7", "fpm.records pass"}].value, 0)
		for series, p := range newest(sink) {
			require.True(t, p.stale, series)
		}
	})
}

// Restarts, of the same and of a new worker (FR-17, FR-18).
func TestFR_17_FR_18_Restarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.MetricsSink{}
		r := startSignals(t, testConfig(nobody), nil, sink, nil)
		endpoint := nobody[len("ipc://"):]
		r.feedNumbered(0, 100, pass("7", 0, 100), pass("7", 0, 101))
		time.Sleep(6 * time.Second)
		r.feedNumbered(0, 0, pass("7", 0, 0))
		time.Sleep(5 * time.Second)
		got := newest(sink)
		require.InDelta(t, 3, got[[2]string{"7", "fpm.records pass"}].value, 0, "totals go on")
		require.InDelta(t, 1, got[[2]string{endpoint, "fpm.endpoint.restarts"}].value, 0)
		require.InDelta(t, 0, got[[2]string{"7", "fpm.records.missing"}].value, 0)

		r.feedNumbered(0, 0, pass("8", 0, 0))
		for range 13 {
			time.Sleep(5 * time.Second)
			r.feedNumbered(0, uint64(time.Now().Unix()), pass("8", 0, 0))
		}
		time.Sleep(5 * time.Second)
		got = newest(sink)
		require.InDelta(t, 2, got[[2]string{endpoint, "fpm.endpoint.restarts"}].value, 0)
		require.True(t, got[[2]string{"7", "fpm.records pass"}].stale, "the old worker's series have ended")
		require.False(t, got[[2]string{"8", "fpm.records pass"}].stale)
		require.NoError(t, r.Shutdown(t.Context()))
		never(t, sink)
	})
}

// never asserts that no total ever fell.
func never(t *testing.T, sink *consumertest.MetricsSink) {
	t.Helper()
	highest := map[string]float64{}
	for _, metrics := range sink.AllMetrics() {
		for _, resource := range metrics.ResourceMetrics().All() {
			for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
				if metric.Type() != pmetric.MetricTypeSum {
					continue
				}
				for _, p := range metric.Sum().DataPoints().All() {
					if p.Flags().NoRecordedValue() {
						continue
					}
					series := resource.Resource().Attributes().AsRaw()["service.instance.id"].(string) + metric.Name() + attributesOf(p.Attributes())
					value := float64(p.IntValue()) + p.DoubleValue()
					require.GreaterOrEqual(t, value, highest[series], series)
					highest[series] = value
				}
			}
		}
	}
}

func attributesOf(attributes pcommon.Map) string {
	return fmt.Sprint(attributes.AsRaw())
}

// FR-19: endless new workers, with nobody taking the metrics: memory stays flat.
func TestFR_19_EndlessWorkersStayBounded(t *testing.T) {
	cfg := testConfig(nobody)
	cfg.MaxStreams = 64
	sink := &consumertest.MetricsSink{}
	r := startSignals(t, cfg, nil, sink, &consumertest.TracesSink{})
	heap := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	feed := func(from, to int64) {
		for i := from; i < to; i++ {
			r.feedNumbered(0, uint64(i), heartbeat(strconv.FormatInt(i, 10), i))
		}
	}
	feed(0, 1000)
	before := heap()
	feed(1000, 20_000)
	require.Less(t, heap()-before, int64(2<<20))
	require.EqualValues(t, 64, r.metric("fpm_receiver_streams"))
	require.LessOrEqual(t, len(r.metrics.streams), 64)
	require.EqualValues(t, 20_000-64, r.metric("fpm_receiver_stream_overflows"))
	require.NoError(t, r.Shutdown(t.Context()))
}

// A full queue never makes metrics inexact: they are folded before it (STR-101).
func TestSTR_101_MetricsAreFoldedBeforeTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(nobody)
		cfg.Queue.MaxRecords = 1
		sink := &consumertest.MetricsSink{}
		blocked := newGate(func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
		r := startSignals(t, cfg, blocked, sink, nil)
		for i := range int64(1000) {
			r.feedNumbered(0, uint64(i), pass("7", 0, i))
		}
		time.Sleep(6 * time.Second)
		require.InDelta(t, 1000, newest(sink)[[2]string{"7", "fpm.records pass"}].value, 0)
		require.Positive(t, r.metric("fpm_receiver_dropped_records"))
		_ = r.Shutdown(t.Context())
	})
}

func TestARefusedEmissionIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &refusingMetrics{}
		r := startSignals(t, testConfig(nobody), nil, sink, nil)
		sink.refuse.Store(true)
		r.feedNumbered(0, 0, pass("7", 0, 0))
		time.Sleep(11 * time.Second)
		require.Empty(t, sink.AllMetrics())
		sink.refuse.Store(false)
		time.Sleep(5 * time.Second)
		require.InDelta(t, 1, newest(&sink.MetricsSink)[[2]string{"7", "fpm.records pass"}].value, 0)
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

type refusingMetrics struct {
	consumertest.MetricsSink
	refuse atomic.Bool
}

func (s *refusingMetrics) ConsumeMetrics(ctx context.Context, metrics pmetric.Metrics) error {
	if s.refuse.Load() {
		return errRefused
	}
	return s.MetricsSink.ConsumeMetrics(ctx, metrics)
}

// What is emitted is what metadata.yaml declares (COL-38). Histograms can't be
// declared there (COL-29); they are in the README.
func TestCOL_38_DeclaredMetrics(t *testing.T) {
	content, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var declared struct {
		Metrics map[string]struct {
			Unit  string
			Sum   *struct{ Monotonic bool }
			Gauge *struct{}
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &declared))
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, metric := range fpmpdata.Metrics() {
		d, ok := declared.Metrics[metric.Name]
		if metric.Kind == fpmpdata.KindHistogram {
			require.Contains(t, string(readme), "`"+metric.Name+"`")
			continue
		}
		require.True(t, ok, metric.Name)
		require.Equal(t, d.Unit, metric.Unit, metric.Name)
		require.Equal(t, d.Sum != nil && d.Sum.Monotonic, metric.Kind == fpmpdata.KindSum, metric.Name)
		require.Equal(t, d.Gauge != nil, metric.Kind == fpmpdata.KindGauge, metric.Name)
		delete(declared.Metrics, metric.Name)
	}
	require.Empty(t, declared.Metrics, "declared and never emitted")
}
