// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"hash/maphash"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Arrival is one valid message. Byte slices are only read during the call.
type Arrival struct {
	WorkerID   []byte
	DPRank     int64
	CounterID  int64
	Sequence   int64
	Generation uint64 // of the connection (ZMQ-56)
	Payload    []byte
	ReceivedAt time.Time
}

// Verdict is what became of an arrival. Each count is to be added to the
// totals of the endpoint; a message restarts an endpoint at most once.
type Verdict struct {
	Duplicate       bool  // drop it
	Missing         int64 // messages before it that never arrived
	Gap             bool
	Restart         bool
	CounterMismatch bool // counter_id is not the sequence (STR-67)
	Overflow        int  // streams that gave way, or 1 for a record without state (STR-99)

	Stream   *Stream // nil when the stream has no state: the record goes to the logs alone
	New      bool    // the stream's first record
	Returned bool    // the stream was stale; its identity was decided anew
	Identity string  // service.instance.id
	Shared   bool    // New or Returned, and another endpoint's live stream has the worker_id and dp_rank (STR-102)
}

// streamID tells the streams of one endpoint apart.
type streamID struct {
	workerID string
	dpRank   int64
}

// Endpoint accounts for one publisher. Its methods may be called by several
// goroutines, but the order of arrivals is that of the calls.
type Endpoint struct {
	registry *Registry
	name     string
	streams  map[streamID]*Stream
	recent   list              // its streams by last record
	named    map[int64]*Stream // by rank: who is known by the endpoint's name

	invalid      invalidSequences
	anyForwarded bool
	lastWorker   uint64 // hash of the worker_id, which can be as long as a message
}

// Invalid remembers the number of a message with good frames and a payload
// that is not valid: it was received, so it is not missing (STR-69).
func (e *Endpoint) Invalid(sequence int64) {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	e.invalid.add(sequence)
}

// Observe judges a valid message (STR-65 to STR-72, STR-99, STR-102).
func (e *Endpoint) Observe(a Arrival) Verdict {
	at := position{
		sequence:   a.Sequence,
		generation: a.Generation,
		length:     len(a.Payload),
		hash:       maphash.Bytes(e.registry.seed, a.Payload),
	}
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()

	v := e.judge(a, at)
	if v.Duplicate {
		return v
	}
	e.forwarded(a, &v)
	return v
}

func (e *Endpoint) judge(a Arrival, at position) Verdict {
	s := e.streams[streamID{workerID: string(a.WorkerID), dpRank: a.DPRank}]
	if s != nil && e.registry.isForgotten(s, a.ReceivedAt) {
		e.registry.forget(s) // the next Sweep would have
		s = nil
	}
	if s == nil {
		return e.first(a, at)
	}
	returned := e.registry.isStale(s, a.ReceivedAt)
	v := s.advance(at, &e.invalid)
	if v.Duplicate {
		return v // dropped: no sign of life, and nobody would hear of a new identity
	}
	e.registry.touch(s, a.ReceivedAt)
	v.Stream = s
	if returned {
		v.Returned = true
		var identity string
		identity, v.Shared = e.registry.identify(s.key, a.ReceivedAt)
		s.setIdentity(identity)
	}
	v.Identity = s.identity
	return v
}

// MaxWorkerID is the longest worker_id, in bytes, of a stream that has state. The
// state, the series and the spans of a stream repeat the worker_id, and a peer may
// send one as long as a message: without a bound, max_streams would not bound
// memory (STR-99).
const MaxWorkerID = 1024

// first gives a new stream its state, if there is room (STR-65, STR-99).
func (e *Endpoint) first(a Arrival, at position) Verdict {
	key := fpm.StreamKey{Endpoint: e.name, WorkerID: string(a.WorkerID), DPRank: a.DPRank}
	v := Verdict{New: true}
	v.Identity, v.Shared = e.registry.identify(key, a.ReceivedAt)
	room, gaveWay := false, false
	if len(a.WorkerID) <= MaxWorkerID {
		room, gaveWay = e.registry.makeRoom(a.ReceivedAt)
	}
	if gaveWay {
		v.Overflow++
	}
	if !room {
		v.Overflow++
		v.New, v.Shared = false, false
		return v
	}
	v.Stream = &Stream{
		key: key, endpoint: e,
		firstSeen: a.ReceivedAt, lastSeen: a.ReceivedAt, last: at,
	}
	v.Stream.setIdentity(v.Identity)
	e.registry.insert(v.Stream)
	return v
}

// forwarded keeps what belongs to the endpoint and not to one of its streams.
func (e *Endpoint) forwarded(a Arrival, v *Verdict) {
	v.CounterMismatch = a.CounterID != a.Sequence
	e.invalid.clear()
	worker := maphash.Bytes(e.registry.seed, a.WorkerID)
	if e.anyForwarded && e.lastWorker != worker {
		v.Restart = true
	}
	e.anyForwarded, e.lastWorker = true, worker
}
