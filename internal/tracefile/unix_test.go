// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tracefile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFIL_60_FIFO: one that was planted in place of the active segment keeps nobody waiting (FIL-56).
func TestFIL_60_FIFO(t *testing.T) {
	t.Parallel()
	requireNextIndex(t, func(t *testing.T, path string) {
		t.Helper()
		require.NoError(t, os.Remove(path))
		require.NoError(t, syscall.Mkfifo(path, 0o600))
	})
}

func TestFIL_8_Modes(t *testing.T) {
	// The umask belongs to the process, so no other test may run.
	for _, umask := range []int{0o022, 0o077, 0} {
		old := syscall.Umask(umask)
		t.Cleanup(func() { syscall.Umask(old) })
		w := newRig(t, func(s *setup) { s.cfg.Base = filepath.Join(filepath.Dir(s.cfg.Base), "new", "fpm") })
		w.enqueue(pass(1, 1))
		w.shutdown()
		syscall.Umask(old)
		segment, err := os.Stat(w.path("4192", 0))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640&^umask), segment.Mode().Perm())
		dir, err := os.Stat(w.dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o750&^umask), dir.Mode().Perm())
	}
}

func TestFIL_44_NoLocks(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL} {
		d := newFaultDisk()
		d.set(func(op, path string) error {
			if op == "flock" {
				return lockError(path, errno)
			}
			return nil
		})
		w := newRig(t, func(s *setup) { s.disk = d })
		w.enqueue(pass(1, 1), passOf("other", 1, 1))
		w.shutdown()
		require.Equal(t, 2, w.obs.written())
		require.Equal(t, 1, w.logs.FilterMessageSnippet("has no locks").Len(), "one warning")
		require.Empty(t, w.obs.reported())
	}
}
