// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func durable(d Durability, disk fileSystem) func(*setup) {
	return func(s *setup) { s.cfg.Durability, s.disk = d, disk }
}

func TestFIL_58_OneMemberAPush(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Flushed, Synced} {
		t.Run(durability.String(), func(t *testing.T) {
			t.Parallel()
			d := newFaultDisk()
			w := newRig(t, durable(durability, d))
			w.put(pass(1, 1))
			syncs, dirs := d.count("sync"), d.count("syncdir")
			require.Equal(t, []int64{1}, w.counters("4192", 0), "on disk when Write returns")
			w.put(append(run(2, 10), passOf("other", 1, 1))...)
			require.Len(t, members(t, w.path("4192", 0)), 2)
			require.Equal(t, sequence(1, 10), w.counters("4192", 0))
			require.Equal(t, 3, w.obs.flushes())
			switch durability {
			case Flushed:
				require.Equal(t, 1, syncs, "only the probe")
				require.Zero(t, dirs)
				require.Equal(t, 1, d.count("sync"))
			default:
				require.Equal(t, 1+1, syncs)
				require.Equal(t, 1, dirs, "the directory after a creation")
				require.Equal(t, 1+3, d.count("sync"))
				require.Equal(t, 2, d.count("syncdir"))
			}
			w.shutdown()
		})
	}
}

// TestFIL_58_NewDirectoriesAreSynced: a synced segment is of no use when a directory above it is lost.
func TestFIL_58_NewDirectoriesAreSynced(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Flushed, Synced} {
		t.Run(durability.String(), func(t *testing.T) {
			t.Parallel()
			d := newFaultDisk()
			var mu sync.Mutex
			var synced []string
			d.set(func(op, path string) error {
				mu.Lock()
				defer mu.Unlock()
				if op == "syncdir" {
					synced = append(synced, path)
				}
				return nil
			})
			root := t.TempDir()
			base := filepath.Join(root, "a", "b", "fpm")
			w := newRig(t, durable(durability, d), func(s *setup) { s.cfg.Base = base })
			w.put(pass(1, 1))
			w.shutdown()
			if durability == Flushed {
				require.Empty(t, synced)
				return
			}
			require.Equal(t, []string{filepath.Join(root, "a"), root, w.dir}, synced, "for b, for a, for the segment")
		})
	}
}

func TestFIL_58_APushThatRolls(t *testing.T) {
	t.Parallel()
	w := newRig(t, durable(Flushed, disk{}), func(s *setup) { s.cfg.RollBytes = 2000 })
	w.put(sized(1, 660), sized(2, 660), sized(3, 660), sized(4, 660), sized(5, 3000), sized(6, 660))
	require.Equal(t, 4, w.obs.flushes())
	for i, want := range [][]int64{{1, 2, 3}, {4}, {5}, {6}} {
		require.Equal(t, want, w.counters("4192", uint64(i)))
	}
	w.shutdown()
}

func TestFIL_58_NoFlushBySizeOrTime(t *testing.T) {
	t.Parallel()
	w := newRig(t, durable(Flushed, disk{}), func(s *setup) { s.cfg.FlushBytes, s.cfg.FlushInterval = 1, time.Nanosecond })
	w.put(run(1, 100)...)
	require.Equal(t, 1, w.obs.flushes())
	w.shutdown()
}

// TestFIL_58_SyncsInParallel: the producers of a push do not wait for each other's disk.
func TestFIL_58_SyncsInParallel(t *testing.T) {
	t.Parallel()
	d := newFaultDisk()
	const producers = 8
	var all sync.WaitGroup
	all.Add(producers)
	w := newRig(t, durable(Synced, d))
	w.put(pass(1, 1)) // past the preflight
	d.set(func(op, path string) error {
		if op == "sync" && strings.Contains(path, ".p") {
			all.Done()
			all.Wait() // ends only when all of them are here
		}
		return nil
	})
	var records []Record
	for p := range producers {
		records = append(records, passOf(fmt.Sprint("p", p), 1, 1))
	}
	w.put(records...)
	w.shutdown()
}

