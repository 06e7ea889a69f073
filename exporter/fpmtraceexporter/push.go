// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// refusalLogInterval is the least time between two log lines about records that are no forward passes (COL-61).
const refusalLogInterval = time.Minute

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

	batches    sync.Pool
	refusalLog *rate.Limiter
	leftovers  leftovers

	writing context.Context // its end is that of all pushes
	cancel  context.CancelCauseFunc
}

func newPusher(w writer, buffered bool, obs *observer, logger *zap.Logger) *pusher {
	writing, cancel := context.WithCancelCause(context.Background())
	return &pusher{
		writer:     w,
		buffered:   buffered,
		obs:        obs,
		logger:     logger,
		batches:    sync.Pool{New: func() any { return newBatch() }},
		refusalLog: rate.NewLimiter(rate.Every(refusalLogInterval), 1),
		writing:    writing,
		cancel:     cancel,
	}
}

// push writes the forward passes of the logs, or queues them (buffered). Its error carries the records that were not
// written, and only these, to be tried again (FIL-58).
func (p *pusher) push(ctx context.Context, logs plog.Logs) error {
	p.leftovers.retried(logs)

	b := p.batches.Get().(*batch)
	defer p.batches.Put(b)
	b.fill(logs)
	defer b.release()

	p.countRefused(b.refused) //nolint:contextcheck // counters need no context
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
	ctx, end := p.cancelable(ctx)
	defer end()
	if ctx.Err() != nil {
		return indexes(len(records)), context.Cause(ctx)
	}
	return p.writer.Write(ctx, records)
}

// cancelable ends ctx when all pushes have to end.
func (p *pusher) cancelable(ctx context.Context) (context.Context, func()) {
	all := p.writing
	if all.Err() != nil {
		return all, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(all, func() { cancel(context.Cause(all)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
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

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
