// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFIL_48_OldestRowIsDropped: nothing is taken out of the queue before the writer is started.
func TestFIL_48_OldestRowIsDropped(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	w.enqueue(run(1, 10241)...)
	w.enqueue(passOf("other", 1, 1))
	require.Equal(t, 1, w.obs.drops(DropQueueFull))
	require.NoError(t, w.Start())
	w.shutdown()
	require.Equal(t, sequence(2, 10241), w.counters("4192", 0))
	require.Equal(t, []int64{1}, w.counters("other", 0))
	summary := w.logs.FilterMessage("Rows of this producer were dropped").All()
	require.Len(t, summary, 1)
	require.Equal(t, int64(1), summary[0].ContextMap()["rows"])
	require.Equal(t, "4192", summary[0].ContextMap()["producer"])
}

func TestFIL_48_BytesOfAllProducers(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(64<<20), defaultLimits().queueBytes)
	const mebibyte = 1 << 14 // to scale: everything here is 64 times smaller
	w := newRig(t, func(s *setup) { s.idle, s.limits.queueBytes = true, 64*mebibyte })
	big := sized(0, mebibyte)
	for range 70 {
		w.enqueue(big)
	}
	require.Equal(t, 70-63, w.obs.drops(DropQueueFull), "63 rows of 1 MiB fit into 64 MiB, with what they cost beyond their text")
	require.Equal(t, 63, w.find("4192").queue.rows)
	require.LessOrEqual(t, w.budget.used.Load(), int64(64*mebibyte))

	large := big
	large.Source.ProducerID = "other"
	w.enqueue(large)
	require.Equal(t, 8, w.obs.drops(DropQueueFull), "nothing of its own to drop: the arriving row goes")
	small := passOf("other", 1, 1)
	w.enqueue(small)
	require.Equal(t, 8, w.obs.drops(DropQueueFull))
	large.Canonical = sized(0, 3*mebibyte).Canonical
	large.Source.ProducerID = "4192"
	w.enqueue(large)
	require.Equal(t, 8+3, w.obs.drops(DropQueueFull), "as many of the oldest as it needs")
	require.NoError(t, w.Start())
	w.shutdown()
	require.Zero(t, w.budget.used.Load())
}

// TestFIL_47_EnqueueNeverBlocks, while the disk is stuck; exact counts (FIL-49: what is in the batch stays).
func TestFIL_47_EnqueueNeverBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		unstick := stick(d, "write", "4192")
		w := newRig(t, func(s *setup) { s.disk, s.limits.queueRows = d, 100 })
		before := time.Now()
		w.enqueue(run(1, 10)...)
		time.Sleep(2 * time.Second) // these are in the member that is stuck
		w.enqueue(run(11, 200)...)
		require.Equal(t, 2*time.Second, time.Since(before))
		require.Equal(t, 90, w.obs.drops(DropQueueFull))
		unstick()
		time.Sleep(5 * time.Second)
		require.Equal(t, append(sequence(1, 10), sequence(101, 200)...), w.counters("4192", 0))
		w.shutdown()
	})
}

// stick makes an operation on the segments of a producer wait, until the returned function is called.
func stick(d *faultDisk, op, producer string) (unstick func()) {
	stuck := make(chan struct{})
	d.set(func(o, path string) error {
		if o == op && strings.Contains(path, "."+producer+".") && strings.HasSuffix(path, segmentSuffix) {
			<-stuck
		}
		return nil
	})
	return func() {
		d.set(nil)
		close(stuck)
	}
}

func TestFIL_50_OrderIsArrivalOrder(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.FlushBytes = 2000 })
	for c := range int64(300) {
		w.enqueue(pass(c, uint64(c)), passOf("other", c, uint64(c)))
	}
	w.shutdown()
	require.Equal(t, sequence(0, 299), w.counters("4192", 0))
	require.Equal(t, sequence(0, 299), w.counters("other", 0))
}

func TestFIL_51_TooManyProducers(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.limits.maxProducers = 3 })
	for p := range 5 {
		w.enqueue(passOf(fmt.Sprint("p", p), 1, 1))
	}
	w.enqueue(passOf("p0", 2, 2))
	require.Equal(t, 2, w.obs.drops(DropProducerLimit))
	w.shutdown()
	require.Equal(t, 4, w.obs.written())
	require.Equal(t, 1, w.logs.FilterMessageSnippet("Too many producers").Len())
}

