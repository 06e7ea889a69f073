// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairqueue is the bounded queue between the sockets and a consumer.
// When it is full, the oldest item of the source that holds most gives way, so
// that a flooding endpoint displaces its own records (STR-100).
package fairqueue

import (
	"slices"
	"sync"
	"time"
)

// Limits bound a queue, or what is taken out at a time. Both are > 0.
type Limits struct {
	Items int
	Bytes int64
}

// Queue is a first-in first-out queue of items from several sources. Push and
// Pop may be called from any goroutine.
type Queue[T any] struct {
	limits Limits
	onDrop func(T)

	mu      sync.Mutex
	sources []*Source[T]
	all     order[T]
	bytes   int64
	spare   *node[T] // unused nodes, linked by next
	spares  int

	filled chan struct{} // one token: something was pushed
}

// Source is one endpoint's share of a queue.
type Source[T any] struct {
	queue   *Queue[T]
	own     order[T]
	bytes   int64
	removed bool
}

// node is an item, linked in the order of all items and in that of its source.
type node[T any] struct {
	value          T
	size           int64
	source         *Source[T]
	next, previous *node[T] // of all
	nextOwn        *node[T] // of the source
}

// order is a list with its length. Items leave a source's order at its head
// only, because the oldest of all is also the oldest of its source.
type order[T any] struct {
	head, tail *node[T]
	length     int
}

// New makes a queue. onDrop, when not nil, gets every item that gives way or is
// refused; it is called with the queue locked and must not call back.
func New[T any](limits Limits, onDrop func(T)) *Queue[T] {
	if onDrop == nil {
		onDrop = func(T) {}
	}
	return &Queue[T]{limits: limits, onDrop: onDrop, filled: make(chan struct{}, 1)}
}

// NewSource adds a source.
func (q *Queue[T]) NewSource() *Source[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &Source[T]{queue: q}
	q.sources = append(q.sources, s)
	return s
}

// RemoveSource takes a source out, with its last item when some of its items
// still wait. It must not push anymore.
func (q *Queue[T]) RemoveSource(s *Source[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.removed = true
	if s.own.length == 0 {
		q.dropSource(s)
	}
}

func (q *Queue[T]) dropSource(s *Source[T]) {
	q.sources = slices.DeleteFunc(q.sources, func(other *Source[T]) bool { return other == s })
}

// Push adds an item of size bytes and never blocks. It makes room by the rule
// of STR-100; an item that is larger than the whole queue is dropped itself.
func (s *Source[T]) Push(value T, size int64) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if size > q.limits.Bytes {
		q.onDrop(value)
		return
	}
	for q.all.length+1 > q.limits.Items {
		q.dropOldestOf(q.holdingMost(func(s *Source[T]) int64 { return int64(s.own.length) }))
	}
	for q.bytes+size > q.limits.Bytes {
		q.dropOldestOf(q.holdingMost(func(s *Source[T]) int64 { return s.bytes }))
	}
	q.append(s, value, size)
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// Len gives the items and bytes that wait.
func (q *Queue[T]) Len() (items int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all.length, q.bytes
}

// Wait blocks until as much waits as the limits let Pop take, or timeout after the
// first item, or stop is closed. It tells whether to go on.
func (q *Queue[T]) Wait(limits Limits, timeout time.Duration, stop <-chan struct{}) bool {
	var deadline <-chan time.Time
	for {
		items, bytes := q.Len()
		if items >= limits.Items || bytes >= limits.Bytes {
			return true
		}
		if items > 0 && deadline == nil {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-stop:
			return false
		case <-deadline:
			return true
		case <-q.filled:
		}
	}
}

// Pop moves the oldest items to dst, in the order of arrival: at least one, if any
// waits, and no more than the limits allow.
func (q *Queue[T]) Pop(dst []T, limits Limits) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := int64(0)
	for range min(limits.Items, q.all.length) {
		head := q.all.head
		if bytes += head.size; bytes > limits.Bytes && len(dst) > 0 {
			break
		}
		dst = append(dst, q.removeOldestOf(head.source))
	}
	return dst
}

func (q *Queue[T]) holdingMost(share func(*Source[T]) int64) (most *Source[T]) {
	for _, s := range q.sources {
		if most == nil || share(s) > share(most) {
			most = s
		}
	}
	return most
}

func (q *Queue[T]) dropOldestOf(s *Source[T]) {
	q.onDrop(q.removeOldestOf(s))
}

func (q *Queue[T]) append(s *Source[T], value T, size int64) {
	n := q.newNode()
	n.value, n.size, n.source = value, size, s

	n.previous = q.all.tail
	if q.all.tail != nil {
		q.all.tail.next = n
	} else {
		q.all.head = n
	}
	q.all.tail = n
	q.all.length++

	if s.own.tail != nil {
		s.own.tail.nextOwn = n
	} else {
		s.own.head = n
	}
	s.own.tail = n
	s.own.length++

	q.bytes += size
	s.bytes += size
}

func (q *Queue[T]) removeOldestOf(s *Source[T]) T {
	n := s.own.head
	s.own.head = n.nextOwn
	if s.own.head == nil {
		s.own.tail = nil
	}
	s.own.length--

	if n.previous != nil {
		n.previous.next = n.next
	} else {
		q.all.head = n.next
	}
	if n.next != nil {
		n.next.previous = n.previous
	} else {
		q.all.tail = n.previous
	}
	q.all.length--

	q.bytes -= n.size
	s.bytes -= n.size
	if s.removed && s.own.length == 0 {
		q.dropSource(s)
	}
	value := n.value
	q.keepSpare(n)
	return value
}

// maxSpares bounds the nodes that are kept for reuse.
const maxSpares = 4096

func (q *Queue[T]) newNode() *node[T] {
	n := q.spare
	if n == nil {
		return new(node[T])
	}
	q.spare = n.next
	q.spares--
	n.next = nil
	return n
}

func (q *Queue[T]) keepSpare(n *node[T]) {
	*n = node[T]{}
	if q.spares >= maxSpares {
		return
	}
	n.next = q.spare
	q.spare = n
	q.spares++
}
