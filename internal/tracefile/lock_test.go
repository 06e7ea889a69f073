// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFIL_42_DynamoLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t)
		path := dynamoLockPath(w.cfg.Base + ".4192")
		require.Equal(t, w.cfg.Base+".4192.000000.jsonl.lock", path)
		release := holdLock(t, path, true)
		w.enqueue(pass(1, 1), passOf("other", 1, 1))
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"dynamo-fpm.other.000000.jsonl.gz"}, w.segments())
		require.ErrorIs(t, w.obs.status(), errLocked)
		require.ErrorContains(t, w.obs.status(), path)
		release()
		time.Sleep(5 * time.Second)
		require.Equal(t, []int64{1}, w.counters("4192", 0))
		require.NoError(t, w.obs.status())

		lock, err := disk{}.OpenLock(path, dynamoLock)
		require.NoError(t, err)
		require.ErrorIs(t, lock.TryLock(true), errLocked, "held while the writer lives")
		require.NoError(t, lock.TryLock(false), "but shared")
		require.NoError(t, lock.Close())
		w.shutdown()
		holdLock(t, path, true)()
		info, err := os.Stat(path)
		require.NoError(t, err, "never deleted")
		require.Zero(t, info.Size())
	})
}

func TestFIL_43_SecondExporter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		first.enqueue(pass(1, 1))
		time.Sleep(2 * time.Second)
		second := first.next()
		second.enqueue(pass(2, 2))
		time.Sleep(time.Minute)
		require.ErrorIs(t, second.obs.status(), errLocked)
		require.ErrorContains(t, second.obs.status(), second.cfg.Base)
		require.Len(t, second.segments(), 1)
		require.Equal(t, 1, second.logs.FilterMessageSnippet("can't be written").Len())
		require.GreaterOrEqual(t, second.obs.fails(OpLock), 12, "every 5 s at most")
		first.shutdown()
		time.Sleep(5 * time.Second)
		require.NoError(t, second.obs.status())
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{2}, second.counters("4192", 1))
		second.shutdown()
	})
}

// TestFIL_43_TheLockIsRemoved: the first exporter takes it again before it creates a segment, and whoever came first then
// goes on alone.
func TestFIL_43_TheLockIsRemoved(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(w *rig) error{
		"lock":      func(w *rig) error { return os.Remove(baseLockPath(w.cfg.Base)) },
		"directory": func(w *rig) error { return os.RemoveAll(w.dir) },
		"replaced": func(w *rig) error {
			if err := os.Remove(baseLockPath(w.cfg.Base)); err != nil {
				return err
			}
			return os.WriteFile(baseLockPath(w.cfg.Base), nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				first := newRig(t, func(s *setup) { s.cfg.Base = filepath.Join(filepath.Dir(s.cfg.Base), "run", "fpm") })
				first.enqueue(pass(1, 1))
				time.Sleep(2 * time.Second)
				require.NoError(t, remove(first))
				first.enqueue(passOf("other", 2, 2))
				time.Sleep(2 * time.Second)
				require.NoError(t, first.obs.status())
				require.Equal(t, []int64{2}, first.counters("other", 0))

				second := first.next()
				second.enqueue(passOf("third", 3, 3))
				time.Sleep(10 * time.Second)
				require.ErrorIs(t, second.obs.status(), errLocked)
				require.Zero(t, second.obs.written())
				first.shutdown()
				time.Sleep(10 * time.Second)
				require.Equal(t, 1, second.obs.written())
				second.shutdown()
			})
		})
	}
}

// TestFIL_43_TheLockIsLost: with another exporter in its place the first one waits until that ends.
func TestFIL_43_TheLockIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, func(s *setup) { s.cfg.RollBytes = 1 })
		first.enqueue(pass(1, 1))
		time.Sleep(2 * time.Second)
		require.NoError(t, os.Remove(baseLockPath(first.cfg.Base)))
		second := first.next()
		second.enqueue(passOf("second", 2, 2))
		time.Sleep(2 * time.Second)
		first.enqueue(pass(3, 3))
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, first.obs.status(), errLocked)
		require.Equal(t, 1, first.obs.written())
		second.shutdown()
		time.Sleep(5 * time.Second)
		require.NoError(t, first.obs.status())
		require.Equal(t, []int64{3}, first.counters("4192", 1))
		first.shutdown()
	})
}

