// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadata"
)

const benchWorkers = 8

// benchLogs is a batch as the receiver makes it: 8 workers of one rank, their
// records behind one resource each, with map bodies.
func benchLogs(records int) plog.Logs {
	ld := plog.NewLogs()
	for w := range benchWorkers {
		name := "worker-" + strconv.Itoa(w)
		pass{namespace: "default", component: "backend", producer: name, instance: name, worker: name}.appendTo(ld)
		list := ld.ResourceLogs().At(w).ScopeLogs().At(0).LogRecords()
		fillRecord(list.At(0))
		for list.Len() < records/benchWorkers {
			list.At(0).CopyTo(list.AppendEmpty())
		}
	}
	return ld
}

// fillRecord adds what a record of the receiver has besides.
func fillRecord(record plog.LogRecord) {
	record.Attributes().PutStr(fpmpdata.AttrRecordKind, "pass")
	record.Attributes().PutInt(fpmpdata.AttrSequence, 1)
	record.Attributes().PutStr(fpmpdata.AttrServerAddress, "10.0.0.7")
	record.Attributes().PutInt(fpmpdata.AttrServerPort, 20380)
	body := record.Body().SetEmptyMap()
	body.PutInt("version", 1)
	body.PutDouble("wall_time", 0.012)
	for _, part := range []string{"scheduled_requests", "queued_requests"} {
		group := body.PutEmptyMap(part)
		for _, name := range []string{"num_prefill_requests", "sum_prefill_tokens", "num_decode_requests", "sum_decode_kv_tokens"} {
			group.PutInt(name, 7)
		}
	}
}

// count sets the counters of a batch, so that every record has changed.
func count(ld plog.Logs, next int64) int64 {
	for _, rl := range ld.ResourceLogs().All() {
		for _, record := range rl.ScopeLogs().At(0).LogRecords().All() {
			next++
			value, _ := record.Attributes().Get(fpmpdata.AttrCounterID)
			value.SetInt(next)
		}
	}
	return next
}

func benchProcessor(b *testing.B, cfg *Config) processor.Logs {
	b.Helper()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = componenttest.NewTelemetry().NewTelemetrySettings()
	p, err := NewFactory().CreateLogs(b.Context(), set, cfg, consumertest.NewNop())
	require.NoError(b, err)
	return p
}

// BenchmarkSampledIngest is the cost of an arriving batch between two ticks.
func BenchmarkSampledIngest(b *testing.B) {
	for _, records := range []int{8, 512} {
		b.Run(strconv.Itoa(records), func(b *testing.B) {
			cfg := testConfig()
			p := benchProcessor(b, cfg)
			s := p.(*sampledLogs)
			ld := benchLogs(records)
			counter := int64(0)
			b.ReportAllocs()
			b.SetBytes(int64(records))
			for b.Loop() {
				b.StopTimer()
				counter = count(ld, counter)
				b.StartTimer()
				if err := p.ConsumeLogs(b.Context(), ld); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
			require.Len(b, s.state.waiting, benchWorkers, "every key took the sampled path")
			require.NoError(b, p.Shutdown(b.Context()))
		})
	}
}

// BenchmarkSampledSuppressed is the cost of records that did not change.
func BenchmarkSampledSuppressed(b *testing.B) {
	const records = 512
	p := benchProcessor(b, testConfig())
	s := p.(*sampledLogs)
	ld := benchLogs(records)
	require.NoError(b, p.ConsumeLogs(b.Context(), ld))
	s.state.takeWaiting()
	s.state.settle(s.state.fetch(), accepted)
	b.ReportAllocs()
	b.SetBytes(records)
	for b.Loop() {
		if err := p.ConsumeLogs(b.Context(), ld); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
	require.Empty(b, s.state.waiting)
}

// BenchmarkTick is the emission of one tick of 256 keys.
func BenchmarkTick(b *testing.B) {
	const keys = 256
	p := benchProcessor(b, testConfig())
	s := p.(*sampledLogs)
	passes := make([]pass, keys)
	for i := range passes {
		passes[i] = rank(int64(i), 0)
	}
	ld := logsOf(passes...)
	counter := int64(0)
	b.ReportAllocs()
	b.SetBytes(keys)
	for b.Loop() {
		b.StopTimer()
		counter = count(ld, counter)
		require.NoError(b, p.ConsumeLogs(b.Context(), ld))
		s.state.takeWaiting()
		b.StartTimer()
		s.emitter.emit(b.Context(), s.state.fetch())
	}
	require.Equal(b, keys, s.state.idle.list.Len())
}

// BenchmarkFull is the cost of the stamp.
func BenchmarkFull(b *testing.B) {
	const records = 512
	p := benchProcessor(b, configOf("full"))
	ld := benchLogs(records)
	b.ReportAllocs()
	b.SetBytes(records)
	for b.Loop() {
		b.StopTimer()
		for _, rl := range ld.ResourceLogs().All() {
			for _, record := range rl.ScopeLogs().At(0).LogRecords().All() {
				record.Attributes().Remove(fpmpdata.AttrCaptureMode)
			}
		}
		b.StartTimer()
		if err := p.ConsumeLogs(b.Context(), ld); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
	_, stamped := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().Get(fpmpdata.AttrCaptureMode)
	require.True(b, stamped)
}