// TestFIL_51_FIL_29_FixedLimits: of producers, and of the streams of each.
func TestFIL_51_FIL_29_FixedLimits(t *testing.T) {
	t.Parallel()
	require.Equal(t, 4096, defaultLimits().maxProducers)
	require.Equal(t, 4096, defaultLimits().maxStreams)
}

func TestFIL_51_IdleProducerIsForgotten(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Buffered, Synced} {
		synctest.Test(t, func(t *testing.T) {
			w := newRig(t, func(s *setup) { s.cfg.Durability = durability })
			w.put(pass(1, 1))
			time.Sleep(59 * time.Minute)
			w.put(pass(2, 2))
			time.Sleep(59 * time.Minute)
			require.Len(t, w.everyProducer(), 1)
			time.Sleep(2 * time.Minute)
			require.Empty(t, w.everyProducer())
			require.Zero(t, w.handles.open)
			holdLock(t, dynamoLockPath(w.cfg.Base+".4192"), true)() // not held
			w.put(pass(3, 3))
			w.shutdown()
			require.Equal(t, sequence(1, 2), w.counters("4192", 0))
			require.Equal(t, []int64{3}, w.counters("4192", 1))
		})
	}
}

// TestFIL_51_ReturnWaitsForTheClose: rows that come while the old writer still closes are written after it has.
func TestFIL_51_ReturnWaitsForTheClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk = d })
		w.enqueue(pass(1, 1))
		time.Sleep(time.Minute)
		unstick := stick(d, "close", "4192")
		time.Sleep(time.Hour)
		w.enqueue(pass(2, 2))
		time.Sleep(time.Minute)
		require.Len(t, w.segments(), 1)
		unstick()
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{2}, w.counters("4192", 1))
		w.shutdown()
	})
}

func TestFIL_41_BoundedOpenFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, func(s *setup) { s.cfg.MaxOpenFiles, s.cfg.FlushBytes = 2, 1 })
		for c := range int64(10) {
			for p := range 5 {
				w.enqueue(passOf(fmt.Sprint("p", p), c, uint64(c)))
				synctest.Wait()
				require.LessOrEqual(t, openSegments(t, w.dir), 2)
			}
		}
		require.Equal(t, 2, openSegments(t, w.dir))
		w.shutdown()
		require.Zero(t, openSegments(t, w.dir))
		require.Len(t, w.segments(), 5, "eviction is no roll")
		for p := range 5 {
			require.Equal(t, sequence(0, 9), w.counters(fmt.Sprint("p", p), 0))
		}
	})
}

// TestFIL_41_LeastRecentlyFlushed: that one is closed for another, not the one that was opened first.
func TestFIL_41_LeastRecentlyFlushed(t *testing.T) {
	t.Parallel()
	d := newFaultDisk()
	w := newRig(t, durable(Flushed, d), func(s *setup) { s.cfg.MaxOpenFiles = 2 })
	for i, producer := range []string{"a", "b", "a", "c", "a"} {
		w.put(passOf(producer, int64(i), uint64(i)))
	}
	require.Zero(t, d.count("reopen"))
	w.put(passOf("b", 9, 9))
	require.Equal(t, 1, d.count("reopen"))
	w.shutdown()
}

// openSegments counts the segments that this process has open. Where there is no /proc it finds none.
func openSegments(t *testing.T, dir string) (n int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(target, dir) && strings.HasSuffix(target, segmentSuffix) {
			n++
		}
	}
	return n
}

// TestFIL_41_EveryPlaceInUse: a producer waits for a place only while others use all of them.
func TestFIL_41_EveryPlaceInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		unstick := stick(d, "write", "a")
		w := newRig(t, func(s *setup) { s.disk, s.cfg.MaxOpenFiles = d, 1 })
		w.enqueue(passOf("a", 1, 1))
		time.Sleep(2 * time.Second)
		w.enqueue(passOf("b", 1, 1))
		time.Sleep(2 * time.Second)
		unstick()
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{1}, w.counters("b", 0))
		w.shutdown()
	})
}

// TestCAP_10_MemoryIsBounded: rows that wait cost no more than the queue, and what was written costs nothing.
func TestCAP_10_MemoryIsBounded(t *testing.T) {
	w := newRig(t, func(s *setup) { s.idle, s.limits.queueBytes = true, 4<<20 })
	before := heap()
	for c := range int64(30_000) {
		w.enqueue(passOf(fmt.Sprint("p", c%20), c, uint64(c)))
	}
	require.Positive(t, w.obs.drops(DropQueueFull))
	require.Less(t, heap()-before, int64(12<<20))
	require.NoError(t, w.Start())
	w.shutdown()
	require.Less(t, heap()-before, int64(8<<20))
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
