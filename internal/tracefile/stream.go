// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"container/list"
	"crypto/sha256"
	"slices"
)

// maxStreamText bounds what one stream costs in memory; a longer worker name, which no engine has, stands as its digest.
const maxStreamText = 128

// streamKey identifies a stream within one producer.
type streamKey struct {
	worker string
	rank   int64
}

func newStreamKey(worker string, rank int64) streamKey {
	if len(worker) > maxStreamText {
		digest := sha256.Sum256([]byte(worker))
		worker = string(digest[:])
	}
	return streamKey{worker: worker, rank: rank}
}

// sighting is the row of a stream that was observed latest in the active segment.
type sighting struct {
	key      streamKey
	counter  int64
	observed uint64
	payload  uint64 // hash, as in row
	batch    uint64 // that the row came in with
}

type judgment uint8

const (
	rowNew       judgment = iota
	rowLate               // an older row, from a retry or a redelivery
	rowDuplicate          // FIL-29: the remembered row once more
	rowRestart            // first row of another incarnation of the engine (FIL-28)
)

// streams remembers the latest row of each stream in the active segment (FIL-28, FIL-29). Changes since the last commit
// can be taken back, so that rows whose write failed are no duplicates when they come again.
type streams struct {
	limit     int
	seen      map[streamKey]*list.Element // of *sighting
	order     list.List                   // longest idle first
	journal   []change
	journaled bool
	batch     uint64 // number of the batch under way
}

type change struct {
	before sighting
	isNew  bool
}

// judge refines FIL-29: an equal counter alone makes no duplicate. The first row of a restarted engine may have the counter
// of the last one before, but another payload. Such a row is treated as if its counter were lower: observed later it is a
// restart (FIL-28), else a late row.
func (s *streams) judge(r *row) judgment {
	element, known := s.seen[r.stream]
	if !known {
		return rowNew
	}
	last := element.Value.(*sighting) //nolint:forcetypeassert // the list holds nothing else
	switch {
	case r.counter == last.counter && r.payload == last.payload:
		return rowDuplicate
	case r.counter <= last.counter && r.observed > last.observed:
		return rowRestart
	case r.counter <= last.counter || r.observed < last.observed:
		return rowLate
	default:
		return rowNew
	}
}

func (s *streams) remember(r *row) {
	if element, known := s.seen[r.stream]; known {
		last := element.Value.(*sighting) //nolint:forcetypeassert // the list holds nothing else
		s.note(change{before: *last})
		last.counter, last.observed, last.payload, last.batch = r.counter, r.observed, r.payload, s.batch
		s.order.MoveToBack(element)
		return
	}
	if len(s.seen) >= s.limit {
		s.forget(s.order.Front())
	}
	if s.seen == nil {
		s.seen = make(map[streamKey]*list.Element)
	}
	s.seen[r.stream] = s.order.PushBack(&sighting{
		key: r.stream, counter: r.counter, observed: r.observed, payload: r.payload, batch: s.batch,
	})
	s.note(change{before: sighting{key: r.stream}, isNew: true})
}

func (s *streams) forget(element *list.Element) {
	delete(s.seen, element.Value.(*sighting).key) //nolint:forcetypeassert // the list holds nothing else
	s.order.Remove(element)
}

func (s *streams) note(c change) {
	if s.journaled {
		s.journal = append(s.journal, c)
	}
}

// commit says that the batch under way is written or given up, and that the next one begins.
func (s *streams) commit() {
	s.journal = s.journal[:0]
	s.batch++
}

// rollback returns to the last commit. Streams that were pushed out since then stay forgotten.
func (s *streams) rollback() {
	for _, c := range slices.Backward(s.journal) {
		element, known := s.seen[c.before.key]
		switch {
		case !known:
		case c.isNew:
			s.forget(element)
		default:
			*element.Value.(*sighting) = c.before //nolint:forcetypeassert // the list holds nothing else
		}
	}
	s.commit()
}

// forgetWritten forgets all but the rows of the batch under way, which go to another segment than those before them.
func (s *streams) forgetWritten() {
	for element := s.order.Front(); element != nil; {
		next := element.Next()
		if element.Value.(*sighting).batch != s.batch { //nolint:forcetypeassert // the list holds nothing else
			s.forget(element)
		}
		element = next
	}
	for i := range s.journal {
		if before := &s.journal[i].before; before.batch != s.batch {
			s.journal[i].isNew = true
		}
	}
}

// clear forgets everything: a new segment begins.
func (s *streams) clear() {
	clear(s.seen)
	s.order.Init()
	s.commit()
}
