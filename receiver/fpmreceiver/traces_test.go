// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

func spans(sink *consumertest.TracesSink) (all []ptrace.Span) {
	for _, traces := range sink.AllTraces() {
		for _, resource := range traces.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func names(all []ptrace.Span) (names []string) {
	for _, s := range all {
		names = append(names, s.Name())
	}
	return names
}

// The root comes last: when the window is over, on idle and at the end.
func TestRootsComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		r := startSignals(t, testConfig(nobody), nil, nil, sink)
		r.feedNumbered(0, 0, pass("7", 0, 0), heartbeat("7", 1), pass("7", 0, 2))
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"forward_pass", "forward_pass"}, names(spans(sink)))
		time.Sleep(6 * time.Second)
		require.Equal(t, []string{"forward_pass", "forward_pass", "forward_pass.window"}, names(spans(sink)), "on idle")

		r.feedNumbered(0, 3, pass("7", 0, 3))
		time.Sleep(9900 * time.Millisecond) // not yet seen to be over
		r.feedNumbered(0, 4, pass("7", 0, 4))
		time.Sleep(time.Second)
		r.feedNumbered(0, 5, pass("7", 0, 5))
		require.NoError(t, r.Shutdown(t.Context()))
		all := spans(sink)
		require.Equal(t, []string{"forward_pass", "forward_pass", "forward_pass.window", "forward_pass", "forward_pass.window"}, names(all)[3:])
		require.Len(t, all, 8)
		roots := map[pcommon.TraceID]int{}
		for i, s := range all {
			if s.Name() == "forward_pass.window" {
				roots[s.TraceID()] = i
			}
		}
		for i, s := range all {
			require.Contains(t, roots, s.TraceID())
			require.LessOrEqual(t, i, roots[s.TraceID()])
		}
	})
}

func TestSpansOfOneEndpoint(t *testing.T) {
	sink := &consumertest.TracesSink{}
	cfg := testConfig(nobody)
	cfg.Traces.MinDuration = 25 * time.Millisecond
	r := startSignals(t, cfg, nil, nil, sink)
	r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 1, 0), pass("8", 0, 0))
	require.NoError(t, r.Shutdown(t.Context()))
	traces := map[pcommon.TraceID]bool{}
	for _, s := range spans(sink) {
		traces[s.TraceID()] = true
	}
	require.Len(t, traces, 3, "ranks and workers share none")
	for _, batch := range sink.AllTraces() {
		workers := map[any]bool{}
		for _, resource := range batch.ResourceSpans().All() {
			workers[resource.Resource().Attributes().AsRaw()["service.instance.id"]] = true
		}
		require.Len(t, workers, batch.ResourceSpans().Len(), "a resource a worker")
	}
}

// A restart of the engine ends the open window: no trace holds passes of two
// lives, whose counters repeat.
func TestFR_33_RestartEndsTheWindow(t *testing.T) {
	sink := &consumertest.TracesSink{}
	r := startSignals(t, testConfig(nobody), nil, nil, sink)
	r.feedNumbered(0, 5, pass("7", 0, 5), pass("7", 0, 6))
	r.feedNumbered(0, 0, pass("7", 0, 0)) // the sequence fell back
	r.feedNumbered(0, 0, pass("8", 0, 0)) // another worker_id
	r.feedNumbered(0, 1, pass("7", 0, 1)) // and the first one again
	require.NoError(t, r.Shutdown(t.Context()))
	counters := map[pcommon.TraceID][]int64{}
	roots := map[pcommon.TraceID]int{}
	for _, s := range spans(sink) {
		if s.Name() == "forward_pass.window" {
			roots[s.TraceID()]++
			continue
		}
		counter, _ := s.Attributes().Get("fpm.counter_id")
		counters[s.TraceID()] = append(counters[s.TraceID()], counter.Int())
	}
	var lives [][]int64
	for trace, of := range counters {
		lives = append(lives, of)
		require.Equal(t, 1, roots[trace])
	}
	require.ElementsMatch(t, [][]int64{{5, 6}, {0}, {0}, {1}}, lives)
}

