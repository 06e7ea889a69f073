// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

func noQueue(cfg *Config) { cfg.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]() }

// FIL-63, FR-31: what waits in the collector's queue is written before the files are closed.
func TestFIL63ShutdownDrainsTheQueue(t *testing.T) {
	pushes := pushesOf(t, 5000, 10)
	for name, change := range map[string]func(*Config){"buffered": nil, "flushed": flushed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeWriter()
				w.write = func(context.Context, []tracefile.Record) ([]int, error) {
					time.Sleep(10 * time.Millisecond)
					return nil, nil
				}
				w.shutdown = func(context.Context) error {
					require.Len(t, w.counters(), 5000, "the writer is shut down last")
					return nil
				}
				e := newTestExporter(t, change, w)
				e.start(t)
				for _, logs := range pushes {
					require.NoError(t, e.ConsumeLogs(t.Context(), logs))
				}
				require.NoError(t, e.Shutdown(t.Context()))
				require.Equal(t, counters(0, 5000), w.counters())
				require.Zero(t, dropped(t, e.telemetry, tracefile.DropShutdown))
			})
		})
	}
}

// FIL-64, FR-31: a disk that never answers. The context has no deadline, as in the collector.
func TestFIL64StuckPushIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWriter()
		w.write = w.stuck
		e := newTestExporter(t, flushed, w)
		e.start(t)
		for n := range int64(50) {
			require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10*n, 10)))
		}
		time.Sleep(time.Minute)
		began := time.Now()
		require.NoError(t, e.Shutdown(context.Background()))
		require.Zero(t, time.Since(began))
		require.Empty(t, w.counters())
		require.Equal(t, 1, w.shutdowns)
		require.Equal(t, int64(500), dropped(t, e.telemetry, tracefile.DropShutdown))
	})
}

// FIL-64: a disk that answers, but too slowly for the deadline.
func TestFIL64DeadlineIsHonored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWriter()
		w.write = func(ctx context.Context, records []tracefile.Record) ([]int, error) {
			select {
			case <-time.After(time.Second):
				return nil, nil
			case <-ctx.Done():
				return indexes(len(records)), context.Cause(ctx)
			}
		}
		w.shutdown = func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, 2500*time.Millisecond, time.Until(deadline), "a quarter is left for closing the files")
			return nil
		}
		e := newTestExporter(t, flushed, w)
		e.start(t)
		for n := range int64(100) {
			require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10*n, 10)))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, e.Shutdown(ctx), errCanceled)
		require.Equal(t, counters(0, 70), w.counters())
		require.Equal(t, int64(930), dropped(t, e.telemetry, tracefile.DropShutdown))
	})
}

// FIL-64: neither a context that is over nor a push that can't be canceled makes Shutdown hang.
func TestFIL64NothingMakesShutdownHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWriter()
		release := make(chan struct{})
		w.write = func(context.Context, []tracefile.Record) ([]int, error) {
			<-release
			return nil, nil
		}
		e := newTestExporter(t, flushed, w)
		e.start(t)
		require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 10)))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		err := e.Shutdown(ctx)
		require.ErrorIs(t, err, errCanceled)
		require.ErrorIs(t, err, errQueueStuck)
		require.Equal(t, minFailTime, time.Since(began))
		close(release)
	})
}

// FIL-64: what failed before and waits for its retry is lost, too, and counted once.
func TestFIL64RetryThatShutdownEndsIsCounted(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"retry":    func(*Config) {},
		"no retry": func(cfg *Config) { cfg.BackOffConfig.Enabled = false },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeWriter()
				w.write = failing
				e := newTestExporter(t, func(cfg *Config) { flushed(cfg); change(cfg) }, w)
				e.start(t)
				require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 10)))
				synctest.Wait()
				if name == "no retry" {
					require.NoError(t, e.Shutdown(t.Context()))
					require.Zero(t, dropped(t, e.telemetry, tracefile.DropShutdown), "the helper counted it as failed to send")
					return
				}
				require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10, 7)))
				require.NoError(t, e.Shutdown(t.Context()))
				require.Equal(t, int64(17), dropped(t, e.telemetry, tracefile.DropShutdown))
			})
		})
	}
}

// FIL-63, FIL-64, COL-67: a stored queue keeps what was not written, the next exporter writes it.
func TestFIL64StoredQueueKeepsItsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change := func(cfg *Config) { flushed(cfg); storedQueue(cfg) }
		extension := &memoryStorage{values: map[string][]byte{}}
		w := newFakeWriter()
		w.write = w.stuck
		e := newTestExporter(t, change, w)
		require.NoError(t, e.Start(t.Context(), hostWith(extension)))
		for n := range int64(20) {
			require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10*n, 10)))
		}
		synctest.Wait()
		require.NoError(t, e.Shutdown(context.Background()))
		require.Empty(t, w.counters())
		require.Zero(t, dropped(t, e.telemetry, tracefile.DropShutdown))

		next := newTestExporter(t, change, newFakeWriter())
		require.NoError(t, next.Start(t.Context(), hostWith(extension)))
		time.Sleep(time.Minute)
		require.ElementsMatch(t, counters(0, 200), next.writer.counters())
		require.NoError(t, next.Shutdown(t.Context()))
	})
}

// FIL-65: refused with an error, never written; the exporter helper alone would take such records and forget them.
func TestFIL65RecordsAfterShutdownAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){"queue": nil, "no queue": noQueue, "flushed": flushed} {
		t.Run(name, func(t *testing.T) {
			e := newTestExporter(t, change, newFakeWriter())
			e.start(t)
			require.NoError(t, e.Shutdown(t.Context()))
			require.ErrorIs(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 3)), errShutdown)
			require.Empty(t, e.writer.counters())
		})
	}
}

// FIL-65: whatever was accepted while shutdown began is written.
func TestFIL65AcceptedMeansWritten(t *testing.T) {
	for name, change := range map[string]func(*Config){"buffered": nil, "flushed": flushed, "no queue": noQueue} {
		t.Run(name, func(t *testing.T) {
			e := newTestExporter(t, change, newFakeWriter())
			e.start(t)
			var accepted atomic.Int64
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for counter := int64(0); e.ConsumeLogs(context.Background(), counted(counter)) == nil; counter++ {
					accepted.Add(1)
				}
			}()
			require.Eventually(t, func() bool { return accepted.Load() > 20 }, 30*time.Second, time.Millisecond)
			require.NoError(t, e.Shutdown(context.Background()))
			<-ended
			require.Equal(t, counters(0, accepted.Load()), e.writer.counters())
		})
	}
}

// FIL-64: without a queue the caller waits, and gets the error and with it the records.
func TestFIL64WithoutAQueueTheCallerGetsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWriter()
		w.write = w.stuck
		e := newTestExporter(t, func(cfg *Config) { flushed(cfg); noQueue(cfg) }, w)
		e.start(t)
		result := make(chan error)
		logs := passLogs(t, "4192", 0, 10)
		go func() { result <- e.ConsumeLogs(context.Background(), logs) }()
		synctest.Wait()
		require.NoError(t, e.Shutdown(context.Background()))
		require.ErrorIs(t, <-result, errDisk)
		require.Zero(t, dropped(t, e.telemetry, tracefile.DropShutdown))
	})
}

func TestGate(t *testing.T) {
	var g gate
	require.True(t, g.enter())
	empty, first := g.close()
	require.True(t, first)
	require.False(t, g.enter())
	select {
	case <-empty:
		require.Fail(t, "somebody is inside")
	default:
	}
	again, first := g.close()
	require.False(t, first)
	g.leave()
	<-empty
	<-again
}
