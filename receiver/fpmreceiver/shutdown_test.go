// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadatatest"
)

func TestFR_31_ShutdownHandsEverythingOn(t *testing.T) {
	publisher := listen(t)
	cfg := testConfig(publisher.Endpoint())
	cfg.Batch = BatchConfig{MaxRecords: 100, Timeout: time.Hour}
	sink := &consumertest.LogsSink{}
	r := start(t, cfg, sink)
	waitForSubscribers(t, publisher, 1)
	for i := range int64(5050) {
		publisher.Publish(zmtptest.Numbered(uint64(i), pass("7", 0, i))...)
	}
	eventually(t, func() bool { return r.metric("fpm_receiver_records") == 5050 }, "received")
	require.NoError(t, r.Shutdown(t.Context()))
	require.Equal(t, 5050, sink.LogRecordCount())
	require.NoError(t, r.Shutdown(t.Context()), "twice is once")
}

// dropped are the points of one endpoint's drops, in the logs.
func dropped(endpoint string, byReason map[string]int64) (points []metricdata.DataPoint[int64]) {
	for _, reason := range []string{"queue_full", "refused", "shutdown"} {
		points = append(points, metricdata.DataPoint[int64]{Value: byReason[reason], Attributes: attribute.NewSet(
			attribute.String("endpoint", endpoint), attribute.String("signal", "logs"), attribute.String("reason", reason))})
	}
	return points
}

func TestFR_31_ShutdownDuringRetriesHonorsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := newGate(func(context.Context, int) error { return errRefused })
		r := start(t, testConfig(nobody), failing)
		r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 0, 1))
		time.Sleep(time.Minute)
		r.feedNumbered(0, 2, pass("7", 0, 2))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorContains(t, r.Shutdown(ctx), "3 records could not be handed on")
		require.Equal(t, 3*time.Second, time.Since(begin))
		metadatatest.AssertEqualFpmReceiverDroppedRecords(t, r.telemetry,
			dropped(nobody, map[string]int64{"shutdown": 3}), metricdatatest.IgnoreTimestamp())
	})
}

// A consumer that never returns doesn't keep the collector alive. What it holds and
// what waits is lost, and each item counted for its endpoint, once, also when the
// consumer returns after all.
func TestFR_31_COL_60_ShutdownLeavesAConsumerThatNeverReturns(t *testing.T) {
	for name, answer := range map[string]error{"taken after all": nil, "refused after all": errRefused} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const other = nobody + "-2"
				release := make(chan struct{})
				hung := newGate(func(context.Context, int) error { <-release; return answer })
				r := start(t, testConfig(nobody, other), hung)
				r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 0, 1))
				r.feedNumbered(1, 0, pass("8", 0, 0))
				time.Sleep(time.Second)
				require.Equal(t, 1, hung.called(), "under way")
				r.feedNumbered(0, 2, pass("7", 0, 2))
				r.feedNumbered(1, 1, pass("8", 0, 1), pass("8", 0, 2), pass("8", 0, 3))

				begin := time.Now()
				require.ErrorContains(t, r.Shutdown(t.Context()), "7 records could not be handed on before the shutdown's deadline: the next component has not returned")
				require.Equal(t, drainTimeout+returnTimeout, time.Since(begin))
				counted := append(dropped(nobody, map[string]int64{"shutdown": 3}), dropped(other, map[string]int64{"shutdown": 4})...)
				metadatatest.AssertEqualFpmReceiverDroppedRecords(t, r.telemetry, counted, metricdatatest.IgnoreTimestamp())

				close(release)
				<-r.logs.delivery.done
				metadatatest.AssertEqualFpmReceiverDroppedRecords(t, r.telemetry, counted, metricdatatest.IgnoreTimestamp())
				require.Equal(t, 1, hung.called(), "nothing follows")
			})
		})
	}
}

// lastCollection keeps what a periodic reader exports.
type lastCollection struct {
	names map[string]int64
}

func (*lastCollection) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (*lastCollection) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(kind)
}

func (c *lastCollection) Export(_ context.Context, all *metricdata.ResourceMetrics) error {
	c.names = map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					c.names[m.Name] += point.Value
				}
			case metricdata.Gauge[int64]:
				for _, point := range data.DataPoints {
					c.names[m.Name] += point.Value
				}
			}
		}
	}
	return nil
}

