// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// errClosing: the locks of a producer are taken for a moment by this process itself, to delete old segments.
var errClosing = errors.New("old segments are being deleted")

// closingPause is short: what errClosing waits for is one deletion.
const closingPause = 50 * time.Millisecond

// producer owns the file series of one producer id (FIL-40). Rows come in from any goroutine; everything about the disk
// belongs to the goroutine of the producer, so that a disk that hangs holds up this producer alone (FIL-61).
type producer struct {
	w      *Writer
	part   string        // the producer id as it stands in file names
	id     string        // as it was first seen
	before *producer     // its predecessor in the same series, which has to close first (FIL-51)
	wake   chan struct{} // something came in
	done   chan struct{} // closed when the goroutine has ended
	logger *zap.Logger
	source string // in health

	// Guarded by the mutex of w.
	shared     bool // by another id, and logged (FIL-5)
	incomplete bool // a row had no namespace, component or producer id, and that is logged (ROW-7)

	mu        sync.Mutex
	queue     rowQueue // buffered
	inHand    int      // rows taken out of queue and not yet settled
	jobs      []*job   // flushed, synced
	dropped   int      // rows, in total
	retired   bool     // takes nothing more
	abandoned bool     // shutdown went on without waiting for it

	current atomic.Pointer[job]

	// The rest belongs to the goroutine.
	timer     *time.Timer
	batch     batch
	streams   streams
	series    series
	retention retention
	lock      lockFile
	locked    bool // or known to be without locks
	located   bool
	rolled    bool // a segment was opened since
	lastRow   time.Time
	replaced  time.Time // last log line about FIL-56
	exhausted bool      // FIL-10, and logged
}

func newProducer(w *Writer, part, id string, before *producer) *producer {
	prefix := w.name + "." + part
	logger := w.logger.With(zap.String("producer", part))
	p := &producer{
		w:         w,
		part:      part,
		id:        id,
		before:    before,
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		logger:    logger,
		source:    "producer " + part,
		streams:   streams{limit: w.limits.maxStreams, journaled: w.cfg.Durability != Buffered},
		retention: retention{disk: w.disk, obs: w.obs, logger: logger, dir: w.dir, prefix: prefix, keep: w.cfg.MaxSegments},
	}
	list := func() ([]foundSegment, error) { return w.listings.of(part) }
	p.series.list, p.retention.lister = list, list
	p.series.disk, p.series.handles, p.series.obs = w.disk, w.handles, w.obs
	p.series.dir, p.series.prefix = w.dir, prefix
	p.series.synced = w.cfg.Durability == Synced
	p.series.confirm = w.gate.confirm
	p.series.replaced, p.series.left = p.logReplaced, p.streams.forgetWritten
	return p
}

// run is the goroutine of the producer.
func (p *producer) run() {
	defer close(p.done)
	defer p.w.forget(p)
	p.timer = time.NewTimer(p.w.limits.idleAfter)
	defer p.timer.Stop()
	p.lastRow = time.Now()
	if p.before != nil {
		<-p.before.done
		p.before = nil
	}
	if p.w.cfg.Durability == Buffered {
		newBufferedLoop(p).run()
	} else {
		p.serveJobs()
	}
}

// verdict says what became of a row that was offered to the batch.
type verdict uint8

const (
	placed    verdict = iota
	leftOut           // a duplicate (FIL-29)
	rollFirst         // the row belongs to the next segment
)

// place adds r to the batch, if it is the active segment's (FIL-21, FIL-28, FIL-29). r stays the caller's.
func (p *producer) place(r *row) verdict {
	judgment := p.judge(r)
	if judgment == rowDuplicate {
		return leftOut
	}
	segmentRows := p.series.rows + p.batch.rows
	if judgment == rowRestart && segmentRows > 0 {
		return rollFirst
	}
	var scratch [32]byte
	head := appendRowHead(scratch[:0], p.w.elapsedMillis())
	if mustRoll(segmentRows, p.series.raw+p.batch.bytes(), int64(len(head)+len(r.tail)), p.w.cfg.RollBytes) {
		return rollFirst
	}
	if judgment != rowLate {
		p.streams.remember(r)
	}
	p.batch.add(head, r.tail)
	return placed
}

// judge drops no row as a duplicate of one that is on no disk any more.
func (p *producer) judge(r *row) judgment {
	verdict := p.streams.judge(r)
	if verdict == rowDuplicate && !p.series.holds() {
		return p.streams.judge(r)
	}
	return verdict
}

// roll begins a new segment. The batch is empty (FIL-27).
func (p *producer) roll() {
	p.series.roll()
	p.streams.clear()
}

