// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"go.uber.org/zap"
)

// retention keeps the newest segments of one producer (FIL-30 to FIL-34).
type retention struct {
	disk   fileSystem
	lister func() ([]foundSegment, error) // of this producer, whoever wrote them
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

func (r *retention) list(active uint64) {
	found, err := r.lister()
	if err != nil {
		r.failed(OpList, err)
		return
	}
	r.due = false
	var indexes []uint64
	for _, segment := range found {
		if segment.regular {
			indexes = append(indexes, segment.index)
		}
	}
	slices.Sort(indexes)
	r.overdue = r.overdue[:0]
	for _, index := range indexes[:max(0, len(indexes)-r.keep)] {
		if index != active {
			r.overdue = append(r.overdue, filepath.Join(r.dir, segmentName(r.prefix, index)))
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
