// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFIL_31_KeepsTheNewest(t *testing.T) {
	t.Parallel()
	for keep, want := range map[int][]uint64{1: {5}, 2: {4, 5}, 4: {2, 3, 4, 5}, 6: {0, 1, 2, 3, 4, 5}} {
		w := newRig(t, func(s *setup) { s.cfg.RollBytes, s.cfg.MaxSegments = 1, keep })
		w.enqueue(run(1, 6)...)
		w.shutdown()
		require.Equal(t, want, indexesOf(w.segments(), "dynamo-fpm.4192"), keep)
		require.Equal(t, 6-keep, w.obs.prunes(PruneMaxSegments))
	}
}

func TestFIL_30_OldDataGoOnlyWhenNewDataAreOnDisk(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	for i := range uint64(6) {
		writeFile(t, w.path("4192", i), "old")
	}
	w.shutdown()
	disk := newFaultDisk()
	most := 0
	disk.set(func(op, _ string) error {
		if op == "unlink" {
			most = max(most, len(w.segments()))
		}
		return nil
	})
	next := w.next(func(s *setup) { s.disk = disk })
	next.eventually(func() bool { return exists(baseLockPath(next.cfg.Base)) }, "started")
	require.Len(t, next.segments(), 6, "a start deletes nothing")
	next.enqueue(pass(1, 1))
	next.shutdown()
	require.Equal(t, []uint64{3, 4, 5, 6}, indexesOf(next.segments(), "dynamo-fpm.4192"))
	require.Equal(t, 7, most, "max_segments + the new one, for a moment")
}

// TestFIL_30_LowestFirst: by number, not by name.
func TestFIL_30_LowestFirst(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	var want []string
	for _, i := range []uint64{999_998, 999_999, 1_000_000} {
		want = append(want, w.path("4192", i))
		writeFile(t, w.path("4192", i), "old")
	}
	w.shutdown()
	disk := newFaultDisk()
	var deleted []string
	disk.set(func(op, path string) error {
		if op == "unlink" && strings.HasSuffix(path, segmentSuffix) {
			deleted = append(deleted, path)
		}
		return nil
	})
	next := w.next(func(s *setup) { s.disk, s.cfg.MaxSegments = disk, 1 })
	next.enqueue(pass(1, 1))
	next.shutdown()
	require.Equal(t, want, deleted)
}

func TestFIL_32_ListsOnceASegment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk = disk })
		for c := range int64(5) {
			w.enqueue(pass(c, uint64(c)))
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, 5, w.obs.flushes())
		require.Equal(t, 1, disk.count("readdir"), "for the first index")
		w.shutdown()
	})
}

func TestFIL_33_OnlyRegularFiles(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	writeFile(t, w.path("4192", 0), "old")
	require.NoError(t, os.Mkdir(w.path("4192", 1), 0o700))
	require.NoError(t, os.Symlink("nowhere", w.path("4192", 2)))
	writeFile(t, w.path("4192", 3), "old")
	w.shutdown()
	w = w.next(func(s *setup) { s.cfg.MaxSegments = 2 })
	w.enqueue(pass(1, 1))
	w.shutdown()
	require.Equal(t, []uint64{1, 2, 3, 4}, indexesOf(w.segments(), "dynamo-fpm.4192"))
}