// open takes the lock of the producer and finds its first index, once.
func (p *producer) open() error {
	if !p.locked {
		if err := p.w.gate.confirm(); err != nil {
			return &opError{OpLock, err}
		}
		lock, err := p.w.locks.take(dynamoLockPath(filepath.Join(p.w.dir, p.w.name+"."+p.part)), dynamoLock, false)
		switch {
		case errors.Is(err, errLocked) && p.w.family.isDeleting(p.part):
			return errClosing
		case errors.Is(err, errLocked):
			return &opError{OpLock, fmt.Errorf("a Dynamo trace writer with retention owns these files: %w", err)}
		case err != nil:
			return &opError{OpLock, err}
		}
		p.lock, p.locked = lock, true
	}
	if !p.located {
		if err := p.series.locate(); err != nil {
			return err
		}
		p.located = true
	}
	return nil
}

// close ends the use of the disk.
func (p *producer) close() {
	p.series.close()
	p.batch.reset()
	if p.lock != nil {
		if err := p.lock.Close(); err != nil {
			p.w.obs.Failed(OpClose)
		}
	}
	p.lock, p.locked = nil, false
}

// retire ends a producer that has nothing to do for long (FIL-51), unless something just came in.
func (p *producer) retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = p.queue.rows == 0 && len(p.jobs) == 0
	return p.retired
}

func (p *producer) isRetired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retired
}

// wrote accounts for the batch, which stands in the active segment as a member of memberBytes.
func (p *producer) wrote(memberBytes int) {
	obs := p.w.obs
	obs.RowsWritten(p.batch.rows)
	obs.BytesWritten(len(p.batch.raw), memberBytes)
	obs.Flushed()
	if first := p.series.wrote(p.batch.rows, p.batch.bytes()); first {
		obs.SegmentOpened()
		// After locate the first segment alone can't be too much if there were few, so nobody has to look again.
		p.retention.due = p.rolled || p.series.found >= p.w.cfg.MaxSegments
		p.rolled = true
		p.w.family.poke()
	}
	p.w.progress.Add(1)
	p.recovered()
	p.retention.run(p.series.index)
}

// failed counts a failed attempt, and reports it if the one before did not fail.
func (p *producer) failed(err error) {
	var failure *opError
	if !errors.As(err, &failure) {
		return // not a failure of the disk
	}
	p.w.obs.Failed(failure.op)
	err = fmt.Errorf("rows of producer %s can't be written below %s: %w", p.part, p.w.cfg.Base, err)
	if p.w.health.set(p.source, err) {
		p.w.stateLog.Error(p.logger, "Rows can't be written; "+p.w.cfg.Durability.whileFailing(),
			zap.Stringer("op", failure.op), zap.Error(err))
	}
}

func (p *producer) recovered() {
	if p.w.health.clear(p.source) {
		p.w.stateLog.Info(p.logger, "Rows are written again")
	}
}

func (p *producer) logReplaced(err error) {
	if now := time.Now(); p.replaced.IsZero() || now.Sub(p.replaced) >= time.Minute {
		p.replaced = now
		p.logger.Warn("The active trace file changed from outside; going on with the next one", zap.Error(err))
	}
}

// drop counts rows that will not be written.
func (p *producer) drop(reason DropReason, n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	p.dropped += n
	p.mu.Unlock()
	p.w.obs.RowsDropped(reason, n)
}

// dropDuplicates drops n rows that the segment holds already (FIL-29).
func (p *producer) dropDuplicates(n int) {
	p.drop(DropDuplicate, n)
}

// dropExhausted drops n rows because no segment index is left (FIL-10).
func (p *producer) dropExhausted(n int) {
	if !p.exhausted {
		p.exhausted = true
		p.logger.Error("No segment index is left, all rows of this producer are dropped; move its trace files away",
			zap.String("files", p.series.prefix+".*"+segmentSuffix))
	}
	p.recovered()
	p.drop(DropProducerLimit, n)
}

// summarize says at the end how many rows were dropped (FIL-63).
func (p *producer) summarize() {
	p.mu.Lock()
	dropped := p.dropped
	p.mu.Unlock()
	if dropped > 0 {
		p.logger.Warn("Rows of this producer were dropped", zap.Int("rows", dropped))
	}
}

// sleep waits until the time, the beginning of the shutdown, or a wake (nil: none).
func (p *producer) sleep(until time.Time, wake <-chan struct{}) {
	p.timer.Reset(time.Until(until))
	select {
	case <-p.timer.C:
	case <-p.w.stop:
	case <-wake:
	}
}

func (p *producer) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