func TestFIL_60_PlantedLinksAndFIFOs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := newRig(t, func(s *setup) { s.idle = true })
		victim := filepath.Join(idle.dir, "victim")
		writeFile(t, victim, "precious")
		require.NoError(t, os.Symlink(victim, baseLockPath(idle.cfg.Base)))
		idle.shutdown()
		w := idle.next()
		w.enqueue(pass(1, 1), passOf("other", 1, 1))
		time.Sleep(5 * time.Second)
		require.ErrorContains(t, w.obs.status(), baseLockPath(w.cfg.Base))
		require.NoError(t, os.Remove(baseLockPath(w.cfg.Base)))
		require.NoError(t, os.Symlink(victim, dynamoLockPath(w.cfg.Base+".4192")))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"dynamo-fpm.other.000000.jsonl.gz"}, w.segments())
		require.NoError(t, os.Remove(dynamoLockPath(w.cfg.Base+".4192")))
		time.Sleep(time.Minute)
		require.Equal(t, []int64{1}, w.counters("4192", 0))
		require.NoError(t, w.obs.status())
		w.shutdown()
	})
}

func TestFIL_45_Preflight(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	d := newFaultDisk()
	require.NoError(t, preflight(d, dir, "dynamo-fpm"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Equal(t, 1, d.count("sync"))
	require.Len(t, probeText, 22)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o007, "FIL-8")
}

func TestFIL_45_PreflightFails(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"mkdir", "create", "write", "sync", "close", "unlink"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newFaultDisk()
			d.set(func(o, path string) error {
				if o == op {
					return &os.PathError{Op: op, Path: path, Err: errNoSpace}
				}
				return nil
			})
			require.ErrorIs(t, preflight(d, dir, "dynamo-fpm"), errNoSpace)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			if op != "unlink" {
				require.Empty(t, entries, "the probe is removed")
				return
			}
			require.Len(t, entries, 1)
			require.True(t, strings.HasPrefix(entries[0].Name(), ".dynamo-fpm.write-probe-"), entries[0].Name())
			d.set(nil)
			require.NoError(t, preflight(d, dir, "dynamo-fpm"), "an old probe is not in the way")
		})
	}
}

func TestFIL_46_ParentIsAFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), "parent")
		writeFile(t, parent, "")
		w := newRig(t, func(s *setup) { s.cfg.Base = filepath.Join(parent, "fpm") })
		w.enqueue(pass(1, 1))
		time.Sleep(100 * time.Second)
		require.ErrorIs(t, w.obs.status(), syscall.ENOTDIR)
		require.ErrorContains(t, w.obs.status(), parent)
		require.Equal(t, 8, w.obs.fails(OpPreflight), "after 0, 1, 3, 7, 15, 31, 61 and 91 s")
		require.NoError(t, os.Remove(parent))
		time.Sleep(32 * time.Second)
		require.Equal(t, []int64{1}, w.counters("4192", 0))
		require.NoError(t, w.obs.status())
		require.Len(t, w.obs.reported(), 2, "on change only")
		require.Equal(t, 1, w.logs.FilterMessageSnippet("can't be written").Len())
		require.Equal(t, 1, w.logs.FilterMessageSnippet("written again").Len())
		w.shutdown()
	})
}

func TestFIL_46_LastAttemptAtShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		d.set(func(op, path string) error {
			if op == "mkdir" {
				return &os.PathError{Op: op, Path: path, Err: errReadOnly}
			}
			return nil
		})
		w := newRig(t, func(s *setup) { s.disk = d })
		w.enqueue(run(1, 10)...)
		time.Sleep(10 * time.Second)
		d.set(nil)
		w.shutdown()
		require.Equal(t, sequence(1, 10), w.counters("4192", 0))

		d.set(func(string, string) error { return errors.New("gone") })
		w = w.next(func(s *setup) { s.disk = d })
		w.enqueue(run(1, 10)...)
		time.Sleep(10 * time.Second)
		require.ErrorContains(t, w.Shutdown(t.Context()), "10 rows")
		require.Equal(t, 10, w.obs.drops(DropShutdown))
	})
}
