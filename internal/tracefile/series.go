// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"sync/atomic"
)

// errExhausted: the segment with the highest possible index is in use or taken (FIL-10).
var errExhausted = errors.New("no segment index is left")

// opError says which operation failed. What it wraps names the path.
type opError struct {
	op  Op
	err error
}

func (e *opError) Error() string { return e.op.String() + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// series is the segments of one producer: which one is active, and how whole members get into it. It belongs to the
// goroutine of its producer. After an append that failed, the active segment ends with the last complete member, or
// another index is next.
type series struct {
	disk    fileSystem
	list    func() ([]foundSegment, error) // of this producer, whoever wrote them
	handles *handles
	obs     Observer
	dir     string
	prefix  string // of the file names
	synced  bool
	// replaced is told when the active segment changed from outside, which is no failure.
	replaced func(error)
	// confirm is asked before a segment is created whether this process still may.
	confirm func() error
	// left is told when the active segment is given up: what comes next goes to another one.
	left func()

	index     uint64 // of the active segment, or of the next one to be created
	exhausted bool
	active    *segment // nil: not created yet
	rows      int      // written to the active segment
	raw       int64    // uncompressed bytes written to the active segment

	found int // regular segments that locate met

	// kept is index, for whoever deletes closed segments of the family: the active one and later ones are not for them
	// (FIL-39). Before locate that is all.
	kept atomic.Uint64
}

// locate finds the first index: one above the highest that is occupied by whatever (FIL-9).
func (s *series) locate() error {
	segments, err := s.list()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &opError{OpList, err}
	}
	s.index, s.found = 0, 0
	for _, segment := range segments {
		if segment.regular {
			s.found++
		}
		switch {
		case segment.index < s.index:
		case segment.index == math.MaxUint64:
			s.exhausted = true
			return errExhausted
		default:
			s.index = segment.index + 1
		}
	}
	s.kept.Store(s.index)
	return nil
}

// append adds one member to the active segment and makes it durable if it has to be. The caller accounts for it by
// wrote, or takes it back by undo.
func (s *series) append(member []byte) error {
	if err := s.attach(); err != nil {
		return err
	}
	isNew := s.active.size == 0
	if _, err := s.active.file.Write(member); err != nil {
		s.repair()
		return &opError{OpWrite, err}
	}
	if err := s.sync(isNew); err != nil {
		if s.cutBack() {
			s.removeEmpty()
		}
		s.abandon() // nothing is known about what the disk holds (FIL-59)
		return &opError{OpSync, err}
	}
	s.active.size += int64(len(member))
	s.handles.release(s.active)
	return nil
}

func (s *series) sync(isNew bool) error {
	if !s.synced {
		return nil
	}
	err := s.active.file.Sync()
	if err == nil && isNew {
		err = s.disk.SyncDir(s.dir)
	}
	return err
}

// wrote accounts for a member that append wrote; first says that it is the first one of its segment.
func (s *series) wrote(rows int, raw int64) (first bool) {
	first = s.rows == 0
	s.rows += rows
	s.raw += raw
	return first
}

// undo takes back the member of the given length that append just wrote.
func (s *series) undo(length int) {
	s.handles.acquire(s.active)
	if s.active.file == nil {
		if err := s.active.reopen(s.disk); err != nil {
			s.obs.Failed(OpTruncate)
			s.abandon()
			return
		}
	}
	s.active.size -= int64(length)
	s.repair()
}

// attach makes the active segment ready to be appended to. On success it is acquired, on failure it is not.
func (s *series) attach() error {
	for {
		if s.exhausted {
			return errExhausted
		}
		if s.active == nil {
			s.active = &segment{path: s.path()}
		}
		s.handles.acquire(s.active)
		op, err := s.open()
		if err == nil {
			return nil
		}
		if isReplaced(err) {
			s.abandonReplaced(err)
			continue
		}
		s.handles.discard(s.active)
		if s.active.info == nil {
			s.leave()
		}
		if errors.Is(err, errExhausted) {
			return err
		}
		return &opError{op, err}
	}
}

func (s *series) open() (Op, error) {
	switch {
	case s.active.info == nil:
		if err := s.confirm(); err != nil {
			return OpLock, err
		}
		return OpCreate, s.create()
	case s.active.file == nil:
		return OpReopen, s.active.reopen(s.disk)
	default:
		return OpReopen, s.active.verify(s.disk)
	}
}

// create creates the active segment under the first free index (FIL-7).
func (s *series) create() error {
	for {
		err := s.active.create(s.disk)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if !s.advance() {
			return errExhausted
		}
		s.active.path = s.path()
	}
}

// repair makes the active segment, which is acquired, end with its last complete member (FIL-52, FIL-53) and gives up its
// use.
func (s *series) repair() {
	switch {
	case !s.cutBack():
		s.abandon()
	case s.removeEmpty():
		s.handles.discard(s.active)
		s.leave()
	default:
		s.handles.release(s.active)
	}
}

func (s *series) cutBack() bool {
	err := s.active.file.Truncate(s.active.size)
	if err != nil {
		s.obs.Failed(OpTruncate)
	}
	return err == nil
}

// removeEmpty removes the file of a segment that holds no member, because it would stop some readers (FIL-6).
func (s *series) removeEmpty() bool {
	return s.active.size == 0 && s.active.verify(s.disk) == nil && s.disk.Unlink(s.active.path) == nil
}

// roll ends the active segment; the next one is created by the next append (FIL-25).
func (s *series) roll() {
	if s.active != nil {
		s.handles.acquire(s.active)
		s.abandon()
	}
}

// abandon closes the active segment, which is acquired, for good and goes on to the next index.
func (s *series) abandon() {
	s.handles.discard(s.active)
	s.leave()
	s.advance()
	s.left()
}

// abandonReplaced abandons the active segment, which is acquired, because it changed from outside (FIL-56).
func (s *series) abandonReplaced(err error) {
	s.obs.Failed(OpReplaced)
	s.replaced(err)
	s.abandon()
}

// holds says whether the active segment still is what was written to it. If it isn't, it is abandoned.
func (s *series) holds() bool {
	if s.active == nil || s.active.info == nil {
		return true
	}
	err := s.active.verify(s.disk)
	if !isReplaced(err) {
		return true // or not known to be changed
	}
	s.handles.acquire(s.active)
	s.abandonReplaced(err)
	return false
}

// close ends the series. A later one begins at another index.
func (s *series) close() {
	if s.active != nil {
		s.handles.acquire(s.active)
		s.handles.discard(s.active)
		s.leave()
	}
}

func (s *series) leave() {
	s.active = nil
	s.rows, s.raw = 0, 0
}

func (s *series) advance() bool {
	if s.index == math.MaxUint64 {
		s.exhausted = true
		return false
	}
	s.index++
	s.kept.Store(s.index)
	return true
}

func (s *series) path() string {
	return filepath.Join(s.dir, segmentName(s.prefix, s.index))
}

// mayDelete says whether the segment of that index is closed for good. It is safe for concurrent use.
func (s *series) mayDelete(index uint64) bool {
	return index < s.kept.Load()
}
