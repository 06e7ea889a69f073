// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"go.uber.org/zap"
)

// retention keeps the newest segments of one producer (FIL-30 to FIL-34).
type retention struct {
	disk   fileSystem
	obs    Observer
	logger *zap.Logger
	dir    string
	prefix string
	keep   int

	due     bool     // the directory has to be listed
	overdue []string // paths to delete
	failing bool     // and logged
}

// run deletes what is too much. It costs nothing unless a segment is new or something could not be deleted before.
func (r *retention) run(active uint64) {
	if r.due {
		r.list(active)
	}
	if len(r.overdue) > 0 {
		r.prune()
	}
	if !r.due && len(r.overdue) == 0 {
		r.failing = false
	}
}

type indexedPath struct {
	index uint64
	path  string
}

func (r *retention) list(active uint64) {
	entries, err := r.disk.ReadDir(r.dir)
	if err != nil {
		r.failed(OpList, err)
		return
	}
	r.due = false
	var segments []indexedPath
	for _, entry := range entries {
		if index, ok := parseSegmentName(r.prefix, entry.Name()); ok && entry.Type().IsRegular() {
			segments = append(segments, indexedPath{index, filepath.Join(r.dir, entry.Name())})
		}
	}
	slices.SortFunc(segments, func(a, b indexedPath) int { return cmp.Compare(a.index, b.index) })
	r.overdue = r.overdue[:0]
	for _, s := range segments[:max(0, len(segments)-r.keep)] {
		if s.index != active {
			r.overdue = append(r.overdue, s.path)
		}
	}
}

func (r *retention) prune() {
	pruned := 0
	var failed []string
	for _, path := range r.overdue {
		switch err := r.disk.Unlink(path); {
		case err == nil:
			pruned++
		case !errors.Is(err, fs.ErrNotExist):
			failed = append(failed, path)
			r.failed(OpPrune, err)
		}
	}
	r.overdue = failed
	if pruned > 0 {
		r.obs.SegmentsPruned(PruneMaxSegments, pruned)
	}
}

func (r *retention) failed(op Op, err error) {
	r.obs.Failed(op)
	if !r.failing {
		r.failing = true
		r.logger.Warn("Old trace files could not be deleted; it is tried again at every flush", zap.Error(err))
	}
}
