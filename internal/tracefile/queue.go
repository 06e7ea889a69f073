// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"sync"
	"sync/atomic"
)

const (
	// rowOverhead is what a queued row costs beyond its text: its struct, and its share of unused capacity.
	rowOverhead = 128
	// Rows up to maxPooledRow reuse storage, in steps of rowStep.
	maxPooledRow = 2048
	rowStep      = 256
)

// row is one row on its way to a batch, complete but for its head.
type row struct {
	next     *row // in a rowQueue
	stream   streamKey
	counter  int64
	observed uint64 // Unix ns
	payload  uint64 // hash of the canonical payload
	tail     []byte
}

var rows = sync.Pool{New: func() any { return new(row) }}

// newRow copies tail into a row, which goes back by freeRow.
func newRow(tail []byte) *row {
	if len(tail) > maxPooledRow {
		return &row{tail: append([]byte(nil), tail...)}
	}
	r := rows.Get().(*row) //nolint:forcetypeassert // the pool holds nothing else
	if cap(r.tail) < len(tail) {
		r.tail = make([]byte, 0, (len(tail)+rowStep-1)/rowStep*rowStep)
	}
	r.tail = append(r.tail[:0], tail...)
	return r
}

func freeRow(r *row) {
	if cap(r.tail) <= maxPooledRow {
		*r = row{tail: r.tail}
		rows.Put(r)
	}
}

func (r *row) cost() int64 {
	return int64(len(r.tail)) + rowOverhead
}

// rowQueue is a first-in first-out list of rows. It is not safe for concurrent use.
type rowQueue struct {
	first, last *row
	rows        int
}

func (q *rowQueue) push(r *row) {
	if q.last == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.rows++
}

// pop gives the oldest row, nil when there is none.
func (q *rowQueue) pop() *row {
	r := q.first
	if r == nil {
		return nil
	}
	q.first = r.next
	if q.first == nil {
		q.last = nil
	}
	r.next = nil
	q.rows--
	return r
}

// budget bounds the memory of all queues together (FIL-48).
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) give(n int64) {
	b.used.Add(-n)
}
