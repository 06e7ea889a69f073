// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// intake takes in one arriving batch under the lock of its state. Until end it
// holds views of the batch, after it none.
type intake[T item[T]] struct {
	state      *state[T]
	now        time.Time
	resource   key // of the resource under way
	origins    []sharedOrigin
	candidates []candidate[T]
	tally      tally
}

// candidate is the newest item of a key so far, not copied yet.
type candidate[T item[T]] struct {
	entry   *entry[T]
	item    T
	origin  int // index in intake.origins
	counter counter
}

func (in *intake[T]) begin(s *state[T], now time.Time) {
	in.state, in.now, in.tally = s, now, tally{}
}

// end lets go of the batch and keeps the scratch memory.
func (in *intake[T]) end() {
	for i := range in.candidates {
		in.candidates[i].entry.candidate = 0
	}
	in.origins = emptied(in.origins)
	in.candidates = emptied(in.candidates)
	in.resource = key{}
}

// maxScratch is how many elements of scratch one huge batch may leave behind.
const maxScratch = 4096

// emptied drops the elements, with all that they refer to, but not the memory.
func emptied[E any](scratch []E) []E {
	if cap(scratch) > maxScratch {
		return nil
	}
	clear(scratch)
	return scratch[:0]
}

// enterResource says which resource the next scopes belong to.
func (in *intake[T]) enterResource(attributes pcommon.Map) {
	in.resource = resourceKey(attributes)
}

// enterScope says which resource and scope the next items belong to; view is
// not kept.
func (in *intake[T]) enterScope(view origin) {
	in.origins = append(in.origins, sharedOrigin{view: view})
}

// arrive takes in one forward pass.
func (in *intake[T]) arrive(it T) {
	in.tally.in++
	if in.state.closed {
		in.tally.droppedShutdown++
		return
	}
	k, count := itemKey(in.resource, it.Attributes())
	e := in.entry(k)
	if e == nil {
		in.tally.droppedMaxKeys++
		return
	}
	in.see(e)
	switch {
	case count.equals(e.emitted):
		in.tally.suppressed++
	case count.equals(e.onWay):
		in.repeat(e, it, count)
	default:
		in.await(e)
		in.propose(e, it, count)
	}
}

// entry finds the entry of a key or makes one, for which a key that has been
// idle may have to go (SMP-21). It is nil when every key is in use.
func (in *intake[T]) entry(k key) *entry[T] {
	s := in.state
	if e, ok := s.entries[k]; ok {
		return e
	}
	if len(s.entries) >= s.limit && !in.makeRoom() {
		return nil
	}
	e := &entry[T]{key: k.clone()}
	s.entries[e.key] = e
	in.tally.keys++
	return e
}

func (in *intake[T]) makeRoom() bool {
	e := in.state.idle.longest()
	if e == nil {
		return false
	}
	in.state.forget(e)
	in.tally.evict(1)
	return true
}

// see notes an arrival, be it suppressed or not.
func (in *intake[T]) see(e *entry[T]) {
	in.state.arrivals++
	e.arrival, e.lastSeen = in.state.arrivals, in.now
	in.state.idle.refresh(e)
}

// await makes the entry wait for the next tick. A sample that waits already is
// replaced, whatever its counter (SMP-5).
func (in *intake[T]) await(e *entry[T]) {
	if e.repeated != nil {
		e.repeated.newest = false
	}
	if e.waiting {
		in.tally.replaced++
		return
	}
	e.waiting = true
	in.state.idle.remove(e)
	in.state.waiting = append(in.state.waiting, e)
}

// propose makes an item the newest of its key.
func (in *intake[T]) propose(e *entry[T], it T, count counter) {
	c := candidate[T]{entry: e, item: it, origin: len(in.origins) - 1, counter: count}
	if e.candidate > 0 {
		in.candidates[e.candidate-1] = c
		return
	}
	in.candidates = append(in.candidates, c)
	e.candidate = len(in.candidates)
}

// repeat keeps an item whose counter is on its way. That is rare, so each is
// copied at once.
func (in *intake[T]) repeat(e *entry[T], it T, count counter) {
	if e.repeated == nil {
		e.repeated = &repeated[T]{}
	}
	in.state.repeated++
	e.repeated.count++
	e.repeated.newest = true
	in.keep(&e.repeated.sample, &candidate[T]{item: it, origin: len(in.origins) - 1, counter: count})
}

// keepCandidates copies the newest item of every key, over the pending one if
// there is one.
func (in *intake[T]) keepCandidates() {
	for i := range in.candidates {
		in.keep(&in.candidates[i].entry.pending, &in.candidates[i])
	}
}

func (in *intake[T]) keep(kept *sample[T], c *candidate[T]) {
	if kept.origin == nil {
		kept.item = in.state.newItem()
	}
	c.item.CopyTo(kept.item)
	kept.origin = in.origins[c.origin].keep(kept.origin)
	kept.counter = c.counter
}
