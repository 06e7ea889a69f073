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
)

func TestSMP15ShutdownEmitsEveryPendingRecordOnce(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(10, 1), rank(2, 1))
		tick()
		r.send(rank(10, 2), rank(2, 1), rank(1, 1)) // rank 2 is suppressed
		r.stop()
		require.Equal(t, []string{"2:1 10:1", "1:1 10:2"}, r.passes())
		r.stop()
		require.Len(t, r.got(), 2, "a second shutdown sends nothing")
		require.Zero(t, r.count("keys", ""))
	})
}

// A tick that an arrival served and the emitter had no time for comes first.
func TestSMP15ShutdownSendsAServedTickBeforeTheRest(t *testing.T) {
	now := time.Now()
	s := newLogState(testConfig())
	s.start(now)
	offer(s, now, rank(0, 1), rank(1, 1))
	offer(s, now.Add(time.Second), rank(0, 2))
	var counters [][]int64
	for batch := s.fetchLast(); len(batch) > 0; batch = s.fetchLast() {
		var ids []int64
		for _, out := range batch {
			ids = append(ids, out.counter.id)
		}
		counters = append(counters, ids)
		s.settle(batch, accepted)
	}
	require.Equal(t, [][]int64{{1, 1}, {2}}, counters)
}

func TestSMP15ShutdownWaitsForTheEmissionUnderWay(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		})
		r.send(rank(0, 1))
		tick() // 1 is on its way
		r.send(rank(0, 2))
		r.stop()
		require.Equal(t, []emission{
			{at: 100 * time.Millisecond, passes: "0:1"},
			{at: 130 * time.Millisecond, passes: "0:2"},
		}, r.got())
		require.EqualValues(t, 2, r.count("records_out", ""))
	})
}

func TestSMP15ShutdownHonorsItsDeadline(t *testing.T) {
	untilCanceled := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(untilCanceled)
		r.send(rank(0, 1), rank(1, 1))
		tick() // both are stuck
		r.send(rank(0, 2))
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Millisecond)
		defer cancel()
		begin := time.Now()
		err := r.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "3 forward passes were not sent before the shutdown deadline")
		require.Equal(t, 40*time.Millisecond, time.Since(begin))
		synctest.Wait()
		require.EqualValues(t, 3, r.count("dropped", "shutdown"))
		require.Zero(t, r.count("dropped", "downstream"))
		require.Zero(t, r.count("records_out", ""))
		require.Equal(t, []string{"0:1 1:1"}, r.passes())
		require.ErrorIs(t, r.Shutdown(context.Background()), context.DeadlineExceeded, "the second call tells the same")
	})
}

// The next component may ignore its context: the shutdown returns nevertheless.
func TestSMP15ShutdownDoesNotHangOnAComponentThatDoes(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		})
		r.send(rank(0, 1))
		tick()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		time.Sleep(2 * time.Hour) // it accepts at last, too late to count
		require.EqualValues(t, 1, r.count("dropped", "shutdown"))
		require.Zero(t, r.count("records_out", ""))
		require.Zero(t, r.count("keys", ""))
	})
}

func TestSMP15ExpiredDeadlineSendsNothing(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(0, 1), rank(1, 1))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, r.Shutdown(ctx), context.Canceled)
		synctest.Wait()
		require.Empty(t, r.got())
		require.EqualValues(t, 2, r.count("dropped", "shutdown"))
	})
}

// COL-52: with nothing left to send, an ended context is no error.
func TestSMP15ExpiredDeadlineWithNothingPending(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, r.Shutdown(ctx))
	})
}

func TestSMP15RefusalAtShutdownIsADownstreamDrop(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error { return errors.New("full") })
		r.send(rank(0, 1))
		r.stop()
		require.EqualValues(t, 1, r.count("dropped", "downstream"))
		require.Zero(t, r.count("dropped", "shutdown"))
	})
}

func TestSMP15ArrivalsAfterShutdownAreCounted(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.stop()
		r.send(rank(0, 1))
		require.EqualValues(t, 1, r.count("dropped", "shutdown"))
		require.Zero(t, r.count("keys", ""))
	})
}

// Senders that go on during the last emission can't keep the shutdown going.
func TestSMP15ArrivalsDuringTheLastEmissionAreCounted(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error {
			r.send(rank(1, 1))
			return nil
		})
		r.send(rank(0, 1))
		r.stop()
		require.Equal(t, []string{"0:1"}, r.passes())
		require.EqualValues(t, 1, r.count("dropped", "shutdown"))
	})
}

func TestShutdownWithoutStart(t *testing.T) {
	for _, signal := range []string{"logs", "traces"} {
		for _, mode := range []string{"sampled", "full"} {
			cfg := testConfig()
			cfg.Mode = mode
			r := newRig(t, signal, cfg)
			r.stop()
			r.stop()
		}
	}
}

// COL-51: a new instance of the same configuration starts from nothing.
func TestRestartWithTheSameConfig(t *testing.T) {
	cfg := testConfig()
	for range 2 {
		onBothSignals(t, cfg, func(r *rig) {
			t := r.t
			r.send(rank(0, 1))
			r.stop()
			require.Equal(t, []string{"0:1"}, r.passes())
		})
	}
}

// A late settle of a batch that the shutdown has given up counts nothing.
func TestSettleAfterReleaseCountsNothing(t *testing.T) {
	s := newLogState(testConfig())
	now := time.Now()
	s.start(now)
	offer(s, now, rank(0, 1))
	batch, _ := s.fetchTick(now.Add(time.Second))
	require.Len(t, batch, 1)
	unsent, released := s.release()
	require.EqualValues(t, 1, unsent)
	require.Equal(t, tally{droppedShutdown: 1, keys: -1}, released)
	require.Zero(t, s.settle(batch, accepted))
	require.Empty(t, s.fetchLast())
	late, swept := s.fetchTick(now.Add(time.Hour))
	require.Empty(t, late)
	require.Zero(t, swept)
}

// A batch that ended with the deadline before release counts as unsent too.
func TestReleaseKnowsWhatWasCutOffBefore(t *testing.T) {
	now := time.Now()
	s := newLogState(testConfig())
	offer(s, now, rank(0, 1), rank(1, 1))
	require.Equal(t, tally{droppedShutdown: 2}, s.settle(s.fetchLast(), cutOff))
	unsent, released := s.release()
	require.EqualValues(t, 2, unsent)
	require.Equal(t, tally{keys: -2}, released)
}
