// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// roll applies the rule to row sizes and gives the segments.
func roll(rollBytes int64, rows ...int64) (segments [][]int64) {
	var bytes int64
	for _, row := range rows {
		if len(segments) == 0 || mustRoll(len(segments[len(segments)-1]), bytes, row, rollBytes) {
			segments, bytes = append(segments, nil), 0
		}
		segments[len(segments)-1] = append(segments[len(segments)-1], row)
		bytes += row
	}
	return segments
}

func TestFIL_22_RollExamples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rollBytes int64
		segments  [][]int64
	}{
		{100, [][]int64{{50, 50}}},
		{100, [][]int64{{50}, {51}}},
		{100, [][]int64{{50, 50}, {1}}},
		{100, [][]int64{{150}}},
		{100, [][]int64{{150}, {1}}},
		{100, [][]int64{{50}, {150}, {10}}},
		{100, [][]int64{{100}, {100}}},
		{1, [][]int64{{660}, {660}}},
		{1319, [][]int64{{660}, {660}, {660}}},
		{1320, [][]int64{{660, 660}, {660}}},
	} {
		require.Equal(t, c.segments, roll(c.rollBytes, slices.Concat(c.segments...)...))
	}
	full := roll(268435456, slices.Repeat([]int64{660}, 406721)...)
	require.Len(t, full, 2)
	require.Len(t, full[0], 406720)
	require.Len(t, full[1], 1)
}

// TestFIL_21_FIL_19_FIL_25_RollsOnDisk: the same through the writer, over flushes and at shutdown (FIL-26).
func TestFIL_21_FIL_19_FIL_25_RollsOnDisk(t *testing.T) {
	t.Parallel()
	for rollBytes, want := range map[int64][][]int64{
		1319: {{1}, {2}, {3}},
		1320: {{1, 2}, {3}},
		1321: {{1, 2}, {3}},
		1980: {{1, 2, 3}},
	} {
		for _, flushBytes := range []int64{1, DefaultFlushBytes} {
			synctest.Test(t, func(t *testing.T) {
				w := newRig(t, func(s *setup) { s.cfg.RollBytes, s.cfg.FlushBytes = rollBytes, flushBytes })
				for c := range int64(3) {
					w.enqueue(sized(c+1, 660)) // no time passes, so every timestamp has one digit
				}
				w.shutdown()
				require.Len(t, w.segments(), len(want))
				for i, counters := range want {
					require.Equal(t, counters, w.counters("4192", uint64(i)), rollBytes)
				}
			})
		}
	}
}

// TestFR_29_OversizedRow: FIL-23.
func TestFR_29_OversizedRow(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.RollBytes = 1 << 20 })
	w.enqueue(run(1, 3)...)
	w.enqueue(sized(4, 10<<20))
	w.enqueue(run(5, 7)...)
	w.shutdown()
	require.Equal(t, sequence(1, 3), w.counters("4192", 0))
	big := readRows(t, w.path("4192", 1))
	require.Len(t, big, 1)
	require.Greater(t, len(big[0]), 10<<20-10)
	require.Equal(t, []int64{4}, counters(t, big))
	require.Equal(t, sequence(5, 7), w.counters("4192", 2))
}

// TestFR_20_NoRowIsCut: FIL-13, FIL-21.
func TestFR_20_NoRowIsCut(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) {
		s.cfg.RollBytes = 1500
		s.cfg.MaxSegments = 1000
	})
	const count = 150
	for c := range int64(count) {
		w.enqueue(sized(c+1, 600+int(c*37%500)))
	}
	w.shutdown()
	var all []int64
	for index := range uint64(len(w.segments())) {
		lines := readRows(t, w.path("4192", index))
		all = append(all, counters(t, lines)...)
		if size := len(strings.Join(lines, "\n")) + 1; len(lines) > 1 {
			require.LessOrEqual(t, size, 1500)
		}
	}
	require.Equal(t, sequence(1, count), all)
}

func TestFIL_6_NoRowsNoSegment(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	w.eventually(func() bool { return exists(baseLockPath(w.cfg.Base)) }, "started")
	w.shutdown()
	require.Empty(t, w.segments())
	entries, err := os.ReadDir(w.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the lock, no probe (FIL-12)")
}

func TestFIL_7_NothingInTheWayIsTouched(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	victim, nowhere := filepath.Join(w.dir, "victim"), filepath.Join(w.dir, "nowhere")
	var paths []string
	for i := range uint64(4) {
		paths = append(paths, w.path("4192", i))
	}
	writeFile(t, victim, "precious")
	started := newFaultDisk()
	// Whatever is there appears only after the first index was chosen.
	started.set(func(op, path string) error {
		if op == "create" && path == paths[0] && !exists(path) {
			writeFile(t, path, "other")
			require.NoError(t, os.Mkdir(paths[1], 0o700))
			require.NoError(t, os.Symlink(victim, paths[2]))
			require.NoError(t, os.Symlink(nowhere, paths[3]))
		}
		return nil
	})
	w.shutdown()
	w = w.next(func(s *setup) { s.disk = started })
	w.enqueue(pass(1, 1))
	w.shutdown()
	require.Equal(t, []int64{1}, w.counters("4192", 4))
	for _, path := range []string{victim, paths[0]} {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, []string{"precious", "other"}, string(content))
	}
	require.False(t, exists(nowhere))
}

