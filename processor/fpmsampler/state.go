// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"container/list"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxKeys bounds the memory of one sampler (SMP-21). The limit of a state is
// never another one, except in tests.
const maxKeys = 65536

// latenessAllowed is how late a tick may be served and still count as on time;
// Dynamo's writer allows the same.
const latenessAllowed = 5 * time.Millisecond

// item is a log record or a span.
type item[T any] interface {
	CopyTo(dest T)
	MoveTo(dest T)
	Attributes() pcommon.Map
}

// sample is one forward pass that waits for its tick or is on its way. It owns
// the item; the origin is shared and never written to.
type sample[T item[T]] struct {
	item    T
	origin  *origin
	counter counter
}

// entry is the state of one key (SMP-19): at most one pending sample and the
// last emitted counter.
type entry[T item[T]] struct {
	key       key
	arrival   uint64 // number of the last arrival
	lastSeen  time.Time
	emitted   counter
	onWay     counter // of the sample that a tick took and that isn't settled; not known if none
	waiting   bool    // pending holds a sample, or will at the end of the intake
	pending   sample[T]
	idle      *list.Element // place among the idle keys; nil if waiting or on the way
	candidate int           // number of its candidate in the intake under way, from 1; 0 if none
	repeated  *repeated[T]  // nil if none
}

// repeated is the arrivals with the counter of the sample that is on its way.
// They are suppressed once that is accepted (SMP-6); should it be refused, they
// count like any other arrival (SMP-13).
type repeated[T item[T]] struct {
	sample[T] // the last of them
	count     int64
	newest    bool // nothing else has arrived since
}

// outcome is what became of a batch.
type outcome int

const (
	accepted outcome = iota
	refused
	cutOff // by the end of the shutdown
)

func (o outcome) count(n int64) tally {
	switch o {
	case accepted:
		return tally{out: n}
	case refused:
		return tally{droppedDownstream: n}
	default:
		return tally{droppedShutdown: n}
	}
}

// outgoing is a sample that has left the state with a tick.
type outgoing[T item[T]] struct {
	entry *entry[T]
	sample[T]
}

// state holds what a sampler remembers. Its methods take the lock; none of them
// calls another component.
type state[T item[T]] struct {
	newItem  func() T
	interval time.Duration
	idleTTL  time.Duration
	limit    int // of keys

	mu       sync.Mutex
	entries  map[key]*entry[T]
	idle     *idleKeys[T] // entries that neither wait nor are on their way
	waiting  []*entry[T]  // entries with a pending sample
	arrivals uint64
	nextTick time.Time     // zero before start
	ready    []outgoing[T] // taken by a tick, not yet fetched by the emitter
	away     int           // fetched, not yet settled
	repeated int64         // arrivals that wait for a sample to be settled
	closed   bool          // the shutdown has begun its last emission
	released bool          // the shutdown has ended
	cutOff   int64         // samples in batches that the end of the shutdown cut off
	intake   intake[T]     // scratch of ingest
}

func newState[T item[T]](cfg *Config, newItem func() T) *state[T] {
	return &state[T]{
		newItem:  newItem,
		interval: cfg.Interval,
		idleTTL:  cfg.IdleTTL,
		limit:    maxKeys,
		entries:  map[key]*entry[T]{},
		idle:     newIdleKeys[T](),
	}
}

// start sets the first tick one whole interval from now (SMP-9).
func (s *state[T]) start(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextTick = now.Add(s.interval)
}

// ingest lets walk hand in the items of one arriving batch. They stay the
// caller's: of each key the newest is copied at the end, so that a batch costs
// one copy a key and not one a forward pass.
func (s *state[T]) ingest(now time.Time, walk func(in *intake[T])) tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serveTick(now)
	in := &s.intake
	in.begin(s, now)
	defer in.end()
	in.tally.evict(s.forgetIdle(now))
	walk(in)
	in.keepCandidates()
	return in.tally
}

// untilTick is how long the emitter may sleep: not at all when an arrival has
// served a tick already or the tick is late.
func (s *state[T]) untilTick(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) > 0 {
		return 0
	}
	return s.nextTick.Sub(now)
}

// fetchTick gives the samples of the tick that is due, if any. They stay on
// their way until settle.
func (s *state[T]) fetchTick(now time.Time) ([]outgoing[T], tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serveTick(now)
	var t tally
	t.evict(s.forgetIdle(now))
	return s.fetch(), t
}