func TestFIL_34_FailedDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := newRig(t, func(s *setup) { s.idle = true })
		for i := range uint64(6) {
			writeFile(t, idle.path("4192", i), "old")
		}
		idle.shutdown()
		disk := newFaultDisk()
		stubborn := idle.path("4192", 1)
		disk.set(func(op, path string) error {
			if op == "unlink" && path == stubborn {
				return &os.PathError{Op: op, Path: path, Err: errDenied}
			}
			return nil
		})
		w := idle.next(func(s *setup) { s.disk = disk })
		w.enqueue(pass(1, 1))
		time.Sleep(2 * time.Second)
		require.Equal(t, []uint64{1, 3, 4, 5, 6}, indexesOf(w.segments(), "dynamo-fpm.4192"), "the others went")
		w.enqueue(pass(2, 2))
		time.Sleep(2 * time.Second)
		require.Equal(t, 2, w.obs.fails(OpPrune))
		require.Equal(t, 1, w.logs.FilterMessageSnippet("could not be deleted").Len())
		disk.set(nil)
		w.enqueue(pass(3, 3))
		time.Sleep(2 * time.Second)
		require.Equal(t, []uint64{3, 4, 5, 6}, indexesOf(w.segments(), "dynamo-fpm.4192"))
		require.Equal(t, 3, w.obs.prunes(PruneMaxSegments))
		w.shutdown()
	})
}

func TestFIL_34_GoneAlreadyIsNoFailure(t *testing.T) {
	t.Parallel()
	idle := newRig(t, func(s *setup) { s.idle = true })
	for i := range uint64(6) {
		writeFile(t, idle.path("4192", i), "old")
	}
	idle.shutdown()
	disk := newFaultDisk()
	first := idle.path("4192", 0)
	disk.set(func(op, path string) error {
		if op == "unlink" && path == first {
			return os.Remove(path)
		}
		return nil
	})
	w := idle.next(func(s *setup) { s.disk = disk })
	w.enqueue(pass(1, 1))
	w.shutdown()
	require.Zero(t, w.obs.fails(OpPrune))
	require.Equal(t, 2, w.obs.prunes(PruneMaxSegments))
}

// TestFIL_30_TheActiveSegmentStays although somebody puts files with higher indexes beside it.
func TestFIL_30_TheActiveSegmentStays(t *testing.T) {
	t.Parallel()
	idle := newRig(t, func(s *setup) { s.idle = true })
	idle.shutdown()
	d := newFaultDisk()
	d.set(func(op, path string) error {
		if op == "create" && path == idle.path("4192", 0) {
			for i := range uint64(4) {
				writeFile(t, idle.path("4192", 100+i), "other")
			}
		}
		return nil
	})
	w := idle.next(func(s *setup) { s.disk = d })
	w.enqueue(pass(1, 1))
	w.shutdown()
	require.Equal(t, []int64{1}, w.counters("4192", 0))
	require.Len(t, w.segments(), 5)
}

func TestFIL_33_DirectoriesAreNotUnlinked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.Error(t, disk{}.Unlink(dir))
	require.DirExists(t, dir)
}

// TestFR_22_ProducersRollAndPruneAlone: FIL-36, FIL-40.
func TestFR_22_ProducersRollAndPruneAlone(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.RollBytes, s.cfg.MaxSegments = 1, 2 })
	w.enqueue(passOf("quiet", 1, 1))
	for p := range 20 {
		for c := range int64(p + 1) {
			w.enqueue(passOf(fmt.Sprintf("busy-%02d", p), c, uint64(c)))
		}
	}
	w.shutdown()
	require.Equal(t, []int64{1}, w.counters("quiet", 0))
	for p := range uint64(20) {
		producer := fmt.Sprintf("busy-%02d", p)
		want := []uint64{p}
		if p > 0 {
			want = []uint64{p - 1, p}
		}
		require.Equal(t, want, indexesOf(w.segments(), "dynamo-fpm."+producer))
	}
}

// aged is a family on disk, before a writer starts: name of the producer and index, size in bytes, age.
type aged struct {
	producer string
	index    uint64
	size     int
	age      time.Duration
}

func (w *rig) lay(now time.Time, files ...aged) {
	w.t.Helper()
	for _, f := range files {
		path := w.path(f.producer, f.index)
		writeFile(w.t, path, strings.Repeat("x", f.size))
		require.NoError(w.t, os.Chtimes(path, now, now.Add(-f.age)))
	}
}

