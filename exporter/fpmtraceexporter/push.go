// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// refusalLogInterval is the least time between two log lines about records that are no forward passes (COL-61).
const refusalLogInterval = time.Minute

var errInterrupted = errors.New("the disk did not take the records before the exporter had to shut down")

// writer is what a push hands its records to: a *tracefile.Writer.
type writer interface {
	Start() error
	Enqueue(records []tracefile.Record) error
	Write(ctx context.Context, records []tracefile.Record) (unwritten []int, err error)
	Interrupt()
	Shutdown(ctx context.Context) error
}

// pusher takes what the collector's queue hands out. It is safe for concurrent use: without a queue every pipeline
// pushes by itself.
type pusher struct {
	writer   writer
	buffered bool
	obs      *observer
	logger   *zap.Logger

	batches     sync.Pool
	warnings    sourceWarnings
	refusalLog  *rate.Limiter
	leftovers   leftovers
	running     stopwatch
	interrupted atomic.Bool
}

func newPusher(w writer, buffered bool, obs *observer, logger *zap.Logger) *pusher {
	return &pusher{
		writer:     w,
		buffered:   buffered,
		obs:        obs,
		logger:     logger,
		batches:    sync.Pool{New: func() any { return newBatch() }},
		warnings:   sourceWarnings{logger: logger},
		refusalLog: rate.NewLimiter(rate.Every(refusalLogInterval), 1),
	}
}

// push writes the forward passes of the logs, or queues them (buffered). Its error carries the records that were not
// written, and only these, to be tried again (FIL-58).
func (p *pusher) push(ctx context.Context, logs plog.Logs) error {
	p.running.start()
	defer p.running.stop()
	p.leftovers.retried(logs)

	b := p.batches.Get().(*batch)
	defer p.batches.Put(b)
	b.fill(logs)
	defer b.release()

	p.countRefused(b.refused)
	p.warnings.check(b.records)
	if p.buffered {
		return p.writer.Enqueue(b.records)
	}
	return p.write(ctx, logs, b)
}

func (p *pusher) write(ctx context.Context, logs plog.Logs, b *batch) error {
	unwritten, err := p.tryWrite(ctx, b.records)
	if err == nil {
		return nil
	}
	rest := remainder(logs, b.origins, unwritten)
	p.leftovers.set(rest, len(unwritten))
	return consumererror.NewLogs(err, rest)
}

func (p *pusher) tryWrite(ctx context.Context, records []tracefile.Record) (unwritten []int, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	if p.interrupted.Load() {
		return indexes(len(records)), errInterrupted
	}
	return p.writer.Write(ctx, records)
}

// interrupt cancels the write that is stuck and all later ones (FIL-64).
func (p *pusher) interrupt() {
	p.interrupted.Store(true)
	p.writer.Interrupt()
}

func (p *pusher) countRefused(refused refusals) {
	if refused.n == 0 {
		return
	}
	p.obs.RowsDropped(tracefile.DropNotFPM, refused.n)
	if p.refusalLog.Allow() {
		p.logger.Warn("Dropped log records that are no valid forward passes; this exporter writes nothing else. "+
			"Further ones are counted in otelcol_fpm_trace_exporter_rows_dropped and logged once a minute.",
			zap.Int("records", refused.n), zap.NamedError("reason", refused.err))
	}
}

// stopwatch says for how long a push has been running.
type stopwatch struct {
	mu      sync.Mutex
	running int
	since   time.Time // of the first of those that overlap
}

func (s *stopwatch) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == 0 {
		s.since = time.Now()
	}
	s.running++
}

func (s *stopwatch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// elapsed is 0 when none is running.
func (s *stopwatch) elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == 0 {
		return 0
	}
	return time.Since(s.since)
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