// fetchLast gives what still waits when the sampler shuts down; arrivals are
// dropped from then on. It must be called until it gives nothing: a tick that
// was served but not fetched comes first.
func (s *state[T]) fetchLast() []outgoing[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if len(s.ready) == 0 {
		s.takeWaiting()
	}
	return s.fetch()
}

// settle ends a batch that was fetched. Only acceptance moves the last emitted
// counter (SMP-13); after an error the samples are gone (SMP-14).
func (s *state[T]) settle(batch []outgoing[T], o outcome) tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return tally{} // counted by release
	}
	s.away = 0
	t := o.count(int64(len(batch)))
	back := make([]*entry[T], 0, len(batch))
	for _, out := range batch {
		e := out.entry
		e.onWay = counter{}
		if o == accepted {
			e.emitted = out.counter
		}
		s.settleRepeated(e, o, &t)
		if !e.waiting {
			back = append(back, e)
		}
	}
	s.idle.insert(back)
	s.cutOff += t.droppedShutdown
	return t
}

// settleRepeated decides on the repetitions of a sample that is settled.
func (s *state[T]) settleRepeated(e *entry[T], o outcome, t *tally) {
	r := e.repeated
	if r == nil {
		return
	}
	e.repeated = nil
	s.repeated -= r.count
	switch {
	case o == accepted:
		t.suppressed += r.count
	case !r.newest:
		t.replaced += r.count
	case e.waiting:
		t.replaced += r.count // the pending one, and all but the last of these
		e.pending = r.sample
	default:
		t.replaced += r.count - 1
		e.waiting, e.pending = true, r.sample
		s.waiting = append(s.waiting, e)
	}
}

// release forgets everything at the end of a shutdown. What has not been sent
// by then, a batch still on its way included, is dropped; unsent counts that and
// the batches that were cut off before.
func (s *state[T]) release() (unsent int64, t tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = tally{
		droppedShutdown: int64(s.away+len(s.ready)+len(s.waiting)) + s.repeated,
		keys:            -int64(len(s.entries)),
	}
	s.closed, s.released = true, true
	s.entries, s.idle, s.ready, s.waiting = nil, nil, nil, nil
	return s.cutOff + t.droppedShutdown, t
}

// serveTick takes the pending samples when a tick is due. Arrivals call it too,
// so that a record which comes together with a tick belongs to the next one
// whoever gets the lock first (SMP-12). While an emission is under way the tick
// waits and is late.
func (s *state[T]) serveTick(now time.Time) {
	if s.nextTick.IsZero() || now.Before(s.nextTick) || s.closed || len(s.ready) > 0 || s.away > 0 {
		return
	}
	s.nextTick = tickAfter(s.nextTick, now, s.interval)
	s.takeWaiting()
}

// takeWaiting moves every pending sample to ready (SMP-7).
func (s *state[T]) takeWaiting() {
	if len(s.waiting) == 0 {
		return
	}
	s.ready = make([]outgoing[T], len(s.waiting))
	for i, e := range s.waiting {
		s.ready[i] = outgoing[T]{entry: e, sample: e.pending}
		e.onWay = e.pending.counter
		e.waiting = false
		e.pending = sample[T]{}
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
}

// fetch hands over what the last tick took.
func (s *state[T]) fetch() []outgoing[T] {
	batch := s.ready
	s.ready, s.away = nil, len(batch)
	return batch
}

// forgetIdle drops the keys that had no arrival for idle_ttl (SMP-20).
func (s *state[T]) forgetIdle(now time.Time) (evicted int64) {
	if s.released {
		return 0
	}
	for e := s.idle.longest(); e != nil && now.Sub(e.lastSeen) >= s.idleTTL; e = s.idle.longest() {
		s.forget(e)
		evicted++
	}
	return evicted
}

func (s *state[T]) forget(e *entry[T]) {
	s.idle.remove(e)
	delete(s.entries, e.key)
}

// tickAfter is the tick that follows one due at due and served at now. A late
// one delays those after it, so that there is no burst to catch up (SMP-10);
// the scheduler's usual delay must not make the ticks drift, though.
func tickAfter(due, now time.Time, interval time.Duration) time.Time {
	if now.Sub(due) > min(latenessAllowed, interval/10) {
		return now.Add(interval)
	}
	return due.Add(interval)
}