func (w *rig) remaining() string {
	return strings.NewReplacer("dynamo-fpm.", "", ".jsonl.gz", "", "00000", "").Replace(strings.Join(w.segments(), " "))
}

func TestFIL_37_TotalBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit     int64
		files     []aged
		remaining string
		pruned    int
	}{
		"fits":         {60, []aged{{"a", 0, 30, 3 * time.Hour}, {"b", 0, 30, 2 * time.Hour}}, "a.0 b.0", 0},
		"oldest first": {60, []aged{{"a", 0, 30, 3 * time.Hour}, {"a", 1, 30, 2 * time.Hour}, {"b", 0, 30, 4 * time.Hour}}, "a.0 a.1", 1},
		"then by name": {30, []aged{{"b", 0, 30, 3 * time.Hour}, {"a", 1, 30, 3 * time.Hour}, {"a", 0, 30, 3 * time.Hour}}, "b.0", 2},
		"live":         {30, []aged{{"a", 0, 30, 5 * time.Hour}, {"a", 1, 30, time.Minute}, {"b", 0, 30, 2 * time.Hour}}, "a.0 a.1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				idle := newRig(t, func(s *setup) { s.idle = true })
				idle.lay(time.Now(), c.files...)
				idle.shutdown()
				w := idle.next(func(s *setup) { s.cfg.MaxTotalBytes = c.limit })
				time.Sleep(59 * time.Second)
				require.Len(t, w.segments(), len(c.files), "not before a minute")
				time.Sleep(2 * time.Second)
				require.Equal(t, c.remaining, w.remaining())
				require.Equal(t, c.pruned, w.obs.prunes(PruneMaxTotalBytes))
				time.Sleep(10 * time.Minute)
				warnings := w.logs.FilterMessageSnippet("exceed retention::max_total_bytes").Len()
				if name == "live" {
					require.Equal(t, 1, warnings)
				} else {
					require.Zero(t, warnings)
				}
				w.shutdown()
			})
		})
	}
}

func TestFIL_37_CheckedAfterARoll(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) {
		s.cfg.RollBytes, s.cfg.MaxTotalBytes, s.cfg.MaxSegments, s.cfg.FlushBytes = 1, 1, 100, 1
	})
	w.enqueue(run(1, 5)...)
	w.eventually(func() bool { return w.obs.written() == 5 && w.obs.prunes(PruneMaxTotalBytes) == 4 },
		"all but the active segment go")
	require.Equal(t, []int64{5}, w.counters("4192", 4))
	w.shutdown()
}

func TestFIL_38_Age(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := newRig(t, func(s *setup) { s.idle = true })
		idle.lay(time.Now(), aged{"a", 0, 1, 48 * time.Hour}, aged{"a", 1, 1, 20 * time.Hour}, aged{"own", 0, 1, 30 * time.Hour})
		idle.shutdown()
		w := idle.next(func(s *setup) { s.cfg.MaxAge = 24 * time.Hour })
		w.enqueue(passOf("own", 1, 1))
		time.Sleep(2 * time.Second)
		now := time.Now().Add(-100 * time.Hour)
		require.NoError(t, os.Chtimes(w.path("own", 1), now, now))
		time.Sleep(time.Minute)
		require.Equal(t, "a.1 own.1", w.remaining(), "the active segment stays, whatever its time says")
		require.Equal(t, 2, w.obs.prunes(PruneMaxAge))
		time.Sleep(5 * time.Hour) // without traffic
		require.Empty(t, w.segments(), "the writer of own is idle and gone by now")
		require.Equal(t, 4, w.obs.prunes(PruneMaxAge))
		w.shutdown()
	})
}

func TestFIL_38_NotBeforeTheAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, func(s *setup) { s.idle, s.cfg.MaxAge = true, 24*time.Hour })
		now := time.Now()
		w.lay(now, aged{"a", 0, 1, 24*time.Hour + time.Second}, aged{"b", 0, 1, 24 * time.Hour})
		w.family.check(now)
		require.Equal(t, "b.0", w.remaining(), "older than that, not as old")
		w.shutdown()
	})
}