// Exemplars point at spans that are out, never at dropped ones (COL-109).
func TestCOL_109_Exemplars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := &consumertest.MetricsSink{}
		traces := &refusingTraces{}
		r := startSignals(t, testConfig(nobody), nil, metrics, traces)
		traces.err = consumererror.NewPermanent(errRefused)
		r.feedNumbered(0, 0, pass("7", 0, 0))
		time.Sleep(6 * time.Second)
		require.Empty(t, exemplars(metrics), "its span was refused")
		require.EqualValues(t, 1, r.metric("fpm_receiver_dropped_records", "signal", "traces", "reason", "refused"))
		traces.err = nil
		r.feedNumbered(0, 1, pass("7", 0, 1))
		time.Sleep(5 * time.Second)
		shown := exemplars(metrics)
		require.Len(t, shown, 1)
		require.Equal(t, spans(&traces.TracesSink)[0].SpanID(), shown[0].SpanID())
		require.Equal(t, spans(&traces.TracesSink)[0].TraceID(), shown[0].TraceID())
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

type refusingTraces struct {
	consumertest.TracesSink
	err error
}

func (s *refusingTraces) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	if s.err != nil {
		return s.err
	}
	return s.TracesSink.ConsumeTraces(ctx, traces)
}

func exemplars(sink *consumertest.MetricsSink) (all []pmetric.Exemplar) {
	for _, metrics := range sink.AllMetrics() {
		for _, resource := range metrics.ResourceMetrics().All() {
			for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
				if metric.Type() != pmetric.MetricTypeHistogram {
					continue
				}
				for _, p := range metric.Histogram().DataPoints().All() {
					for _, e := range p.Exemplars().All() {
						all = append(all, e)
					}
				}
			}
		}
	}
	return all
}

// One socket feeds three signals (COL-55).
func TestCOL_55_OneSocket(t *testing.T) {
	publisher := listen(t)
	cfg := testConfig(publisher.Endpoint())
	logs, err := createLogs(t.Context(), nopSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	metrics, err := createMetrics(t.Context(), nopSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	traces, err := createTraces(t.Context(), nopSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	for _, c := range []component.Component{logs, metrics, traces} {
		require.NoError(t, c.Start(t.Context(), &statusHost{}))
	}
	waitForSubscribers(t, publisher, 1)
	for _, c := range []component.Component{logs, metrics, traces} {
		require.NoError(t, c.Shutdown(t.Context()))
	}
	require.Equal(t, 1, publisher.Connections())
}

func TestCOL_78_TracesContract(t *testing.T) {
	publisher := listen(t)
	cfg := testConfig(publisher.Endpoint())
	factory := receiver.NewFactory(metadata.Type, createDefaultConfig, receiver.WithTraces(
		func(ctx context.Context, settings receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
			waitForSubscribers(t, publisher, 0) // the scenario before is over
			created, err := createTraces(ctx, settings, cfg, identifyingSpans{next})
			if err != nil {
				return nil, err
			}
			shared, err := sharedReceiver(cfg.(*Config), settings)
			shared.Unwrap().retry = time.Millisecond
			return created, err
		}, metadata.TracesStability))
	receivertest.CheckConsumeContract(receivertest.CheckConsumeContractParams{
		T: t, Factory: factory, Signal: pipeline.SignalTraces, Config: cfg,
		Generator: &generator{t: t, publisher: publisher}, GenerateCount: 500,
	})
}

// identifyingSpans gives each span the attribute that the checker knows it by,
// and keeps the roots, which nobody published, to itself.
type identifyingSpans struct{ consumer.Traces }

func (c identifyingSpans) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	for _, resource := range traces.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			scope.Spans().RemoveIf(func(s ptrace.Span) bool {
				counter, ok := s.Attributes().Get("fpm.counter_id")
				if ok {
					s.Attributes().PutStr(receivertest.UniqueIDAttrName, strconv.FormatInt(counter.Int(), 10))
				}
				return !ok
			})
		}
	}
	if traces.SpanCount() == 0 {
		return nil
	}
	return c.Traces.ConsumeTraces(ctx, traces)
}
