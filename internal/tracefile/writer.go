// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

var (
	errShutdown = errors.New("the trace file writer is shut down")
	errStuck    = errors.New("the disk did not answer before the shutdown had to go on")
)

// payloadSeed makes the hashes unpredictable for an engine. They are compared only within this process.
var payloadSeed = maphash.MakeSeed()

// Record is one forward pass on its way to a row.
type Record struct {
	Source fpm.Source
	// Worker and DPRank name the stream within the producer: service.instance.id, else fpm.worker_id.
	Worker           string
	DPRank           int64
	CounterID        int64
	CaptureMode      string
	ObservedUnixNano uint64
	// Canonical is what fpm.Decoder.Canonical gives. It is only read during the call.
	Canonical []byte
}

// Writer writes trace files below one base path. It is safe for concurrent use.
type Writer struct {
	cfg        Config
	obs        Observer
	logger     *zap.Logger
	limits     limits
	dir, name  string // of cfg.Base
	started    time.Time
	disk       fileSystem
	locks      *locks
	gate       *gate
	family     *family
	listings   *listings
	handles    *handles
	health     health
	compressor *compressor
	budget     budget
	stateLog   *stateLog

	life        sync.RWMutex // held for reading while anything is taken in
	running     bool
	stopping    bool
	stop        chan struct{} // closed when the producers have to end
	interrupt   sync.Once
	interrupted chan struct{}
	ended       chan struct{} // closed when Shutdown has returned
	pushes      sync.WaitGroup
	progress    atomic.Int64 // members written
	lost        atomic.Int64 // rows that shutdown gave up

	mu        sync.Mutex
	producers map[string]*producer // by their part of file names
	limitLog  *rate.Limiter
}

// NewWriter makes a Writer, which does nothing before Start.
func NewWriter(cfg Config, obs Observer, logger *zap.Logger) *Writer {
	return newWriter(cfg, obs, logger, disk{}, defaultLimits())
}

func newWriter(cfg Config, obs Observer, logger *zap.Logger, disk fileSystem, limits limits) *Writer {
	if cfg.Durability == Synced {
		disk = durableDirectories{disk}
	}
	w := &Writer{
		cfg:         cfg,
		obs:         obs,
		logger:      logger,
		limits:      limits,
		started:     time.Now(),
		disk:        disk,
		locks:       &locks{disk: disk, logger: logger},
		handles:     &handles{limit: cfg.MaxOpenFiles, obs: obs},
		health:      health{obs: obs},
		compressor:  newCompressor(cfg.CompressionLevel),
		budget:      budget{limit: limits.queueBytes},
		stateLog:    newStateLog(),
		stop:        make(chan struct{}),
		interrupted: make(chan struct{}),
		ended:       make(chan struct{}),
		producers:   make(map[string]*producer),
		limitLog:    rate.NewLimiter(rate.Every(time.Minute), 1),
	}
	w.dir, w.name = splitBase(cfg.Base)
	w.listings = newListings(disk, w.dir, w.name)
	w.gate = newGate(w)
	w.family = newFamily(w)
	return w
}

// Start begins to work towards writing, and returns nil at once whatever the disk does (FIL-46).
func (w *Writer) Start() error {
	w.life.Lock()
	defer w.life.Unlock()
	if w.running || w.stopping {
		return nil
	}
	w.running = true
	go w.gate.run()
	go w.family.run()
	return nil
}

// Enqueue takes records of a Buffered writer into the queues of their producers. It never waits for the disk; what a queue
// can't hold is dropped and counted (FIL-47, FIL-48). The error says that shutdown began: then nothing was taken (FIL-65).
func (w *Writer) Enqueue(records []Record) error {
	w.life.RLock()
	if w.stopping {
		w.life.RUnlock()
		return errShutdown
	}
	dropped := w.enqueue(records)
	w.life.RUnlock()
	dropped.report(w.obs)
	return nil
}

// dropCounts defers the report of drops until no lock is held.
type dropCounts struct {
	queueFull, producerLimit int
}

func (d dropCounts) report(obs Observer) {
	if d.queueFull > 0 {
		obs.RowsDropped(DropQueueFull, d.queueFull)
	}
	if d.producerLimit > 0 {
		obs.RowsDropped(DropProducerLimit, d.producerLimit)
	}
}

func (w *Writer) enqueue(records []Record) (dropped dropCounts) {
	scratch := takeBuffer()
	defer func() { giveBuffer(scratch) }()
	var route router
	for i := range records {
		r := &records[i]
		scratch = appendRecord(scratch[:0], r)
		row := newRecordRow(r, scratch)
		for {
			p := route.find(w, r.Source.ProducerID)
			if p == nil {
				dropped.producerLimit++
				freeRow(row)
				break
			}
			n, err := p.enqueue(row)
			if err == nil {
				dropped.queueFull += n
				w.checkSource(p, &r.Source)
				break
			}
			route = router{} // p has retired
		}
	}
	return dropped
}

