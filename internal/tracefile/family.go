// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// familyRest is how many times as long as a check the next one waits at least, when producers open segments all the time.
const familyRest = 10

// family applies the limits that hold for all segments below one base, those of dead producers too (FIL-37 to FIL-39).
type family struct {
	w     *Writer
	rolls chan struct{}
	done  chan struct{}

	deleting atomic.Pointer[string] // producer whose Dynamo lock is held for a deletion

	over    bool // the size limit can't be met, and that is logged
	failing bool // a deletion failed, and that is logged
}

func newFamily(w *Writer) *family {
	return &family{w: w, rolls: make(chan struct{}, 1), done: make(chan struct{})}
}

func (f *family) enabled() bool {
	return f.w.cfg.MaxTotalBytes > 0 || f.w.cfg.MaxAge > 0
}

// poke says that a producer has rolled.
func (f *family) poke() {
	select {
	case f.rolls <- struct{}{}:
	default:
	}
}

func (f *family) isDeleting(part string) bool {
	current := f.deleting.Load()
	return current != nil && *current == part
}

// run checks after each roll and every minute, once it is sure that no other exporter does the same.
func (f *family) run() {
	defer close(f.done)
	if !f.enabled() || !f.w.gate.wait() {
		return
	}
	ticker := time.NewTicker(f.w.limits.familyCheck)
	defer ticker.Stop()
	for {
		select {
		case <-f.w.stop:
			return
		case <-f.rolls:
		case <-ticker.C:
		}
		began := time.Now()
		f.check(began)
		f.w.pause(min(familyRest*time.Since(began), f.w.limits.familyCheck))
	}
}

// familySegment is a regular file with the name of a segment; whether it is closed has yet to be found out.
type familySegment struct {
	producer string
	index    uint64
	path     string
	size     int64
	changed  time.Time
}

// sweep is one look at the whole family.
type sweep struct {
	*family
	segments []familySegment // oldest first
	newest   map[string]time.Time
	now      time.Time
	total    int64
	failed   bool
}

func (f *family) check(now time.Time) {
	segments, err := f.list()
	if err != nil {
		f.w.obs.Failed(OpList)
		f.logFailure(err)
		return
	}
	s := &sweep{family: f, segments: segments, newest: make(map[string]time.Time), now: now}
	for _, segment := range segments {
		s.newest[segment.producer] = segment.changed // sorted by time
		s.total += segment.size
	}
	s.byAge()
	s.bySize()
	f.failing = s.failed
}

func (f *family) list() ([]familySegment, error) {
	entries, err := f.w.disk.ReadDir(f.w.dir)
	if err != nil {
		return nil, err
	}
	var segments []familySegment
	for _, entry := range entries {
		producer, index, ok := parseFamilyName(f.w.name, entry.Name())
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue // gone meanwhile
		}
		path := filepath.Join(f.w.dir, entry.Name())
		segments = append(segments, familySegment{producer, index, path, info.Size(), info.ModTime()})
	}
	slices.SortFunc(segments, func(a, b familySegment) int {
		return cmp.Or(a.changed.Compare(b.changed), cmp.Compare(a.path, b.path))
	})
	return segments, nil
}

func (s *sweep) byAge() {
	if s.w.cfg.MaxAge <= 0 {
		return
	}
	kept := s.segments[:0]
	count := 0
	for _, segment := range s.segments {
		if s.now.Sub(segment.changed) <= s.w.cfg.MaxAge {
			kept = append(kept, segment)
			continue
		}
		switch s.delete(segment) {
		case stays:
			kept = append(kept, segment)
		case pruned:
			count++
		case gone:
		}
	}
	s.segments = kept
	s.count(PruneMaxAge, count)
}

func (s *sweep) bySize() {
	limit := s.w.cfg.MaxTotalBytes
	if limit <= 0 {
		return
	}
	count := 0
	for _, segment := range s.segments {
		if s.total <= limit {
			break
		}
		if s.delete(segment) == pruned {
			count++
		}
	}
	s.count(PruneMaxTotalBytes, count)
	s.logOver(s.total > limit)
}

func (s *sweep) count(cause PruneCause, n int) {
	if n > 0 {
		s.w.obs.SegmentsPruned(cause, n)
	}
}

// fate is what became of a segment that had to go.
type fate uint8

const (
	stays  fate = iota
	pruned      // by this sweep
	gone        // somebody else was faster
)

// delete removes a segment that nobody is using.
func (s *sweep) delete(segment familySegment) fate {
	if s.w.stopped() {
		return stays
	}
	if own := s.w.find(segment.producer); own != nil {
		if !own.series.mayDelete(segment.index) {
			return stays
		}
		return s.unlink(segment)
	}
	if s.now.Sub(s.newest[segment.producer]) <= s.w.limits.foreignLive {
		return stays
	}
	return s.deleteForeign(segment)
}

// deleteForeign removes a segment of a producer of another process, unless its lock shows that it lives (FIL-39). The lock
// is held for the deletion alone, because a Dynamo writer that meets it at its start switches its tracing off.
func (s *sweep) deleteForeign(segment familySegment) fate {
	path := dynamoLockPath(filepath.Join(s.w.dir, s.w.name+"."+segment.producer))
	if _, err := s.w.disk.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return s.unlink(segment) // never had a writer that locks
	}
	s.deleting.Store(&segment.producer)
	defer s.deleting.Store(nil)
	lock, err := s.w.locks.take(path, dynamoLock, true)
	if err != nil {
		if !errors.Is(err, errLocked) {
			s.fail(OpLock, err)
		}
		return stays
	}
	became := s.unlink(segment)
	if lock != nil {
		if err := lock.Close(); err != nil {
			s.w.obs.Failed(OpClose)
		}
	}
	return became
}

func (s *sweep) unlink(segment familySegment) fate {
	err := s.w.disk.Unlink(segment.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.fail(OpPrune, err)
		return stays
	}
	s.total -= segment.size
	if err != nil {
		return gone
	}
	return pruned
}

func (s *sweep) fail(op Op, err error) {
	s.failed = true
	s.w.obs.Failed(op)
	s.logFailure(err)
}

func (f *family) logFailure(err error) {
	if !f.failing {
		f.failing = true
		f.w.logger.Warn("Old trace files could not be deleted; it is tried again every minute", zap.Error(err))
	}
}

func (f *family) logOver(over bool) {
	if over && !f.over {
		f.w.logger.Warn("The trace files exceed retention::max_total_bytes, but all that are left belong to live producers",
			zap.String("path", f.w.cfg.Base), zap.Int64("max_total_bytes", f.w.cfg.MaxTotalBytes))
	}
	f.over = over
}
