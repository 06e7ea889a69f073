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
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/bytesize"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

func sequences(sink *consumertest.LogsSink) (all []int64) {
	for _, record := range records(sink) {
		sequence, _ := record.Attributes().Get("fpm.sequence")
		all = append(all, sequence.Int())
	}
	return all
}

func TestCOL_70_BatchesBySizeAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.LogsSink{}
		cfg := testConfig(nobody)
		cfg.Batch = BatchConfig{MaxRecords: 3, Timeout: 200 * time.Millisecond}
		r := start(t, cfg, sink)
		for i := range int64(7) {
			r.feedNumbered(0, uint64(i), pass("7", 0, i))
		}
		synctest.Wait()
		require.Equal(t, []int{3, 3}, sizes(sink), "by size")
		time.Sleep(199 * time.Millisecond)
		require.Len(t, sizes(sink), 2)
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, []int{3, 3, 1}, sizes(sink), "by time")
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, sequences(sink))
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

func sizes(sink *consumertest.LogsSink) (all []int) {
	for _, logs := range sink.AllLogs() {
		all = append(all, logs.LogRecordCount())
	}
	return all
}

// A consumer may change what it was given: a retry sends it anew (COL-54).
func TestCOL_60_TransientErrorsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := newGate(func(_ context.Context, call int) error {
			if call < 4 {
				return errRefused
			}
			return nil
		})
		r := start(t, testConfig(nobody), vandal{failing})
		r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 0, 1))
		time.Sleep(time.Minute)
		require.Equal(t, 4, failing.called())
		require.Equal(t, []int64{0, 1}, sequences(&failing.LogsSink))
		require.Zero(t, r.metric("fpm_receiver_dropped_records"))
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// vandal clears what it was given when its consumer fails.
type vandal struct{ *gate }

func (v vandal) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	err := v.gate.ConsumeLogs(ctx, logs)
	if err != nil {
		logs.ResourceLogs().RemoveIf(func(plog.ResourceLogs) bool { return true })
	}
	return err
}

func TestCOL_60_PermanentErrorsDropTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := newGate(func(_ context.Context, call int) error {
			if call == 1 {
				return consumererror.NewPermanent(errRefused)
			}
			return nil
		})
		r := start(t, testConfig(nobody), failing)
		r.feedNumbered(0, 0, pass("7", 0, 0), pass("7", 0, 1))
		time.Sleep(time.Second)
		r.feedNumbered(0, 2, pass("7", 0, 2))
		time.Sleep(time.Second)
		require.Equal(t, []int64{2}, sequences(&failing.LogsSink))
		require.EqualValues(t, 2, r.metric("fpm_receiver_dropped_records", "reason", "refused", "signal", "logs", "endpoint", nobody))
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// While the consumer does not answer, the queue is bounded, and the endpoint
// that holds most gives way (STR-100).
func TestSTR_100_QueueFull(t *testing.T) {
	release := make(chan struct{})
	blocked := newGate(func(ctx context.Context, _ int) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	cfg := testConfig(nobody, nobody+"-flood")
	cfg.Queue.MaxRecords = 100
	cfg.Batch.MaxRecords = 1
	r := start(t, cfg, blocked)
	r.feedNumbered(0, 0, pass("quiet", 0, 0)) // under way, not in the queue
	eventually(t, func() bool { return r.metric("fpm_receiver_queue_records") == 0 && blocked.called() == 1 }, "under way")
	for i := range int64(10) {
		r.feedNumbered(0, uint64(i+1), pass("quiet", 0, i+1))
	}
	for i := range int64(1000) {
		r.feedNumbered(1, uint64(i), pass("flood", 0, i))
	}
	require.EqualValues(t, 100, r.metric("fpm_receiver_queue_records", "signal", "logs"))
	require.EqualValues(t, 90*len(pass("flood", 0, 500))+10*len(pass("quiet", 0, 5)), r.metric("fpm_receiver_queue_bytes"))
	require.EqualValues(t, 910, r.metric("fpm_receiver_dropped_records", "reason", "queue_full", "endpoint", nobody+"-flood"))
	require.Zero(t, r.metric("fpm_receiver_dropped_records", "endpoint", nobody))
	require.EqualValues(t, 1011, r.metric("fpm_receiver_records"), "dropped by the queue, not lost by the stream")

	close(release)
	require.NoError(t, r.Shutdown(t.Context()))
	require.Len(t, records(&blocked.LogsSink), 101)
}

func (g *gate) called() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// Huge payloads go in batches of their own size, at once, and those of others right
// behind them.
func TestBatchesAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.LogsSink{}
		cfg := testConfig(nobody, nobody+"-2")
		cfg.Batch.Timeout = time.Hour
		r := start(t, cfg, sink)
		huge := append(fpm.AppendMapHeader(nil, 8), golden()[1:]...)
		huge = fpm.AppendArrayHeader(fpm.AppendString(huge, "zzz"), 900_000)
		huge = append(huge, make([]byte, 900_000)...)
		for i := range int64(4) {
			r.feedNumbered(0, uint64(i), huge)
			r.feedNumbered(1, uint64(i), pass("7", 0, i))
		}
		synctest.Wait()
		require.Equal(t, []int{2, 2}, sizes(sink)[:2], "a second huge one does not fit")
		require.Equal(t, pcommon.ValueTypeBytes, records(sink)[0].Body().Type(), "a million values are no map")
		require.NoError(t, r.Shutdown(t.Context()))
		require.Equal(t, 8, sink.LogRecordCount())
	})
}

// A small queue::max_bytes drops nothing while the consumer waits for more: a batch
// goes before the queue is full, not only when batch::max_records or timeout say so.
func TestSTR_100_ASmallQueueDropsNothingOfAnIdleConsumer(t *testing.T) {
	const records = 10_000
	for signal, maxBytes := range map[string]bytesize.Size{"logs": 64 << 10, "traces": 128 << 10} {
		t.Run(signal, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig(nobody)
				cfg.MaxMessageSize, cfg.Queue.MaxBytes = 64<<10, maxBytes
				cfg.Batch = createDefaultConfig().(*Config).Batch
				require.NoError(t, cfg.Validate())
				logs, traces := &consumertest.LogsSink{}, &consumertest.TracesSink{}
				r := newRun(t, cfg, nil)
				if signal == "logs" {
					r.nextLogs = logs
				} else {
					r.nextTraces = traces
				}
				require.NoError(t, r.Start(t.Context(), r.host))
				for i := range int64(records) {
					r.feedNumbered(0, uint64(i), pass("7", 0, i))
					time.Sleep(500 * time.Microsecond)
				}
				require.NoError(t, r.Shutdown(t.Context()))
				require.Zero(t, r.metric("fpm_receiver_dropped_records"))
				require.GreaterOrEqual(t, logs.LogRecordCount()+traces.SpanCount(), records)
			})
		})
	}
}

func TestBatchLimits(t *testing.T) {
	for maxBytes, want := range map[bytesize.Size]int64{1: 1, 1 << 20: 512 << 10, 64 << 20: 1 << 20} {
		limits := batchLimits(&Config{Queue: QueueConfig{MaxBytes: maxBytes}})
		require.Equal(t, want, limits.Bytes, "0 would be reached by an empty queue")
	}
}
