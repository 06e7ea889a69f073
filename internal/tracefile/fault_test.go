// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"io/fs"
	"os"
	"strings"
	"sync"
)

// faultDisk is the real disk, with whatever goes wrong. fault is asked before every operation, and may wait.
type faultDisk struct {
	disk disk

	mu    sync.Mutex
	fault func(op, path string) error
	// takes is how many bytes a write to path puts on the disk before it fails; false: all, without failure.
	takes func(path string, n int) (int, error, bool)
	calls map[string]int
}

func newFaultDisk() *faultDisk {
	return &faultDisk{calls: map[string]int{}}
}

// set makes the disk fail, or heals it with nil.
func (d *faultDisk) set(fault func(op, path string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

func (d *faultDisk) setTakes(takes func(path string, n int) (int, error, bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takes = takes
}

// failing makes the named operations on segments fail.
func failing(err error, ops ...string) func(op, path string) error {
	return func(op, path string) error {
		for _, o := range ops {
			if o == op && strings.HasSuffix(path, segmentSuffix) {
				return &os.PathError{Op: op, Path: path, Err: err}
			}
		}
		return nil
	}
}

func (d *faultDisk) count(op string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

func (d *faultDisk) before(op, path string) error {
	d.mu.Lock()
	d.calls[op]++
	fault := d.fault
	d.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(op, path)
}

func (d *faultDisk) MkdirAll(dir string) error {
	if err := d.before("mkdir", dir); err != nil {
		return err
	}
	return d.disk.MkdirAll(dir)
}

func (d *faultDisk) Create(path string) (file, error) {
	return d.wrap("create", path, d.disk.Create)
}

func (d *faultDisk) Reopen(path string) (file, error) {
	return d.wrap("reopen", path, d.disk.Reopen)
}

func (d *faultDisk) wrap(op, path string, open func(string) (file, error)) (file, error) {
	if err := d.before(op, path); err != nil {
		return nil, err
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return &faultFile{file: f, disk: d, path: path}, nil
}

func (d *faultDisk) OpenLock(path string, kind lockKind) (lockFile, error) {
	if err := d.before("openlock", path); err != nil {
		return nil, err
	}
	l, err := d.disk.OpenLock(path, kind)
	if err != nil {
		return nil, err
	}
	return &faultLock{lockFile: l, disk: d, path: path}, nil
}

func (d *faultDisk) Lstat(path string) (fs.FileInfo, error) {
	if err := d.before("lstat", path); err != nil {
		return nil, err
	}
	return d.disk.Lstat(path)
}

func (d *faultDisk) Unlink(path string) error {
	if err := d.before("unlink", path); err != nil {
		return err
	}
	return d.disk.Unlink(path)
}

func (d *faultDisk) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := d.before("readdir", dir); err != nil {
		return nil, err
	}
	return d.disk.ReadDir(dir)
}

func (d *faultDisk) SyncDir(dir string) error {
	if err := d.before("syncdir", dir); err != nil {
		return err
	}
	return d.disk.SyncDir(dir)
}

type faultFile struct {
	file
	disk *faultDisk
	path string
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.disk.before("write", f.path); err != nil {
		return 0, err
	}
	f.disk.mu.Lock()
	takes := f.disk.takes
	f.disk.mu.Unlock()
	if takes != nil {
		if n, err, limited := takes(f.path, len(p)); limited {
			n, _ = f.file.Write(p[:n])
			return n, &os.PathError{Op: "write", Path: f.path, Err: err}
		}
	}
	return f.file.Write(p)
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.disk.before("truncate", f.path); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultFile) Sync() error {
	if err := f.disk.before("sync", f.path); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *faultFile) Close() error {
	if err := f.disk.before("close", f.path); err != nil {
		_ = f.file.Close()
		return err
	}
	return f.file.Close()
}

type faultLock struct {
	lockFile
	disk *faultDisk
	path string
}

func (l *faultLock) TryLock(exclusive bool) error {
	if err := l.disk.before("flock", l.path); err != nil {
		return err
	}
	return l.lockFile.TryLock(exclusive)
}
