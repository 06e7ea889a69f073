// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"container/list"
	"sync"
)

// handles bounds how many segments are open (FIL-41). Whoever wants to use a segment acquires it; the least recently
// flushed one that nobody is using is closed when another needs its place.
type handles struct {
	limit int
	obs   Observer

	mu      sync.Mutex
	open    int       // segments that have a place, in use or idle
	idle    list.List // of *segment, least recently flushed first
	waiting list.List // of chan struct{}, closed when there may be a place
}

// acquire gives seg a place for an open file and keeps others from closing it. It waits only while every place is in use.
func (h *handles) acquire(seg *segment) {
	for {
		freed, victim := h.tryAcquire(seg)
		if victim != nil {
			if err := victim.Close(); err != nil {
				h.obs.Failed(OpClose)
			}
		}
		if freed == nil {
			return
		}
		<-freed
	}
}

// tryAcquire returns what to wait for, nil on success, and a file whose place was taken and which has to be closed.
func (h *handles) tryAcquire(seg *segment) (freed chan struct{}, victim file) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seg.idle != nil {
		h.idle.Remove(seg.idle)
		seg.idle = nil
		return nil, nil
	}
	if h.open < h.limit {
		h.open++
		return nil, nil
	}
	if front := h.idle.Front(); front != nil {
		evicted := h.idle.Remove(front).(*segment) //nolint:forcetypeassert // the list holds nothing else
		victim, evicted.file, evicted.idle = evicted.file, nil, nil
		return nil, victim
	}
	freed = make(chan struct{})
	h.waiting.PushBack(freed)
	return freed, nil
}

// release gives up the use of seg, which stays open as the most recently flushed one as long as nobody needs its place.
func (h *handles) release(seg *segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seg.idle = h.idle.PushBack(seg)
	h.wakeOne()
}

// discard closes the file of an acquired segment, if it is open, and gives up its place.
func (h *handles) discard(seg *segment) {
	if seg.file != nil {
		if err := seg.file.Close(); err != nil {
			h.obs.Failed(OpClose)
		}
		seg.file = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	h.wakeOne()
}

func (h *handles) wakeOne() {
	if front := h.waiting.Front(); front != nil {
		close(h.waiting.Remove(front).(chan struct{})) //nolint:forcetypeassert // the list holds nothing else
	}
}
