// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// segment is the active file of a series. Only its series touches it, except for file and idle, which belong to handles
// while the segment isn't acquired.
type segment struct {
	path string
	file file          // nil: not created yet, or closed to save an open file
	idle *list.Element // in handles
	info fs.FileInfo   // identity on disk, nil: not created yet
	size int64         // end of the last complete member
}

// replacedError says that the active segment isn't what this process wrote any more (FIL-56).
type replacedError struct {
	path, how string
}

func (e *replacedError) Error() string {
	return fmt.Sprintf("trace file %s %s from outside", e.path, e.how)
}

func isReplaced(err error) bool {
	changed := (*replacedError)(nil)
	return errors.As(err, &changed)
}

// create makes the file. fs.ErrExist says that the name is taken.
func (s *segment) create(disk fileSystem) error {
	f, err := disk.Create(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody removed the directory since the start.
		if err = disk.MkdirAll(filepath.Dir(s.path)); err == nil {
			f, err = disk.Create(s.path)
		}
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close(), disk.Unlink(s.path))
	}
	s.file, s.info, s.size = f, info, 0
	return nil
}

// reopen opens the file again after handles closed it (FIL-41).
func (s *segment) reopen(disk fileSystem) error {
	f, err := disk.Reopen(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &replacedError{s.path, "was deleted"}
	case isNotAFile(err):
		return &replacedError{s.path, "was replaced"}
	case err != nil:
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = s.compare(info)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file = f
	return nil
}

// verify checks before an append that the open file is the one that the path leads to, with no byte more or less than
// this process wrote (FIL-56).
func (s *segment) verify(disk fileSystem) error {
	onPath, err := disk.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &replacedError{s.path, "was deleted"}
	case err != nil:
		return err
	}
	return s.compare(onPath)
}

func (s *segment) compare(info fs.FileInfo) error {
	switch {
	case !os.SameFile(s.info, info):
		return &replacedError{s.path, "was replaced"}
	case info.Size() != s.size:
		return &replacedError{s.path, fmt.Sprintf("was changed to %d bytes instead of %d", info.Size(), s.size)}
	default:
		return nil
	}
}
