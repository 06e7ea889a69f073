// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/otel/trace"
)

// requireReport compares what the collector's own counters say of a signal's items.
func (r *run) requireReport(items string, accepted, refused int) {
	r.t.Helper()
	for counter, want := range map[string]int{"accepted": accepted, "refused": refused, "failed": 0} {
		name := "receiver_" + counter + "_" + items
		require.EqualValues(r.t, want, r.metric(name, "receiver", "fpm", "transport", "zmq"), name)
		require.EqualValues(r.t, want, r.metric(name), "%s of another transport", name)
	}
}

// What a consumer took and what it refused is reported for each signal.
func TestCOL_58_COL_59_AcceptedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := newGate(func(_ context.Context, call int) error {
			if call == 1 {
				return consumererror.NewPermanent(errRefused)
			}
			return nil
		})
		metrics := &refusingMetrics{}
		traces := &refusingTraces{err: consumererror.NewPermanent(errRefused)}
		r := startSignals(t, testConfig(nobody), logs, metrics, traces)

		metrics.refuse.Store(true)
		r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 0, 1), pass("7", 0, 2))
		time.Sleep(6 * time.Second)
		r.requireReport("log_records", 0, 3)
		r.requireReport("spans", 0, 3)
		refused := int(r.metric("receiver_refused_metric_points"))
		require.Positive(t, refused)
		r.requireReport("metric_points", 0, refused)

		metrics.refuse.Store(false)
		traces.err = nil
		r.feedNumbered(0, 3, pass("7", 0, 3), pass("7", 0, 4))
		time.Sleep(3 * time.Second) // the window is still open, the next emission still to come
		r.requireReport("log_records", 2, 3)
		r.requireReport("spans", 2, 3)
		time.Sleep(2 * time.Second)
		require.Positive(t, metrics.DataPointCount())
		r.requireReport("metric_points", metrics.DataPointCount(), refused)
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// The run's context lives long: an operation's span is a root of its own that links
// to the span around the run, or its trace would never end.
func TestCOL_58_LongLivedContext(t *testing.T) {
	r := newRun(t, testConfig(nobody), consumertest.NewNop())
	ctx, around := r.settings.TracerProvider.Tracer("test").Start(t.Context(), "around")
	r.obs.EndLogsOp(r.obs.StartLogsOp(ctx), dataFormat, 1, nil)
	ended := r.telemetry.SpanRecorder.Ended()
	require.Len(t, ended, 1)
	require.False(t, ended[0].Parent().IsValid())
	require.Equal(t, []trace.SpanContext{around.SpanContext()}, []trace.SpanContext{ended[0].Links()[0].SpanContext})
}
