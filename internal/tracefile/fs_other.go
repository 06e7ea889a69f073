// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package tracefile

import (
	"fmt"
	"io/fs"
	"os"
)

const openNoFollow = 0

func isNotAFile(error) bool {
	return false
}

func (disk) Unlink(path string) error {
	return os.Remove(path)
}

// SyncDir has no meaning here: a directory can't be synced by itself.
func (disk) SyncDir(string) error {
	return nil
}

// OpenLock opens nothing: these systems have no flock, so the writer goes without locks (FIL-44).
func (disk) OpenLock(path string, _ lockKind) (lockFile, error) {
	return noLock(path), nil
}

type noLock string

func (l noLock) TryLock(bool) error {
	return fmt.Errorf("%w: %s", errLockUnsupported, string(l))
}

func (noLock) Stat() (fs.FileInfo, error) {
	return nil, errLockUnsupported
}

func (noLock) Close() error {
	return nil
}
