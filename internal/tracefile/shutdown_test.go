// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFIL_63_ShutdownWritesEverything(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	w.enqueue(run(1, 5000)...)
	require.NoError(t, w.Start())
	w.shutdown()
	require.Equal(t, sequence(1, 5000), w.counters("4192", 0))
	require.Equal(t, 5000, w.obs.written())
	require.Zero(t, w.handles.open)
	require.Empty(t, w.everyProducer())
	holdLock(t, baseLockPath(w.cfg.Base), true)()
	holdLock(t, dynamoLockPath(w.cfg.Base+".4192"), true)()
}

// TestFIL_26_DrainRolls: the queue is drained at shutdown under the rolling rule.
func TestFIL_26_DrainRolls(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle, s.cfg.RollBytes, s.cfg.MaxSegments = true, 2000, 10_000 })
	for c := range int64(256) {
		w.enqueue(sized(c, 1500))
	}
	require.NoError(t, w.Start())
	w.shutdown()
	require.Len(t, w.segments(), 256)
}

func TestFIL_65_EnqueueAfterShutdown(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	w.enqueue(pass(1, 1))
	w.shutdown()
	require.ErrorIs(t, w.Enqueue(run(2, 3)), errShutdown)
	require.Equal(t, []int64{1}, w.counters("4192", 0))
}

func TestFIL_64_ShutdownTwiceAndWithoutStart(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	w.shutdown()
	w.shutdown()
	w = newRig(t, func(s *setup) { s.idle = true })
	w.shutdown()
	require.NoError(t, w.Start(), "too late, and nothing happens")
	w.shutdown()
	w = newRig(t, func(s *setup) { s.idle = true })
	w.enqueue(run(1, 3)...)
	require.ErrorContains(t, w.Shutdown(t.Context()), "3 rows")
	require.Equal(t, 3, w.obs.drops(DropShutdown))
}

// TestFIL_64_DiskIsStuck: shutdown ends with its deadline, and without one when nothing moves; what is left is counted.
func TestFIL_64_DiskIsStuck(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Duration{0, time.Second, time.Minute} {
		for _, op := range []string{"write", "create"} {
			synctest.Test(t, func(t *testing.T) {
				d := newFaultDisk()
				unstick := stick(d, op, "4192")
				w := newRig(t, func(s *setup) { s.disk = d })
				w.enqueue(run(1, 10)...)
				time.Sleep(3 * time.Second)
				w.enqueue(run(11, 30)...)
				w.enqueue(passOf("other", 1, 1))
				ctx := context.Background()
				limit := 20 * time.Second
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
					limit = deadline
				}
				before := time.Now()
				err := w.Shutdown(ctx)
				require.LessOrEqual(t, time.Since(before), limit)
				require.ErrorIs(t, err, errStuck)
				require.ErrorContains(t, err, "30 rows")
				require.Equal(t, 30, w.obs.drops(DropShutdown))
				require.Equal(t, []int64{1}, w.counters("other", 0), "others are written")
				require.Equal(t, 1, w.logs.FilterMessage("Rows of this producer were dropped").Len())
				unstick()
				synctest.Wait()
				require.Equal(t, 1, w.obs.written(), "what was counted as lost is taken back")
				require.False(t, exists(w.path("4192", 0)))
			})
		}
	}
}

// TestFIL_64_DiskFails at shutdown: one more attempt, then what is left is counted.
func TestFIL_64_DiskFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		d.set(failing(errNoSpace, "create"))
		w := newRig(t, func(s *setup) { s.disk = d })
		w.enqueue(run(1, 10)...)
		time.Sleep(20 * time.Second)
		w.enqueue(run(11, 20)...)
		before := time.Now()
		require.ErrorContains(t, w.Shutdown(context.Background()), "20 rows")
		require.Zero(t, time.Since(before))
		require.Equal(t, 20, w.obs.drops(DropShutdown))
	})
}

// TestFIL_64_PreflightIsStuck: not even that holds up a shutdown.
func TestFIL_64_PreflightIsStuck(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Buffered, Synced} {
		synctest.Test(t, func(t *testing.T) {
			d := newFaultDisk()
			stuck := make(chan struct{})
			d.set(func(op, _ string) error {
				if op == "mkdir" {
					<-stuck
				}
				return nil
			})
			w := newRig(t, durable(durability, d))
			before := time.Now()
			if durability == Buffered {
				w.enqueue(run(1, 5)...)
			} else {
				go func() { _, _ = w.Write(context.Background(), run(1, 5)) }()
				synctest.Wait()
			}
			require.Error(t, w.Shutdown(context.Background()))
			require.Less(t, time.Since(before), 30*time.Second)
			close(stuck)
			synctest.Wait()
			require.Empty(t, w.segments())
			holdLock(t, baseLockPath(w.cfg.Base), true)() // given back although it came late
		})
	}
}
