// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tracefile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openNoFollow refuses symbolic links, and does not wait for a reader where somebody planted a FIFO.
const openNoFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// isNotAFile recognizes what Reopen says of a symbolic link, a directory and a FIFO.
func isNotAFile(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EISDIR) ||
		errors.Is(err, unix.ENXIO)
}

// Unlink leaves directories alone, where os.Remove would take an empty one.
func (disk) Unlink(path string) error {
	if err := unix.Unlink(path); err != nil {
		return &os.PathError{Op: "unlink", Path: path, Err: err}
	}
	return nil
}

func (disk) SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // made from the configured path
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenLock opens the base lock for writing, because network file systems grant exclusive locks only then, and Dynamo's lock
// read-only, as Dynamo does (FIL-42).
func (disk) OpenLock(path string, kind lockKind) (lockFile, error) {
	flag, mode := os.O_RDWR, os.FileMode(baseLockMode)
	if kind == dynamoLock {
		flag, mode = os.O_RDONLY, dynamoLockMode
	}
	f, err := os.OpenFile(path, flag|os.O_CREATE|openNoFollow, mode) //nolint:gosec // made from the configured path
	if err != nil {
		return nil, err
	}
	return diskLock{f}, nil
}

type diskLock struct {
	*os.File
}

func (l diskLock) TryLock(exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(l.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return lockError(l.Name(), err)
		}
	}
}

func lockError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s is %w", path, errLocked)
	case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: flock %s: %w", errLockUnsupported, path, err)
	default:
		return &os.PathError{Op: "flock", Path: path, Err: err}
	}
}
