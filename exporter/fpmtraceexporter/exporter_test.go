// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

func attributeKey(key string) attribute.Key { return attribute.Key(key) }

func flushed(cfg *Config) { cfg.Durability = tracefile.Flushed.String() }

func counters(first, n int64) []int64 {
	all := make([]int64, 0, n)
	for counter := first; counter < first+n; counter++ {
		all = append(all, counter)
	}
	return all
}

func TestLifecycle(t *testing.T) {
	t.Run("shutdown without start", func(t *testing.T) {
		e := newTestExporter(t, nil, newFakeWriter())
		require.NoError(t, e.Shutdown(t.Context()))
		require.Zero(t, e.writer.starts)
	})
	t.Run("twice", func(t *testing.T) {
		e := newTestExporter(t, nil, newFakeWriter())
		e.start(t)
		require.NoError(t, e.Shutdown(t.Context()))
		require.NoError(t, e.Shutdown(t.Context()))
		require.Equal(t, 1, e.writer.shutdowns)
	})
	t.Run("again with the same configuration", func(t *testing.T) {
		cfg := defaultConfig()
		cfg.Path = filepath.Join(t.TempDir(), "fpm")
		for range 2 {
			e, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
			require.NoError(t, err)
			require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
			require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 3)))
			require.NoError(t, e.Shutdown(t.Context()))
		}
	})
	t.Run("a storage that is missing stops the writer again", func(t *testing.T) {
		e := newTestExporter(t, storedQueue, newFakeWriter())
		require.Error(t, e.Start(t.Context(), componenttest.NewNopHost()))
		require.Equal(t, 1, e.writer.shutdowns)
		require.NoError(t, e.Shutdown(t.Context()))
	})
}

// Start must not wait for the disk (FIL-46, COL-49); the context of Start ends with it.
func TestCanceledStartContextStopsNothing(t *testing.T) {
	e := newTestExporter(t, nil, newFakeWriter())
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, e.Start(ctx, componenttest.NewNopHost()))
	cancel()
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 3)))
	require.NoError(t, e.Shutdown(t.Context()))
	require.Equal(t, counters(0, 3), e.writer.counters())
}

// ENV-5: switched off, the exporter opens nothing and takes what it gets.
func TestENV5DisabledOpensNothing(t *testing.T) {
	folder := t.TempDir()
	cfg := defaultConfig()
	cfg.Enabled = false
	cfg.Path = filepath.Join(folder, "below", "fpm")
	storedQueue(cfg)
	e, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()), "the storage is not looked for")
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 3)))
	require.False(t, e.Capabilities().MutatesData)
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestCapabilities(t *testing.T) {
	e := newTestExporter(t, nil, newFakeWriter())
	require.False(t, e.Capabilities().MutatesData)
	require.False(t, e.ExporterHelperBatchingEnabled())
	require.NoError(t, e.Shutdown(t.Context()))

	e = newTestExporter(t, func(cfg *Config) {
		cfg.QueueConfig.Get().Batch = configoptional.Some(exporterhelper.NewDefaultBatchConfig())
	}, newFakeWriter())
	require.True(t, e.ExporterHelperBatchingEnabled())
	require.NoError(t, e.Shutdown(t.Context()))
}

func TestFIL50BufferedPushes(t *testing.T) {
	t.Run("keep the order", func(t *testing.T) {
		e := newTestExporter(t, nil, newFakeWriter())
		e.start(t)
		for n := range int64(200) {
			require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10*n, 10)))
		}
		require.NoError(t, e.Shutdown(t.Context()))
		require.Equal(t, counters(0, 2000), e.writer.counters())
	})
	t.Run("return nil once every record is queued or counted", func(t *testing.T) {
		e := newTestExporter(t, nil, newFakeWriter())
		logs := passLogs(t, "4192", 0, 5)
		firstRecord(logs).SetEventName("other")
		require.NoError(t, e.pusher.push(t.Context(), logs))
		require.Equal(t, counters(1, 4), e.writer.counters())
		require.Equal(t, int64(1), dropped(t, e.telemetry, tracefile.DropNotFPM))
		require.NoError(t, e.Shutdown(t.Context()))
	})
	t.Run("pass on that the writer is shut down", func(t *testing.T) {
		w := newFakeWriter()
		w.refuse = errShutdown
		e := newTestExporter(t, nil, w)
		require.ErrorIs(t, e.pusher.push(t.Context(), passLogs(t, "4192", 0, 1)), errShutdown)
		require.NoError(t, e.Shutdown(t.Context()))
	})
}

