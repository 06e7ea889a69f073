// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadatatest"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// points are one data point for each value of an attribute; those that are not named are 0.
func points[T interface {
	comparable
	String() string
}](key string, all []T, counts map[T]int64) []metricdata.DataPoint[int64] {
	made := make([]metricdata.DataPoint[int64], 0, len(all))
	for _, value := range all {
		made = append(made, metricdata.DataPoint[int64]{
			Attributes: attribute.NewSet(attribute.String(key, value.String())), Value: counts[value],
		})
	}
	return made
}

func point(value int64, attributes ...attribute.KeyValue) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attributes...), Value: value}
}

func newTestObserver(t *testing.T) (*componenttest.Telemetry, tracefile.Observer) {
	t.Helper()
	telemetry := newTelemetry(t)
	obs, err := newObserver(metadatatest.NewSettings(telemetry).TelemetrySettings)
	require.NoError(t, err)
	t.Cleanup(obs.close)
	return telemetry, obs
}

// COL-75: every metric of the exporter, by what moves it; every series is there from the start.
func TestObserverMovesEveryMetric(t *testing.T) {
	telemetry, obs := newTestObserver(t)
	ignore := metricdatatest.IgnoreTimestamp()
	for round := range int64(3) {
		metadatatest.AssertEqualFpmTraceExporterRowsWritten(t, telemetry, []metricdata.DataPoint[int64]{point(7 * round)}, ignore)
		metadatatest.AssertEqualFpmTraceExporterBytes(t, telemetry, []metricdata.DataPoint[int64]{
			point(660*round, attribute.String("kind", "raw")), point(326*round, attribute.String("kind", "gzip")),
		}, ignore)
		metadatatest.AssertEqualFpmTraceExporterFlushes(t, telemetry, []metricdata.DataPoint[int64]{point(round)}, ignore)
		metadatatest.AssertEqualFpmTraceExporterSegmentsOpened(t, telemetry, []metricdata.DataPoint[int64]{point(round)}, ignore)
		reasons, causes, ops := map[tracefile.DropReason]int64{}, map[tracefile.PruneCause]int64{}, map[tracefile.Op]int64{}
		for i, reason := range tracefile.DropReasons() {
			reasons[reason] = int64(i+1) * round
		}
		for i, cause := range tracefile.PruneCauses() {
			causes[cause] = int64(i+1) * round
		}
		for _, op := range tracefile.Ops() {
			ops[op] = round
		}
		metadatatest.AssertEqualFpmTraceExporterRowsDropped(t, telemetry, points("reason", tracefile.DropReasons(), reasons), ignore)
		metadatatest.AssertEqualFpmTraceExporterSegmentsPruned(t, telemetry, points("cause", tracefile.PruneCauses(), causes), ignore)
		metadatatest.AssertEqualFpmTraceExporterErrors(t, telemetry, points("op", tracefile.Ops(), ops), ignore)

		obs.RowsWritten(7)
		obs.BytesWritten(660, 326)
		obs.Flushed()
		obs.SegmentOpened()
		for i, reason := range tracefile.DropReasons() {
			obs.RowsDropped(reason, i+1)
		}
		for i, cause := range tracefile.PruneCauses() {
			obs.SegmentsPruned(cause, i+1)
		}
		for _, op := range tracefile.Ops() {
			obs.Failed(op)
		}
	}
}

// The values of the enumerations are those that metadata.yaml documents.
func TestAttributeValues(t *testing.T) {
	require.Equal(t, []string{"queue_full", "not_fpm", "duplicate", "producer_limit", "shutdown"}, words(tracefile.DropReasons()))
	require.Equal(t, []string{"max_segments", "max_total_bytes", "max_age"}, words(tracefile.PruneCauses()))
}

func words[T interface{ String() string }](values []T) []string {
	all := make([]string, 0, len(values))
	for _, value := range values {
		all = append(all, value.String())
	}
	return all
}

func newLogged(t *testing.T) (*pusher, *zapobserver.ObservedLogs) {
	t.Helper()
	_, obs := newTestObserver(t)
	core, logs := zapobserver.New(zapcore.WarnLevel)
	return newPusher(newFakeWriter(), true, obs.(*observer), zap.New(core)), logs
}

// ROW-27, COL-61: what is refused is counted always, and logged once a minute.
func TestRefusedRecordsAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, logs := newLogged(t)
		bad := passLogs(t, "4192", 0, 3)
		bad.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(1).Body().Map().PutInt("version", 2)
		for range 130 {
			require.NoError(t, p.push(t.Context(), bad))
			time.Sleep(time.Second)
		}
		require.Equal(t, 3, logs.Len())
		require.Equal(t, int64(1), logs.All()[0].ContextMap()["records"])
		require.Contains(t, logs.All()[0].ContextMap()["reason"], "unsupported_version")
	})
}
