// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadatatest"
)

func points(value int64) []metricdata.DataPoint[int64] {
	return []metricdata.DataPoint[int64]{{Value: value}}
}

func droppedPoint(reason string, value int64) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Value: value, Attributes: attribute.NewSet(attribute.String("reason", reason))}
}

// COL-75: every own metric.
func TestCOL75OwnMetrics(t *testing.T) {
	cfg := testConfig()
	cfg.IdleTTL = time.Second
	onBothSignals(t, cfg, func(r *rig) {
		t := r.t
		r.send(rank(0, 1), rank(0, 2), rank(1, 1)) // one replaced
		tick()                                     // two out
		r.send(rank(0, 2))                         // suppressed
		r.setDecide(func(context.Context) error { return errors.New("full") })
		r.send(rank(2, 1))
		tick() // refused
		time.Sleep(time.Second)
		r.setDecide(nil)
		r.send(rank(3, 1)) // the other three keys are forgotten
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.Error(t, r.Shutdown(ctx))
		synctest.Wait()

		ignore := metricdatatest.IgnoreTimestamp()
		metadatatest.AssertEqualFpmSamplerProcessorRecordsIn(t, r.tel, points(6), ignore)
		metadatatest.AssertEqualFpmSamplerProcessorRecordsOut(t, r.tel, points(2), ignore)
		metadatatest.AssertEqualFpmSamplerProcessorReplaced(t, r.tel, points(1), ignore)
		metadatatest.AssertEqualFpmSamplerProcessorSuppressed(t, r.tel, points(1), ignore)
		metadatatest.AssertEqualFpmSamplerProcessorDropped(t, r.tel, []metricdata.DataPoint[int64]{
			droppedPoint("downstream", 1), droppedPoint("max_keys", 0), droppedPoint("shutdown", 1),
		}, ignore)
		metadatatest.AssertEqualFpmSamplerProcessorKeysEvicted(t, r.tel, points(3), ignore)
		metadatatest.AssertEqualFpmSamplerProcessorKeys(t, r.tel, points(0), ignore)
	})
}

func TestCOL75EveryDropBeginsAtZero(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		metadatatest.AssertEqualFpmSamplerProcessorDropped(r.t, r.tel, []metricdata.DataPoint[int64]{
			droppedPoint("downstream", 0), droppedPoint("max_keys", 0), droppedPoint("shutdown", 0),
		}, metricdatatest.IgnoreTimestamp())
	})
}

func TestCOL75DroppedAtMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "logs", testConfig())
		s := r.Component.(*sampledLogs)
		fillKeys(s.state, time.Now(), fewKeys)
		r.send(rank(fewKeys, 1))
		metadatatest.AssertEqualFpmSamplerProcessorDropped(t, r.tel,
			[]metricdata.DataPoint[int64]{
				droppedPoint("downstream", 0), droppedPoint("max_keys", 1), droppedPoint("shutdown", 0),
			}, metricdatatest.IgnoreTimestamp())
		r.stop()
	})
}

// A cause that lasts makes one log line a minute, not one a tick.
func TestLogLinesAreBounded(t *testing.T) {
	core, lines := observer.New(zapcore.WarnLevel)
	synctest.Test(t, func(*testing.T) {
		e := newEmitter(newLogState(testConfig()), recorder{}, zap.New(core), nil)
		for range 1000 {
			e.warn(errors.New("full"), 3)
			time.Sleep(100 * time.Millisecond)
		}
	})
	require.Equal(t, 2, lines.Len())
	require.EqualValues(t, 3, lines.All()[0].ContextMap()["records"])
}