// router remembers the last producer: the records of a push mostly come in runs of one producer.
type router struct {
	id       string
	producer *producer
}

func (r *router) find(w *Writer, producerID string) *producer {
	if r.producer == nil || r.id != producerID {
		r.id, r.producer = producerID, w.produce(producerID)
	}
	return r.producer
}

func appendRecord(dst []byte, r *Record) []byte {
	return appendRowTail(dst, &Envelope{
		Source:             r.Source,
		CaptureMode:        r.CaptureMode,
		ObservedUnixMillis: r.ObservedUnixNano / uint64(time.Millisecond),
	}, r.Canonical)
}

func newRecordRow(r *Record, tail []byte) *row {
	row := newRow(tail)
	row.stream = newStreamKey(r.Worker, r.DPRank)
	row.counter, row.observed = r.CounterID, r.ObservedUnixNano
	row.payload = maphash.Bytes(payloadSeed, r.Canonical)
	return row
}

// Write writes records of a Flushed or Synced writer and returns when they have reached what the durability promises. It
// returns the indexes, in order, of those that were not written and have to come again, and why (FIL-58). An end of ctx is
// such a cause: a member that is being written then is taken back.
func (w *Writer) Write(ctx context.Context, records []Record) (unwritten []int, err error) {
	w.life.RLock()
	if w.stopping {
		w.life.RUnlock()
		return everyIndex(records), errShutdown
	}
	w.pushes.Add(1)
	w.life.RUnlock()
	defer w.pushes.Done()

	jobs, dropped := w.push(records)
	dropped.report(w.obs)
	var errs []error
	for _, j := range jobs {
		w.await(ctx, j)
		left, cause := j.outcome()
		unwritten = append(unwritten, left...)
		if cause != nil {
			errs = append(errs, cause)
		}
	}
	slices.Sort(unwritten)
	return unwritten, joinCauses(errs)
}

func everyIndex(records []Record) []int {
	all := make([]int, len(records))
	for i := range all {
		all[i] = i
	}
	return all
}

// joinCauses keeps the message short when many producers fail for the same reason.
func joinCauses(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return fmt.Errorf("%d producers failed, the first: %w", len(errs), errs[0])
	}
}

// push hands each producer its rows, encoded.
func (w *Writer) push(records []Record) (jobs []*job, dropped dropCounts) {
	scratch := takeBuffer()
	defer func() { giveBuffer(scratch) }()
	byPart := make(map[string]*job)
	for i := range records {
		r := &records[i]
		part := producerPart(r.Source.ProducerID)
		j := byPart[part]
		if j == nil {
			j = &job{source: r.Source, done: make(chan struct{})}
			byPart[part] = j
			jobs = append(jobs, j)
		}
		scratch = appendRecord(scratch[:0], r)
		j.add(newRecordRow(r, scratch), i, &r.Source)
	}
	accepted := jobs[:0]
	for _, j := range jobs {
		if w.submit(j) {
			accepted = append(accepted, j)
		} else {
			dropped.producerLimit += len(j.rows)
		}
	}
	return accepted, dropped
}

// submit returns false if there are too many producers.
func (w *Writer) submit(j *job) bool {
	for {
		p := w.produce(j.source.ProducerID)
		if p == nil {
			return false
		}
		w.checkSources(p, j)
		j.producer = p
		if p.submit(j) == nil {
			return true
		}
	}
}

// await returns when j is done or has been canceled.
func (w *Writer) await(ctx context.Context, j *job) {
	select {
	case <-j.done:
	case <-ctx.Done():
		j.cancel(context.Cause(ctx))
	case <-w.interrupted:
		w.awaitInterrupted(ctx, j)
	}
}

// awaitInterrupted leaves a push some time even now, since most often the disk is well. But it does not wait again for a
// producer that kept a push waiting before (FIL-64).
func (w *Writer) awaitInterrupted(ctx context.Context, j *job) {
	if before := j.producer.current.Load(); before != nil && before != j && before.isCanceled() {
		j.cancel(errStuck)
		return
	}
	timer := time.NewTimer(w.limits.interruptWait)
	defer timer.Stop()
	select {
	case <-j.done:
	case <-ctx.Done():
		j.cancel(context.Cause(ctx))
	case <-timer.C:
		j.cancel(errStuck)
	case <-w.stop:
		j.cancel(errStuck)
	}
}

// Interrupt makes every Write, those in progress and later ones, end soon even if the disk does not answer (FIL-64). What
// the disk does take in time is still written.
func (w *Writer) Interrupt() {
	w.interrupt.Do(func() { close(w.interrupted) })
}

func (w *Writer) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

func (w *Writer) elapsedMillis() uint64 {
	return uint64(time.Since(w.started) / time.Millisecond) //nolint:gosec // monotonic, so never negative
}