// FIL-58: the error carries the unwritten records, and only these, with their resources and scopes.
func TestFIL58OnlyTheUnwrittenRecordsComeBack(t *testing.T) {
	b := newLogsBuilder()
	for counter := range int64(3) {
		for _, id := range []string{"a", "b", "c"} {
			b.add(t, worker(id), payloadOf(id, 0, counter), counter%2 == 0)
		}
	}
	logs := b.take() // a0 a1 a2 b0 b1 b2 c0 c1 c2
	second := logs.ResourceLogs().At(0).ScopeLogs().AppendEmpty()
	second.Scope().SetName("second")
	second.SetSchemaUrl("https://example.com/scope")
	logs.ResourceLogs().At(0).SetSchemaUrl("https://example.com/resource")
	logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(2).MoveTo(second.LogRecords().AppendEmpty())
	logs.ResourceLogs().At(1).ScopeLogs().At(0).LogRecords().At(1).SetEventName("other") // b1 is refused; the empty a2 too

	w := newFakeWriter()
	w.write = func(_ context.Context, records []tracefile.Record) ([]int, error) {
		require.Len(t, records, 8)
		return []int{0, 2, 6, 7}, errDisk // a0, a2 of the second scope, c1, c2
	}
	e := newTestExporter(t, flushed, w)
	err := e.pusher.push(t.Context(), logs)
	require.ErrorIs(t, err, errDisk)
	require.False(t, consumererror.IsPermanent(err))
	var carried consumererror.Logs
	require.ErrorAs(t, err, &carried)
	rest := carried.Data()

	require.Equal(t, 2, rest.ResourceLogs().Len())
	require.Equal(t, "https://example.com/resource", rest.ResourceLogs().At(0).SchemaUrl())
	require.Equal(t, 2, rest.ResourceLogs().At(0).ScopeLogs().Len())
	require.Equal(t, "receiver", rest.ResourceLogs().At(0).ScopeLogs().At(0).Scope().Name())
	require.Equal(t, "second", rest.ResourceLogs().At(0).ScopeLogs().At(1).Scope().Name())
	require.Equal(t, "https://example.com/scope", rest.ResourceLogs().At(0).ScopeLogs().At(1).SchemaUrl())
	records, refused := convert(rest)
	require.Zero(t, refused.n)
	var got []string
	for _, record := range records {
		got = append(got, record.Worker+string(rune('0'+record.CounterID)))
	}
	require.Equal(t, []string{"a0", "a2", "c1", "c2"}, got)
	require.Equal(t, int64(2), dropped(t, e.telemetry, tracefile.DropNotFPM), "the moved away and the other one")
	require.NoError(t, e.Shutdown(t.Context()))
}

// FIL-58, COL-65: the collector's retry sends the rest again, in order, and nothing twice.
func TestFIL58RetriesKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWriter()
		tries := 0
		w.write = func(_ context.Context, records []tracefile.Record) ([]int, error) {
			tries++
			if tries%3 == 0 || len(records) < 2 {
				return nil, nil
			}
			return indexes(len(records))[1:], errDisk
		}
		e := newTestExporter(t, flushed, w)
		e.start(t)
		for n := range int64(20) {
			require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10*n, 10)))
		}
		time.Sleep(24 * time.Hour)
		require.Equal(t, counters(0, 200), w.counters())
		require.NoError(t, e.Shutdown(t.Context()))
		require.Zero(t, dropped(t, e.telemetry, tracefile.DropShutdown))
	})
}

// COL-65: a local write has no deadline, so that a slow disk makes no duplicates.
func TestCOL65NoTimeoutOfAPush(t *testing.T) {
	w := newFakeWriter()
	limited := true
	w.write = func(ctx context.Context, _ []tracefile.Record) ([]int, error) {
		_, limited = ctx.Deadline()
		return nil, nil
	}
	e := newTestExporter(t, flushed, w)
	e.start(t)
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 1)))
	require.NoError(t, e.Shutdown(t.Context()))
	require.False(t, limited)
}

// COL-65: nothing is given up after five minutes, the default of the collector.
func TestRetriesNeverGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWriter()
		repaired := time.Now().Add(3 * time.Hour)
		w.write = func(ctx context.Context, records []tracefile.Record) ([]int, error) {
			if time.Now().Before(repaired) {
				return failing(ctx, records)
			}
			return nil, nil
		}
		e := newTestExporter(t, flushed, w)
		e.start(t)
		require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 10)))
		time.Sleep(4 * time.Hour)
		require.Equal(t, counters(0, 10), w.counters())
		require.NoError(t, e.Shutdown(t.Context()))
	})
}

// FIL-55, COL-62: recoverable and back, and nothing after shutdown began.
func TestStatusIsReportedOnChange(t *testing.T) {
	e := newTestExporter(t, nil, newFakeWriter())
	e.writer.obs.Status(errDisk) // before Start there is nobody to tell
	host := &statusHost{}
	require.NoError(t, e.Start(t.Context(), host))
	require.Empty(t, host.reported(), "the service reports the start")

	e.writer.obs.Status(errDisk)
	e.writer.obs.Status(nil)
	e.writer.shutdown = func(context.Context) error { e.writer.obs.Status(errDisk); return nil }
	require.NoError(t, e.Shutdown(t.Context()))

	events := host.reported()
	require.Len(t, events, 2)
	require.Equal(t, componentstatus.StatusRecoverableError, events[0].Status())
	require.ErrorIs(t, events[0].Err(), errDisk)
	require.Equal(t, componentstatus.StatusOK, events[1].Status())
}

func TestBadConfigOfCodeIsAnError(t *testing.T) {
	cfg := defaultConfig()
	cfg.Path, cfg.Durability = "", "fsync"
	_, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
	require.ErrorContains(t, err, "path")
	require.ErrorContains(t, err, "durability")
}

var _ component.Component = (*discard)(nil)
