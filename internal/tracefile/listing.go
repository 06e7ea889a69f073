// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"time"
)

// After a listing the next one waits listingRest times as long as it took, so that many new producers can't keep a core
// busy, but no longer than maxListingRest, since a row may wait for it.
const (
	listingRest    = 4
	maxListingRest = 100 * time.Millisecond
)

// foundSegment is whatever has the name of a segment (FIL-35).
type foundSegment struct {
	index   uint64
	regular bool // else a directory, a link or the like (FIL-33)
}

// listings shares listings of the directory between producers: a thousand of them that begin at the same time need not
// read the names of each other a million times. Everybody gets a listing that began after it was asked for, so nobody
// sees less than by a listing of its own.
type listings struct {
	disk      fileSystem
	dir, name string // of the base

	asked chan *listing // holds the one that nobody has begun yet, nil if there is none
	turn  chan struct{} // held while one is read
	next  time.Time     // no earlier begin; guarded by turn
}

type listing struct {
	done     chan struct{}             // closed when the rest is set
	segments map[string][]foundSegment // by producer, as it stands in file names
	err      error
}

func newListings(disk fileSystem, dir, name string) *listings {
	l := &listings{disk: disk, dir: dir, name: name, asked: make(chan *listing, 1), turn: make(chan struct{}, 1)}
	l.asked <- nil
	l.turn <- struct{}{}
	return l
}

// of gives the segments of one producer. The caller must not change them.
func (l *listings) of(producer string) ([]foundSegment, error) {
	shared := <-l.asked
	isFirst := shared == nil
	if isFirst {
		shared = &listing{done: make(chan struct{})}
	}
	l.asked <- shared
	if isFirst {
		l.run(shared)
	}
	<-shared.done
	return shared.segments[producer], shared.err
}

// run reads for all who asked until it begins.
func (l *listings) run(shared *listing) {
	<-l.turn
	time.Sleep(time.Until(l.next))
	<-l.asked
	l.asked <- nil
	began := time.Now()
	shared.segments, shared.err = l.read()
	ended := time.Now()
	l.next = ended.Add(min(listingRest*ended.Sub(began), maxListingRest))
	close(shared.done)
	l.turn <- struct{}{}
}

func (l *listings) read() (map[string][]foundSegment, error) {
	entries, err := l.disk.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	segments := make(map[string][]foundSegment)
	for _, entry := range entries {
		if producer, index, ok := parseFamilyName(l.name, entry.Name()); ok {
			segments[producer] = append(segments[producer], foundSegment{index, entry.Type().IsRegular()})
		}
	}
	return segments, nil
}