// TestFIL_37_GoneMeanwhile: a segment that somebody else deletes during a check counts once, so the size limit is met.
func TestFIL_37_GoneMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) {
			s.idle, s.disk, s.cfg.MaxTotalBytes, s.cfg.MaxAge = true, d, 60, 24*time.Hour
		})
		now := time.Now()
		w.lay(now, aged{"a", 0, 30, 50 * time.Hour}, aged{"b", 0, 30, 5 * time.Hour}, aged{"c", 0, 30, 4 * time.Hour},
			aged{"d", 0, 30, 3 * time.Hour})
		d.set(func(op, path string) error {
			if op == "unlink" && path == w.path("a", 0) {
				_ = os.Remove(path)
			}
			return nil
		})
		w.family.check(now)
		require.Equal(t, "c.0 d.0", w.remaining())
		require.Zero(t, w.obs.prunes(PruneMaxAge))
		require.Equal(t, 1, w.obs.prunes(PruneMaxTotalBytes))
		w.shutdown()
	})
}

// TestFIL_39_TheLockIsHeldForADeletion: a producer that comes back just then waits for it, and reports no other writer.
func TestFIL_39_TheLockIsHeldForADeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := newRig(t, func(s *setup) { s.idle = true })
		idle.lay(time.Now(), aged{"back", 0, 9, 9 * time.Hour})
		idle.shutdown()
		holdLock(t, dynamoLockPath(idle.cfg.Base+".back"), false)()
		d := newFaultDisk()
		d.set(func(op, path string) error {
			if op == "unlink" && path == idle.path("back", 0) {
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		w := idle.next(func(s *setup) { s.disk, s.cfg.MaxTotalBytes = d, 1 })
		time.Sleep(61 * time.Second)
		w.enqueue(passOf("back", 1, 1))
		time.Sleep(5 * time.Second)
		require.NoError(t, w.obs.status())
		require.Zero(t, w.obs.fails(OpLock))
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, w.obs.written(), "soon after the deletion")
		w.shutdown()
	})
}

func TestFIL_39_WhatIsNeverDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := newRig(t, func(s *setup) { s.idle = true })
		idle.lay(time.Now(), aged{"dynamo", 0, 9, 9 * time.Hour}, aged{"dead", 0, 9, 9 * time.Hour}, aged{"nolock", 0, 9, 9 * time.Hour})
		require.NoError(t, os.Mkdir(idle.path("dead", 1), 0o700))
		require.NoError(t, os.Symlink(idle.path("dead", 0), idle.path("dead", 2)))
		idle.shutdown()
		held := holdLock(t, dynamoLockPath(idle.cfg.Base+".dynamo"), false)
		holdLock(t, dynamoLockPath(idle.cfg.Base+".dead"), false)()
		w := idle.next(func(s *setup) { s.cfg.MaxTotalBytes = 1 })
		time.Sleep(61 * time.Second)
		require.Equal(t, "dead.1 dead.2 dynamo.0", w.remaining())
		require.True(t, exists(dynamoLockPath(w.cfg.Base+".dead")), "locks stay")
		require.False(t, exists(dynamoLockPath(w.cfg.Base+".nolock")), "none is made")
		holdLock(t, dynamoLockPath(w.cfg.Base+".dead"), true)() // not held any more
		held()
		time.Sleep(time.Minute)
		require.Equal(t, "dead.1 dead.2", w.remaining())
		w.shutdown()
	})
}

// holdLock takes a flock as another process would.
func holdLock(t *testing.T, path string, exclusive bool) (release func()) {
	t.Helper()
	lock, err := disk{}.OpenLock(path, dynamoLock)
	require.NoError(t, err)
	require.NoError(t, lock.TryLock(exclusive))
	return func() { require.NoError(t, lock.Close()) }
}
