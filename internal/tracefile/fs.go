// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"io/fs"
	"os"
)

// Modes of what the writer creates, narrowed by the umask (FIL-8). The lock that is shared with Dynamo has to be readable
// by a Dynamo process of another user.
const (
	segmentMode    = 0o640
	directoryMode  = 0o750
	baseLockMode   = 0o640
	dynamoLockMode = 0o644
)

var (
	errLocked          = errors.New("held by another process")
	errLockUnsupported = errors.New("the file system does not support locks")
)

// fileSystem is all that the writer asks of the disk. It is the seam at which tests make the disk fail.
type fileSystem interface {
	MkdirAll(dir string) error
	// Create makes a new file for appending. Whatever is there already is an error (FIL-7).
	Create(path string) (file, error)
	// Reopen opens a file for appending, neither creating one nor following a symbolic link (FIL-41).
	Reopen(path string) (file, error)
	// OpenLock opens a lock file, created if absent, following no symbolic link.
	OpenLock(path string, kind lockKind) (lockFile, error)
	Lstat(path string) (fs.FileInfo, error)
	// Unlink removes a name that is not a directory.
	Unlink(path string) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	SyncDir(dir string) error
}

// file is a segment, or the probe of the preflight.
type file interface {
	Write(p []byte) (int, error)
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	Sync() error // the data, and of the metadata what is needed to read them back
	Close() error
}

// lockFile is an advisory lock, given back by Close.
type lockFile interface {
	// TryLock fails with errLocked or errLockUnsupported, or with what the system says. It never waits.
	TryLock(exclusive bool) error
	Stat() (fs.FileInfo, error)
	Close() error
}

// lockKind tells the two locks apart: they differ in mode, and in how they have to be opened.
type lockKind uint8

const (
	baseLock   lockKind = iota // FIL-43, taken exclusively
	dynamoLock                 // FIL-42, shared, or taken exclusively only to delete (FIL-39)
)

// disk is the real file system.
type disk struct{}

func (disk) MkdirAll(dir string) error {
	return os.MkdirAll(dir, directoryMode)
}

func (disk) Create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, segmentMode) //nolint:gosec // configured
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (disk) Reopen(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|openNoFollow, 0) //nolint:gosec // made from the configured path
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (disk) Lstat(path string) (fs.FileInfo, error) {
	return os.Lstat(path)
}

func (disk) ReadDir(dir string) ([]fs.DirEntry, error) {
	return os.ReadDir(dir)
}

type diskFile struct {
	*os.File
}

func (f diskFile) Sync() error {
	return syncData(f.File)
}
