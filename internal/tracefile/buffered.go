// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"time"
)

// errRefused: the producer has retired; a new one has to be made.
var errRefused = errors.New("the producer has retired")

// enqueue puts r into the queue and drops what has to go for it: the oldest rows of this producer, or r itself if there
// are none (FIL-48). It returns how many were dropped.
func (p *producer) enqueue(r *row) (dropped int, err error) {
	cost := r.cost()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return 0, errRefused
	}
	for p.queue.rows >= p.w.limits.queueRows || !p.w.budget.take(cost) {
		oldest := p.queue.pop()
		dropped++
		p.dropped++
		if oldest == nil {
			freeRow(r)
			return dropped, nil
		}
		p.w.budget.give(oldest.cost())
		freeRow(oldest)
	}
	p.queue.push(r)
	if p.queue.rows == 1 {
		p.notify()
	}
	return dropped, nil
}

// dequeue takes the oldest row into the hand of the goroutine.
func (p *producer) dequeue() *row {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.queue.pop()
	if r == nil {
		return nil
	}
	p.w.budget.give(r.cost())
	p.inHand++
	return r
}

// settle says that n rows in hand are written or dropped; false if a shutdown has given them up meanwhile.
func (p *producer) settle(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned {
		return false
	}
	p.inHand -= n
	return true
}

// abandon gives up all rows of a producer that does not end, and returns how many that were. Its goroutine, should it ever
// come back from the disk, takes back what it was writing.
func (p *producer) abandon() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned, p.retired = true, true
	lost := p.inHand + p.queue.rows
	p.inHand = 0
	for r := p.queue.pop(); r != nil; r = p.queue.pop() {
		p.w.budget.give(r.cost())
		freeRow(r)
	}
	p.dropped += lost
	return lost
}

// bufferedLoop moves rows from the queue into the batch and writes that by size and time (FIL-17, FIL-18). A member that
// could not be written is kept as it is and tried again (FIL-54); meanwhile rows wait in the queue.
type bufferedLoop struct {
	*producer

	next    *row   // out of the queue, but not in the batch since it belongs to the next segment
	member  []byte // of the batch; nil as long as it isn't made
	flushAt time.Time
	retryAt time.Time
	pause   backoff
}

func newBufferedLoop(p *producer) *bufferedLoop {
	return &bufferedLoop{producer: p, pause: backoff{least: p.w.limits.retryMin, most: p.w.limits.retryMax}}
}

func (b *bufferedLoop) run() {
	defer b.close()
	if !b.w.gate.wait() {
		b.giveUp()
		return
	}
	for !b.step() {
	}
}

// step does one thing, or waits for something to do. At the end it returns true.
func (b *bufferedLoop) step() (end bool) {
	stopping := b.w.stopped() // before fill: nothing comes in any more once it is true
	full := b.member == nil && b.fill()
	now := time.Now()
	switch {
	case now.Before(b.retryAt) && !stopping:
		b.sleep(b.retryAt, nil)
	case !b.batch.empty() && (stopping || full || b.member != nil || !now.Before(b.flushAt)):
		if !b.flush() && stopping {
			b.giveUp()
			return true
		}
	case stopping:
		return true
	case !b.batch.empty():
		b.sleep(b.flushAt, b.wake)
	case now.Sub(b.lastRow) >= b.w.limits.idleAfter:
		return b.retire()
	default:
		b.sleep(b.lastRow.Add(b.w.limits.idleAfter), b.wake)
	}
	return false
}

// fill moves rows from the queue into the batch until that has to be flushed, which is what it returns.
func (b *bufferedLoop) fill() (full bool) {
	for b.batch.bytes() < b.w.cfg.FlushBytes {
		if b.next == nil {
			if b.next = b.dequeue(); b.next == nil {
				return false
			}
			b.lastRow = time.Now()
		}
		if b.series.exhausted {
			b.discardNext(b.dropExhausted)
			continue
		}
		switch b.place(b.next) {
		case placed:
			if b.batch.rows == 1 {
				b.flushAt = time.Now().Add(b.w.cfg.FlushInterval)
			}
			freeRow(b.next)
			b.next = nil
		case leftOut:
			b.discardNext(b.dropDuplicates)
		case rollFirst:
			if !b.batch.empty() {
				return true
			}
			b.roll()
		}
	}
	return true
}

func (b *bufferedLoop) discardNext(count func(n int)) {
	freeRow(b.next)
	b.next = nil
	if b.settle(1) {
		count(1)
	}
}

// flush writes the batch as one member. On failure it stays as it is, for another attempt at retryAt.
func (b *bufferedLoop) flush() bool {
	if b.member == nil {
		b.member = b.w.compressor.appendMember(takeBuffer(), b.batch.raw)
	}
	err := b.open()
	if err == nil {
		err = b.series.append(b.member)
	}
	exhausted := errors.Is(err, errExhausted)
	if err != nil && !exhausted {
		b.failed(err)
		b.retryAt = time.Now().Add(b.retryPause(err))
		return false
	}
	switch settled := b.settle(b.batch.rows); {
	case settled && exhausted:
		b.dropExhausted(b.batch.rows)
	case settled:
		b.wrote(len(b.member))
	case !exhausted:
		b.series.undo(len(b.member))
	}
	b.pause.reset()
	b.retryAt = time.Time{}
	giveBuffer(b.member)
	b.member = nil
	b.streams.commit()
	b.batch.reset()
	return true
}

func (b *bufferedLoop) retryPause(err error) time.Duration {
	switch {
	case errors.Is(err, errClosing):
		return closingPause
	case errors.Is(err, errLocked):
		return b.w.limits.lockRetry
	default:
		return b.pause.next()
	}
}

// giveUp drops everything that shutdown found unwritten.
func (b *bufferedLoop) giveUp() {
	giveBuffer(b.member)
	b.member = nil
	if lost := b.abandon(); lost > 0 {
		b.w.lost.Add(int64(lost))
		b.w.obs.RowsDropped(DropShutdown, lost)
	}
}