// TestFIL_58_OnlyTheUnwrittenComeBack, while the rest of the push is written (FIL-61); a retry is no duplicate.
func TestFIL_58_OnlyTheUnwrittenComeBack(t *testing.T) {
	t.Parallel()
	d := newFaultDisk()
	w := newRig(t, durable(Flushed, d))
	w.put(pass(1, 1))
	d.setTakes(func(path string, _ int) (int, error, bool) {
		return 20, errNoSpace, strings.Contains(path, ".4192.")
	})
	push := []Record{passOf("other", 1, 1), pass(2, 2), passOf("other", 2, 2), pass(2, 2), pass(3, 3)}
	unwritten, err := w.Write(t.Context(), push)
	require.ErrorIs(t, err, errNoSpace)
	require.Equal(t, []int{1, 3, 4}, unwritten)
	require.Equal(t, sequence(1, 2), w.counters("other", 0))
	require.Equal(t, []int64{1}, w.counters("4192", 0), "truncated back")
	require.Zero(t, w.obs.drops(DropDuplicate))
	require.ErrorIs(t, w.obs.status(), errNoSpace)
	require.Equal(t, 1, w.obs.fails(OpWrite), "no retry of its own")
	d.setTakes(nil)
	w.put(push[1], push[3], push[4])
	require.Equal(t, sequence(1, 3), w.counters("4192", 0))
	require.Equal(t, 1, w.obs.drops(DropDuplicate))
	require.NoError(t, w.obs.status())
	w.shutdown()
}

// TestFIL_29_AFailureForgetsOnlyItsOwnRows: what was written before is still known.
func TestFIL_29_AFailureForgetsOnlyItsOwnRows(t *testing.T) {
	t.Parallel()
	d := newFaultDisk()
	w := newRig(t, durable(Flushed, d))
	w.put(pass(1, 1))
	d.setTakes(tear(20, errIO))
	_, err := w.Write(t.Context(), run(2, 3))
	require.ErrorIs(t, err, errIO)
	d.setTakes(nil)
	w.put(pass(1, 1))
	require.Equal(t, 1, w.obs.drops(DropDuplicate))
	w.shutdown()
}

// TestFIL_58_FailureBehindARoll: what stands before the failure is written and does not come back.
func TestFIL_58_FailureBehindARoll(t *testing.T) {
	t.Parallel()
	d := newFaultDisk()
	w := newRig(t, durable(Flushed, d), func(s *setup) { s.cfg.RollBytes = 1500 })
	second := w.path("4192", 1)
	d.set(func(op, path string) error {
		if op == "create" && path == second {
			return errNoSpace
		}
		return nil
	})
	push := []Record{sized(1, 660), sized(2, 660), sized(3, 660), sized(4, 660)}
	unwritten, err := w.Write(t.Context(), push)
	require.ErrorIs(t, err, errNoSpace)
	require.Equal(t, []int{2, 3}, unwritten)
	d.set(nil)
	w.put(push[2], push[3])
	require.Equal(t, sequence(1, 2), w.counters("4192", 0))
	require.Equal(t, sequence(3, 4), w.counters("4192", 1))
	w.shutdown()
}

// TestFIL_59_FailedSync: the member is truncated off and the next attempt opens the next index.
func TestFIL_59_FailedSync(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"sync", "syncdir"} {
		for _, first := range []bool{true, false} {
			if op == "syncdir" && !first {
				continue
			}
			t.Run(fmt.Sprint(op, first), func(t *testing.T) {
				t.Parallel()
				d := newFaultDisk()
				w := newRig(t, durable(Synced, d))
				w.put(passOf("other", 1, 1))
				if !first {
					w.put(pass(1, 1))
				}
				d.set(func(o, path string) error {
					if o == op && !strings.Contains(path, ".other.") {
						return &os.PathError{Op: o, Path: path, Err: errIO}
					}
					return nil
				})
				unwritten, err := w.Write(t.Context(), run(2, 3))
				require.ErrorIs(t, err, errIO)
				require.Equal(t, []int{0, 1}, unwritten)
				require.Equal(t, 1, w.obs.fails(OpSync))
				if first {
					require.False(t, exists(w.path("4192", 0)), "no empty file stays behind")
				} else {
					require.Equal(t, []int64{1}, w.counters("4192", 0))
				}
				d.set(nil)
				w.put(run(2, 3)...)
				require.Equal(t, sequence(2, 3), w.counters("4192", 1))
				w.shutdown()
			})
		}
	}
}