func TestFIL_9_FirstIndexAfterARestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		occupy func(t *testing.T, w *rig)
		index  uint64
	}{
		"nothing": {func(*testing.T, *rig) {}, 0},
		"gap": {func(t *testing.T, w *rig) {
			t.Helper()
			writeFile(t, w.path("4192", 0), "")
			writeFile(t, w.path("4192", 7), "")
		}, 8},
		"directory": {func(t *testing.T, w *rig) {
			t.Helper()
			require.NoError(t, os.Mkdir(w.path("4192", 4), 0o700))
		}, 5},
		"dangling link": {func(t *testing.T, w *rig) {
			t.Helper()
			require.NoError(t, os.Symlink("nowhere", w.path("4192", 1000000)))
		}, 1000001},
		"others": {func(t *testing.T, w *rig) {
			t.Helper()
			writeFile(t, w.path("41921", 7), "")
			writeFile(t, w.path("4192", 7)+".bak", "")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRig(t, func(s *setup) { s.idle = true })
			c.occupy(t, w)
			w.shutdown()
			w = w.next()
			w.enqueue(pass(1, 1))
			w.shutdown()
			require.Equal(t, []int64{1}, w.counters("4192", c.index))
		})
	}
}

func TestFIL_10_NoIndexIsLeft(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Buffered, Flushed} {
		t.Run(durability.String(), func(t *testing.T) {
			t.Parallel()
			w := newRig(t, func(s *setup) { s.idle = true })
			writeFile(t, w.path("4192", 18446744073709551615), "")
			w.shutdown()
			w = w.next(func(s *setup) { s.cfg.Durability = durability })
			w.put(run(1, 3)...)
			w.put(passOf("other", 1, 1))
			w.put(run(4, 5)...)
			w.shutdown()
			require.Equal(t, 5, w.obs.drops(DropProducerLimit))
			require.Equal(t, []int64{1}, w.counters("other", 0))
			require.Equal(t, 1, w.logs.FilterMessageSnippet("No segment index").Len())
			require.NoError(t, w.obs.status())
		})
	}
}

func TestFIL_10_TheLastIndexIsUsed(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.idle = true })
	writeFile(t, w.path("4192", 18446744073709551614), "")
	w.shutdown()
	w = w.next(func(s *setup) { s.cfg.RollBytes = 1 })
	w.enqueue(run(1, 3)...)
	w.shutdown()
	require.Equal(t, []int64{1}, w.counters("4192", 18446744073709551615))
	require.Equal(t, 2, w.obs.drops(DropProducerLimit))
}

func TestFIL_11_OldSegmentsAreNotAppendedTo(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	w.enqueue(run(1, 2)...)
	w.shutdown()
	before, err := os.ReadFile(w.path("4192", 0))
	require.NoError(t, err)
	w = w.next()
	w.enqueue(run(3, 4)...)
	w.shutdown()
	after, err := os.ReadFile(w.path("4192", 0))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, sequence(3, 4), w.counters("4192", 1))
}

func TestFIL_28_EngineRestart(t *testing.T) {
	t.Parallel()
	other := func(counter int64, observedMillis uint64) Record {
		r := pass(counter, observedMillis)
		r.Canonical = payload("4192", counter, "another pass")
		return r
	}
	for name, c := range map[string]struct {
		rows     []Record
		segments [][]int64
	}{
		"restart":           {[]Record{pass(100, 10), pass(0, 20), pass(1, 30)}, [][]int64{{100}, {0, 1}}},
		"late":              {[]Record{pass(100, 10), pass(99, 9), pass(101, 11)}, [][]int64{{100, 99, 101}}},
		"late, same time":   {[]Record{pass(100, 10), pass(99, 10), pass(101, 10)}, [][]int64{{100, 99, 101}}},
		"late is forgotten": {[]Record{pass(100, 10), pass(99, 9), pass(99, 9)}, [][]int64{{100, 99, 99}}},
		"duplicate":         {[]Record{pass(100, 10), pass(100, 10), pass(100, 99)}, [][]int64{{100}}},
		"restart, same counter": {
			[]Record{pass(1, 10), other(1, 20), other(1, 20), pass(2, 30)}, [][]int64{{1}, {1, 2}},
		},
		"late, same counter": {
			[]Record{pass(1, 10), other(1, 9), other(1, 10), pass(1, 30), pass(2, 40)}, [][]int64{{1, 1, 1, 2}},
		},
		"forgotten by a roll": {[]Record{pass(100, 10), pass(0, 20), pass(100, 30), pass(100, 30)}, [][]int64{{100}, {0, 100}}},
		"restart twice":       {[]Record{pass(5, 10), pass(0, 20), pass(5, 30), pass(0, 40)}, [][]int64{{5}, {0, 5}, {0}}},
		"no times":            {[]Record{pass(5, 0), pass(6, 0), pass(6, 0), pass(3, 0)}, [][]int64{{5, 6, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, durability := range []Durability{Buffered, Flushed} {
				w := newRig(t, func(s *setup) { s.cfg.Durability = durability })
				w.put(c.rows...)
				w.shutdown()
				written := 0
				for i, want := range c.segments {
					require.Equal(t, want, w.counters("4192", uint64(i)))
					written += len(want)
				}
				require.Len(t, w.segments(), len(c.segments))
				require.Equal(t, len(c.rows)-written, w.obs.drops(DropDuplicate))
			}
		})
	}
}

// TestFIL_29_ARollForgets: a duplicate is looked for in the active segment only, and before the roll is decided.
func TestFIL_29_ARollForgets(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.RollBytes = 1 })
	rank1 := pass(1, 1)
	rank1.DPRank = 1
	w.enqueue(pass(100, 10), pass(100, 10), rank1, pass(100, 10))
	w.shutdown()
	require.Equal(t, 1, w.obs.drops(DropDuplicate))
	for i, want := range []int64{100, 1, 100} {
		require.Equal(t, []int64{want}, w.counters("4192", uint64(i)))
	}
}

