// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Config bounds the memory of a Registry (STR-98, STR-99).
type Config struct {
	StaleAfter  time.Duration // without a record: no longer live
	ForgetAfter time.Duration // without a record: no longer known
	MaxStreams  int           // streams that have state, over all endpoints

	// OnForget, when set, is called for every stream that loses its state
	// (forgotten, gave way, endpoint removed), with the registry locked: it
	// must not call back.
	OnForget func(*Stream)
}

// Registry holds the streams of all endpoints. Its lock is held for map and
// list work only, never across I/O or a call to a consumer.
type Registry struct {
	cfg  Config
	seed maphash.Seed

	mu        sync.Mutex
	endpoints map[string]*Endpoint
	recent    list // all streams by last record
	workers   map[streamID]map[*Stream]struct{}
}

// NewRegistry makes an empty registry.
func NewRegistry(cfg Config) *Registry {
	return &Registry{
		cfg:       cfg,
		seed:      maphash.MakeSeed(),
		endpoints: make(map[string]*Endpoint),
		recent:    list{links: linksInRegistry},
		workers:   make(map[streamID]map[*Stream]struct{}),
	}
}

// Add makes the account of an endpoint. An endpoint that is removed and added
// again starts without stream state (ZMQ-58).
func (r *Registry) Add(name string) (*Endpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.endpoints[name]; ok {
		return nil, fmt.Errorf("endpoint %q is already accounted for", name)
	}
	e := &Endpoint{
		registry: r,
		name:     name,
		streams:  make(map[streamID]*Stream),
		named:    make(map[int64]*Stream),
		recent:   list{links: linksInEndpoint},
	}
	r.endpoints[name] = e
	return e, nil
}

// Remove forgets an endpoint and its streams. It must not be observed anymore.
func (r *Registry) Remove(e *Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e.recent.oldest != nil {
		r.forget(e.recent.oldest)
	}
	delete(r.endpoints, e.name)
}

// Sweep forgets the streams that have been silent for ForgetAfter (STR-99).
func (r *Registry) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := r.recent.oldest; s != nil && r.isForgotten(s, now); s = r.recent.oldest {
		r.forget(s)
	}
}

// Len is the number of streams that have state.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent.length
}

func (r *Registry) isStale(s *Stream, now time.Time) bool {
	return now.Sub(s.lastSeen) >= r.cfg.StaleAfter
}

func (r *Registry) isForgotten(s *Stream, now time.Time) bool {
	return now.Sub(s.lastSeen) >= r.cfg.ForgetAfter
}

func (r *Registry) touch(s *Stream, now time.Time) {
	s.lastSeen = now
	r.recent.moveToNewest(s)
	s.endpoint.recent.moveToNewest(s)
}

// identify decides the service.instance.id of a stream that appears or returns
// (STR-73, STR-102). A worker_id that is the name of another endpoint is shared
// too: that name is what the other one's streams fall back to.
func (r *Registry) identify(key fpm.StreamKey, now time.Time) (identity string, shared bool) {
	if key.WorkerID != key.Endpoint {
		_, shared = r.endpoints[key.WorkerID]
	}
	for other := range r.workers[streamID{workerID: key.WorkerID, dpRank: key.DPRank}] {
		if other.key.Endpoint != key.Endpoint && !r.isStale(other, now) {
			shared = true
			break
		}
	}
	if shared || key.WorkerID == "" {
		return r.fallback(key, now), shared
	}
	return key.WorkerID, false
}

// fallback is the endpoint's name, which one live stream of a rank can have: a
// second one adds its worker_id, or the two would be merged.
func (r *Registry) fallback(key fpm.StreamKey, now time.Time) string {
	e := r.endpoints[key.Endpoint]
	if holder := e.named[key.DPRank]; holder != nil && holder.key != key && !r.isStale(holder, now) {
		return key.Endpoint + "/" + key.WorkerID
	}
	return key.Endpoint
}

// setIdentity names a stream and keeps who has the endpoint's own name.
func (s *Stream) setIdentity(identity string) {
	s.leaveIdentity()
	s.identity = identity
	if identity == s.key.Endpoint {
		s.endpoint.named[s.key.DPRank] = s
	}
}

func (s *Stream) leaveIdentity() {
	if s.endpoint.named[s.key.DPRank] == s {
		delete(s.endpoint.named, s.key.DPRank)
	}
}

// makeRoom makes place for one more stream by the rule of STR-99.
func (r *Registry) makeRoom(now time.Time) (room, gaveWay bool) {
	if r.recent.length < r.cfg.MaxStreams {
		return true, false
	}
	if oldest := r.recent.oldest; oldest != nil && r.isStale(oldest, now) {
		r.forget(oldest)
		return true, true
	}
	if e := r.endpointWithMostStreams(); e != nil && e.recent.length > 1 {
		r.forget(e.recent.oldest)
		return true, true
	}
	return false, false
}

func (r *Registry) endpointWithMostStreams() (most *Endpoint) {
	for _, e := range r.endpoints {
		if most == nil || e.recent.length > most.recent.length {
			most = e
		}
	}
	return most
}

func (r *Registry) insert(s *Stream) {
	id := streamID{workerID: s.key.WorkerID, dpRank: s.key.DPRank}
	s.endpoint.streams[id] = s
	s.endpoint.recent.pushNewest(s)
	r.recent.pushNewest(s)
	if r.workers[id] == nil {
		r.workers[id] = make(map[*Stream]struct{}, 1)
	}
	r.workers[id][s] = struct{}{}
}

func (r *Registry) forget(s *Stream) {
	id := streamID{workerID: s.key.WorkerID, dpRank: s.key.DPRank}
	delete(s.endpoint.streams, id)
	s.leaveIdentity()
	s.endpoint.recent.remove(s)
	r.recent.remove(s)
	delete(r.workers[id], s)
	if len(r.workers[id]) == 0 {
		delete(r.workers, id)
	}
	if r.cfg.OnForget != nil {
		r.cfg.OnForget(s)
	}
}