func (*lastCollection) ForceFlush(context.Context) error { return nil }
func (*lastCollection) Shutdown(context.Context) error   { return nil }

// A periodic reader collects for the last time when the provider ends, which is
// after all components: it sees every counter's final total, and no gauge.
func TestFR_31_COL_60_LastCollectionHasTheFinalTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := &lastCollection{}
		telemetry := componenttest.NewTelemetry(componenttest.WithMetricOptions(
			sdkmetric.WithReader(sdkmetric.NewPeriodicReader(last, sdkmetric.WithInterval(time.Hour)))))
		r, err := newReceiver(testConfig(nobody), metadatatest.NewSettings(telemetry))
		require.NoError(t, err)
		r.nextLogs = newGate(func(context.Context, int) error { return errRefused })
		require.NoError(t, r.Start(t.Context(), &statusHost{}))
		feed := func(sequence uint64, payload []byte) {
			r.publishers[0].OnMessage(&zmtp.Message{Frames: zmtptest.Numbered(sequence, payload), ReceivedAt: time.Now(), Generation: 1})
		}
		feed(0, pass("7", 0, 0))
		feed(5, pass("7", 0, 5))
		feed(6, []byte{0x90})
		require.Error(t, r.Shutdown(t.Context()))
		require.Empty(t, last.names, "nothing was exported yet")
		require.NoError(t, telemetry.Shutdown(t.Context()))
		for name, want := range map[string]int64{
			"messages": 3, "records": 2, "missing_records": 4, "gaps": 1, "invalid_messages": 1, "dropped_records": 2,
		} {
			require.Equal(t, want, last.names["otelcol_fpm_receiver_"+name], name)
		}
		for _, gauge := range []string{"streams", "queue_records", "queue_bytes"} {
			require.NotContains(t, last.names, "otelcol_fpm_receiver_"+gauge, "ended with the run")
		}
	})
}

// A second run under the same provider adds to the counters of the first: no counter
// falls. The gauges are those of the run.
func TestCOL_51_CountersGoOnInASecondRun(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, telemetry.Shutdown(context.Background())) })
	for life := range int64(3) {
		created, err := newReceiver(testConfig(nobody), metadatatest.NewSettings(telemetry))
		require.NoError(t, err)
		created.nextLogs = consumertest.NewNop()
		r := &run{fpmReceiver: created, t: t, telemetry: telemetry, host: &statusHost{}}
		require.NoError(t, r.Start(t.Context(), r.host))
		require.Equal(t, 3*life, r.metric("fpm_receiver_messages", "endpoint", nobody), "before the first message")
		r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 0, 1))
		r.feed(0, zmtptest.Numbered(2, nil)...)
		require.EqualValues(t, 1, r.metric("fpm_receiver_streams"))
		require.NoError(t, r.Shutdown(t.Context()))
		require.Equal(t, 3*(life+1), r.metric("fpm_receiver_messages", "endpoint", nobody))
		require.Equal(t, life+1, r.metric("fpm_receiver_invalid_messages", "endpoint", nobody, "reason", "truncated"))
	}
}

// Counters that outlive a receiver don't keep it in memory.
func TestFR_31_CountersKeepNothingElseOfTheReceiver(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, telemetry.Shutdown(context.Background())) })
	started := func() (*fpmReceiver, weak.Pointer[fpmReceiver], weak.Pointer[publisher], weak.Pointer[logsSignal]) {
		r, err := newReceiver(testConfig(nobody), metadatatest.NewSettings(telemetry))
		require.NoError(t, err)
		r.nextLogs, r.nextTraces, r.nextMetrics = consumertest.NewNop(), consumertest.NewNop(), consumertest.NewNop()
		require.NoError(t, r.Start(t.Context(), &statusHost{}))
		return r, weak.Make(r), weak.Make(r.publishers[0]), weak.Make(r.logs)
	}
	r, receiver, endpoint, signal := started()
	require.NoError(t, r.Shutdown(t.Context()))
	r = nil
	eventually(t, func() bool {
		runtime.GC()
		return receiver.Value() == nil && endpoint.Value() == nil && signal.Value() == nil
	}, "given back")
	_, err := telemetry.GetMetric("otelcol_fpm_receiver_messages")
	require.NoError(t, err)
}