// TestFIL_46_WriteDoesNotWaitForTheLock: what can't be written now is the collector's to retry.
func TestFIL_46_WriteDoesNotWaitForTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		synctest.Wait()
		second := first.next(durable(Flushed, disk{}))
		before := time.Now()
		unwritten, err := second.Write(t.Context(), run(1, 2))
		require.ErrorIs(t, err, errLocked)
		require.Equal(t, []int{0, 1}, unwritten)
		require.Zero(t, time.Since(before))
		first.shutdown()
		time.Sleep(5 * time.Second)
		second.put(run(1, 2)...)
		second.shutdown()
	})
}

// TestFIL_58_EndOfTheContext: a member that the disk takes after the push was given up is taken back.
func TestFIL_58_EndOfTheContext(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{0, 1} { // in the segment before
		synctest.Test(t, func(t *testing.T) {
			d := newFaultDisk()
			w := newRig(t, durable(Flushed, d))
			w.put(run(1, rows)...)
			w.put(passOf("other", 1, 1))
			unstick := stick(d, "write", "4192")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			push := []Record{pass(2, 2), passOf("other", 2, 2), pass(3, 3)}
			unwritten, err := w.Write(ctx, push)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, []int{0, 2}, unwritten)
			require.Equal(t, sequence(1, 2), w.counters("other", 0))
			unstick()
			synctest.Wait()
			if rows == 0 {
				require.False(t, exists(w.path("4192", 0)))
			}
			w.put(push[0], push[2])
			require.Equal(t, append(sequence(1, rows), 2, 3), w.counters("4192", 0))
			require.Zero(t, w.obs.drops(DropDuplicate))
			w.shutdown()
		})
	}
}

// TestFIL_64_Interrupt ends a push that is stuck, and leaves the others alone.
func TestFIL_64_Interrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, durable(Synced, d))
		w.put(pass(1, 1), passOf("other", 1, 1))
		unstick := stick(d, "sync", "4192")
		type result struct {
			unwritten []int
			err       error
		}
		results := make(chan result)
		go func() {
			unwritten, err := w.Write(context.Background(), run(2, 3))
			results <- result{unwritten, err}
		}()
		time.Sleep(time.Minute)
		w.Interrupt()
		before := time.Now()
		r := <-results
		require.ErrorIs(t, r.err, errStuck)
		require.Equal(t, []int{0, 1}, r.unwritten)
		require.LessOrEqual(t, time.Since(before), 2*time.Second)

		before = time.Now()
		for c := range int64(10) { // what the queue of the helper still holds
			unwritten, err := w.Write(t.Context(), []Record{pass(c, 100), passOf("other", c+2, 100)})
			require.ErrorIs(t, err, errStuck)
			require.Equal(t, []int{0}, unwritten)
		}
		require.Less(t, time.Since(before), time.Second, "it is not waited for again")
		require.Equal(t, sequence(1, 11), w.counters("other", 0))

		before = time.Now()
		require.ErrorIs(t, w.Shutdown(context.Background()), errStuck)
		require.Less(t, time.Since(before), time.Second)
		unstick()
		synctest.Wait()
		require.Equal(t, []int64{1}, w.counters("4192", 0), "what was returned is taken back")
	})
}

func TestFIL_65_WriteAfterShutdown(t *testing.T) {
	t.Parallel()
	w := newRig(t, durable(Flushed, disk{}))
	w.put(pass(1, 1))
	w.shutdown()
	unwritten, err := w.Write(t.Context(), run(2, 4))
	require.ErrorIs(t, err, errShutdown)
	require.Equal(t, []int{0, 1, 2}, unwritten)
	require.Equal(t, []int64{1}, w.counters("4192", 0))
}

func TestFIL_51_TooManyProducersInAPush(t *testing.T) {
	t.Parallel()
	w := newRig(t, durable(Flushed, disk{}), func(s *setup) { s.limits.maxProducers = 1 })
	w.put(pass(1, 1), passOf("other", 1, 1), passOf("other", 2, 2))
	require.Equal(t, 2, w.obs.drops(DropProducerLimit), "dropped for good: no retry could help")
	w.shutdown()
}
