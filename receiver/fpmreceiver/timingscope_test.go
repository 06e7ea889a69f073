// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

func scoped(counter int64, wallTime float64, scope string) []byte {
	return fpm.AppendPayload(nil, &fpm.ForwardPass{
		WorkerID: []byte("7"), CounterID: counter, WallTime: wallTime, TimingScope: []byte(scope),
		Scheduled: fpm.Scheduled{DecodeRequests: 1},
	})
}

// Spans and metrics show the same scope of a pass, also when the scope's first
// record made no span.
func TestSTR_75_ScopesOfSpansAndMetricsAgree(t *testing.T) {
	metrics, traces := &consumertest.MetricsSink{}, &consumertest.TracesSink{}
	r := startSignals(t, testConfig(nobody), nil, metrics, traces)
	r.feedNumbered(0, 0, scoped(0, 0, "untimed"))
	for i := int64(1); i < 8; i++ {
		r.feedNumbered(0, uint64(i), scoped(i, 0.025, "scope"+strconv.FormatInt(i, 10)))
	}
	require.NoError(t, r.Shutdown(t.Context()))

	onSpans := map[string]int{}
	for _, s := range spans(traces) {
		if scope, ok := s.Attributes().Get("fpm.timing_scope"); ok {
			onSpans[scope.Str()]++
		}
	}
	require.Equal(t, map[string]int{"scope1": 1, "scope2": 1, "scope3": 1, "other": 4}, onSpans)
	require.Equal(t, onSpans, passesByScope(metrics))
}

// passesByScope reads the last count of the duration histogram that has a value.
func passesByScope(sink *consumertest.MetricsSink) map[string]int {
	counts := map[string]int{}
	for _, batch := range sink.AllMetrics() {
		for _, resource := range batch.ResourceMetrics().All() {
			for _, m := range resource.ScopeMetrics().At(0).Metrics().All() {
				if m.Name() != "fpm.forward_pass.duration" {
					continue
				}
				for _, point := range m.Histogram().DataPoints().All() {
					scope, ok := point.Attributes().Get("fpm.timing_scope")
					if ok && point.Count() > 0 {
						counts[scope.Str()] = int(point.Count())
					}
				}
			}
		}
	}
	return counts
}
