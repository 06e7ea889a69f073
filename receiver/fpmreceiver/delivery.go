// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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

// batchLimits are those of a batch. It goes when half of the queue's bytes wait, or a
// small queue would run full, and drop, while its consumer waits for more.
func batchLimits(cfg *Config) fairqueue.Limits {
	return fairqueue.Limits{
		Items: cfg.Batch.MaxRecords,
		Bytes: min(maxBatchBytes, max(1, int64(cfg.Queue.MaxBytes)/2)),
	}
}

// drainTimeout bounds the hand-over at shutdown: the service gives no deadline,
// and a consumer that never returns must not keep the collector alive (FR-31).
const drainTimeout = 10 * time.Second

// returnTimeout is how long a consumer whose context has ended may take to return.
const returnTimeout = time.Second

// item is what waits in a queue for its consumer.
type item interface {
	// drops are the totals of the endpoint it came from.
	drops() *drops
	// free gives it back to its pool; the last call.
	free()
}

// delivery moves batches from a queue to a consumer, in order, from one
// goroutine. A batch that fails is tried again, while new items wait in the
// queue (COL-60).
type delivery[T item] struct {
	limits       fairqueue.Limits // of a batch
	timeout      time.Duration    // after which a smaller one goes
	queue        *fairqueue.Queue[T]
	consume      func(context.Context, []T) error
	items        string // what errors call them
	initialRetry time.Duration

	// ctx is that of the consumer; its end gives up what is still to deliver.
	ctx    context.Context //nolint:containedctx // the run's own, not a caller's (COL-49)
	cancel context.CancelFunc
	stop   chan struct{} // closed: nothing new will come
	done   chan struct{}

	// mu makes an item's end one step for the run and a shutdown that no longer
	// waits for it: no item is counted twice or not at all.
	mu        sync.Mutex
	batch     []T // being handed on
	lost      int // given up by the shutdown
	abandoned bool
}

func newDelivery[T item](cfg *Config, retry time.Duration, items string, consume func(context.Context, []T) error) *delivery[T] {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // shutdown cancels
	return &delivery[T]{
		limits:  batchLimits(cfg),
		timeout: cfg.Batch.Timeout,
		consume: consume, items: items, initialRetry: retry,
		queue: fairqueue.New(fairqueue.Limits{
			Items: cfg.Queue.MaxRecords,
			Bytes: int64(cfg.Queue.MaxBytes),
		}, giveWay[T]),
		ctx: ctx, cancel: cancel, stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func giveWay[T item](i T) {
	i.drops().queueFull.Add(1)
	i.free()
}

func (d *delivery[T]) run() {
	defer close(d.done)
	for d.queue.Wait(d.limits, d.timeout, d.stop) {
		d.deliver()
	}
	for d.deliver() {
	}
}

// deliver hands on one batch and tells whether there was any.
func (d *delivery[T]) deliver() bool {
	items := d.take()
	if len(items) == 0 {
		return false
	}
	d.settle(d.retry(items))
	return true
}

// take begins a batch. It stays as it is until settle.
func (d *delivery[T]) take() []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batch = d.queue.Pop(d.batch[:0], d.limits)
	return d.batch
}

// settle ends the batch: it got through, or the reason why not is counted.
func (d *delivery[T]) settle(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.abandoned:
		return
	case err == nil:
	case consumererror.IsPermanent(err):
		for _, i := range d.batch {
			i.drops().refused.Add(1)
		}
	default:
		d.lose(d.batch)
	}
	for _, i := range d.batch {
		i.free()
	}
	clear(d.batch)
	d.batch = d.batch[:0]
}

// lose counts what the shutdown gives up; mu is held.
func (d *delivery[T]) lose(items []T) {
	d.lost += len(items)
	for _, i := range items {
		i.drops().shutdown.Add(1)
	}
}

// abandon leaves a consumer behind that doesn't return. The batch that it holds
// counts as lost whatever becomes of it, because nobody will be there to see; so does
// what waits.
func (d *delivery[T]) abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.abandoned = true
	d.lose(d.batch)
	d.lose(d.queue.Pop(nil, fairqueue.Limits{Items: math.MaxInt, Bytes: math.MaxInt64}))
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
	case <-time.After(returnTimeout):
		d.abandon()
	}
	return d.loss()
}

func (d *delivery[T]) loss() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost == 0 {
		return nil
	}
	err := fmt.Errorf("%d %s could not be handed on before the shutdown's deadline", d.lost, d.items)
	if d.abandoned {
		return fmt.Errorf("%w: the next component has not returned", err)
	}
	return err
}
