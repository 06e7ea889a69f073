// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v7"
	"go.opentelemetry.io/collector/consumer/consumererror"

	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/fairqueue"
)

// Waits between attempts to hand on the same batch.
const (
	initialRetry = 50 * time.Millisecond
	maxRetry     = 5 * time.Second
)

// maxBatchBytes bounds the payloads of a batch beside batch::max_records: pdata takes
// many times the memory of what it is built from, and an endpoint with huge payloads must
// not hold up the records of the others.
const maxBatchBytes = 1 << 20

// drainTimeout bounds the hand-over at shutdown: the service gives no deadline,
// and a consumer that never returns must not keep the collector alive (FR-31).
const drainTimeout = 10 * time.Second

// item is what waits in a queue for its consumer.
type item interface {
	// drops are the totals of the endpoint it came from.
	drops() *drops
	// free gives it back to its pool; the last call.
	free()
}

// drops are items of an endpoint that left a queue and did not get through.
type drops struct {
	refused  atomic.Int64 // by the next consumer, for good
	shutdown atomic.Int64 // still waiting at the end
}

// delivery moves batches from a queue to a consumer, in order, from one
// goroutine. A batch that fails is tried again, while new items wait in the
// queue (COL-60).
type delivery[T item] struct {
	limits       fairqueue.Limits // of a batch
	timeout      time.Duration    // after which a smaller one goes
	queue        *fairqueue.Queue[T]
	consume      func(context.Context, []T) error
	initialRetry time.Duration

	// ctx is that of the consumer; its end gives up what is still to deliver.
	ctx    context.Context //nolint:containedctx // the run's own, not a caller's (COL-49)
	cancel context.CancelFunc
	stop   chan struct{} // closed: nothing new will come
	done   chan struct{}
	lost   int // valid once done is closed

	underWay atomic.Int64 // items of the batch that is being handed on
}

func newDelivery[T item](cfg *Config, retry time.Duration, consume func(context.Context, []T) error) *delivery[T] {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // shutdown cancels
	return &delivery[T]{
		limits:  fairqueue.Limits{Items: cfg.Batch.MaxRecords, Bytes: maxBatchBytes},
		timeout: cfg.Batch.Timeout,
		consume: consume, initialRetry: retry,
		queue: fairqueue.New(fairqueue.Limits{
			Items: cfg.Queue.MaxRecords,
			Bytes: int64(cfg.Queue.MaxBytes),
		}, T.free),
		ctx: ctx, cancel: cancel, stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (d *delivery[T]) run() {
	defer close(d.done)
	var items []T
	for d.queue.Wait(d.limits, d.timeout, d.stop) {
		items = d.deliver(items)
	}
	for {
		if waiting, _ := d.queue.Len(); waiting == 0 {
			return
		}
		items = d.deliver(items)
	}
}

// deliver hands on one batch, or counts why not. It uses the slice again.
func (d *delivery[T]) deliver(items []T) []T {
	items = d.queue.Pop(items[:0], d.limits)
	d.underWay.Store(int64(len(items)))
	err := d.retry(items)
	switch {
	case err == nil:
	case consumererror.IsPermanent(err):
		for _, i := range items {
			i.drops().refused.Add(1)
		}
	default:
		d.lost += len(items)
		for _, i := range items {
			i.drops().shutdown.Add(1)
		}
	}
	for _, i := range items {
		i.free()
	}
	clear(items)
	return items
}

func (d *delivery[T]) retry(items []T) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = d.initialRetry, maxRetry
	wait.Reset()
	for {
		err := d.consume(d.ctx, items)
		if err == nil || consumererror.IsPermanent(err) {
			return err
		}
		select {
		case <-d.ctx.Done():
			return errors.Join(d.ctx.Err(), err)
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// shutdown hands on what waits, within the deadline of ctx and drainTimeout,
// and gives up the rest. A consumer that ignores its context is left behind.
func (d *delivery[T]) shutdown(ctx context.Context) error {
	close(d.stop)
	deadline, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	select {
	case <-d.done:
	case <-deadline.Done():
	}
	d.cancel()
	select {
	case <-d.done:
	case <-time.After(time.Second):
		waiting, _ := d.queue.Len()
		return fmt.Errorf("a batch of %d records was not handed on in time: it and %d waiting records are lost", d.underWay.Load(), waiting)
	}
	if d.lost > 0 {
		return fmt.Errorf("%d records could not be handed on before the shutdown's deadline", d.lost)
	}
	return nil
}