// TestFIL_29_ALostSegmentIsForgotten: no row is a duplicate of one in a segment that is gone, and none restarts an engine
// that this segment has not seen.
func TestFIL_29_ALostSegmentIsForgotten(t *testing.T) {
	t.Parallel()
	w := newRig(t, durable(Flushed, disk{}))
	w.put(pass(100, 10))
	require.NoError(t, os.Remove(w.path("4192", 0)))
	w.put(pass(100, 10))
	require.Equal(t, []int64{100}, w.counters("4192", 1))
	require.Zero(t, w.obs.drops(DropDuplicate))

	w.put(pass(100, 10))
	require.Equal(t, 1, w.obs.drops(DropDuplicate), "it is there now")

	require.NoError(t, os.Remove(w.path("4192", 1)))
	other := pass(1, 11)
	other.DPRank = 1
	w.put(other)
	w.put(pass(0, 20))
	require.Equal(t, []int64{1, 0}, w.counters("4192", 2), "no roll")
	w.shutdown()
}

// TestFIL_29_APendingBatchIsRemembered: the rows that go to the next segment instead of a lost one keep being known.
func TestFIL_29_APendingBatchIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t)
		w.enqueue(pass(100, 10))
		time.Sleep(2 * time.Second)
		w.enqueue(pass(101, 11))
		synctest.Wait()
		require.NoError(t, os.Remove(w.path("4192", 0)))
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{101}, w.counters("4192", 1))
		w.enqueue(pass(101, 11))
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, w.obs.drops(DropDuplicate))
		w.enqueue(pass(0, 20))
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{0}, w.counters("4192", 2), "a restart")
		w.shutdown()
	})
}

// TestFIL_29_AnAbandonedSegmentIsForgotten: neither does taking a failed batch back bring the rows of the segment before
// to mind again.
func TestFIL_29_AnAbandonedSegmentIsForgotten(t *testing.T) {
	t.Parallel()
	d := newFaultDisk()
	w := newRig(t, durable(Flushed, d))
	w.put(pass(100, 10))
	d.set(failing(errNoSpace, "write", "truncate"))
	_, err := w.Write(t.Context(), []Record{pass(101, 11)})
	require.ErrorIs(t, err, errNoSpace)
	d.set(nil)
	other := pass(1, 12)
	other.DPRank = 1
	w.put(other, pass(0, 20))
	require.Equal(t, []int64{1, 0}, w.counters("4192", 1), "no roll")
	w.shutdown()
}

func TestFIL_28_StreamsAreApart(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	rank1, other := pass(5, 2), pass(5, 2)
	rank1.DPRank, other.Worker = 1, strings.Repeat("w", 1000)
	almost := other
	almost.Worker += "x"
	w.enqueue(pass(5, 1), rank1, other, almost, pass(5, 3))
	w.shutdown()
	require.Equal(t, []int64{5, 5, 5, 5}, w.counters("4192", 0))
	require.Equal(t, 1, w.obs.drops(DropDuplicate))
}

func TestFIL_29_StreamMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := streams{limit: 2}
	see := func(worker string, counter int64) judgment {
		r := &row{stream: newStreamKey(worker, 0), counter: counter, observed: uint64(counter)}
		j := s.judge(r)
		if j == rowNew {
			s.remember(r)
		}
		return j
	}
	require.Equal(t, rowNew, see("a", 1))
	require.Equal(t, rowNew, see("b", 1))
	require.Equal(t, rowNew, see("a", 2))
	require.Equal(t, rowNew, see("c", 1))
	require.Equal(t, rowDuplicate, see("a", 2))
	require.Equal(t, rowNew, see("b", 1), "the longest idle was forgotten")
	require.Len(t, s.seen, 2)
}
