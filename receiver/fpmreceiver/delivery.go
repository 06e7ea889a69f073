// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v7"
	"go.opentelemetry.io/collector/consumer/consumererror"
)

// Waits between attempts to hand on the same batch.
const (
	initialRetry = 50 * time.Millisecond
	maxRetry     = 5 * time.Second
)

// drainTimeout bounds the hand-over at shutdown: the service gives no deadline,
// and a consumer that never returns must not keep the collector alive (FR-31).
const drainTimeout = 10 * time.Second

// delivery moves batches from a queue to a consumer, in order, from one
// goroutine. A batch that fails is tried again, while new records wait in the
// queue (COL-60).
type delivery struct {
	batch        BatchConfig
	queue        *recordQueue
	consume      func(context.Context, []*record) error
	initialRetry time.Duration

	// ctx is that of the consumer; its end gives up what is still to deliver.
	ctx    context.Context //nolint:containedctx // the run's own, not a caller's (COL-49)
	cancel context.CancelFunc
	stop   chan struct{} // closed: no new records will come
	done   chan struct{}
	lost   int // valid once done is closed
}

func newDelivery(batch BatchConfig, queue *recordQueue, consume func(context.Context, []*record) error) *delivery {
	ctx, cancel := context.WithCancel(context.Background())
	return &delivery{
		batch: batch, queue: queue, consume: consume,
		ctx: ctx, cancel: cancel, stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (d *delivery) run() {
	defer close(d.done)
	var records []*record
	for d.queue.Wait(d.batch.MaxRecords, d.batch.Timeout, d.stop) {
		records = d.queue.Pop(records[:0], d.batch.MaxRecords)
		d.deliver(records)
	}
	for records = d.queue.Pop(records[:0], d.batch.MaxRecords); len(records) > 0; records = d.queue.Pop(records[:0], d.batch.MaxRecords) {
		d.deliver(records)
	}
}

// deliver hands on one batch, or counts why not. It returns early only when
// the run is given up.
func (d *delivery) deliver(records []*record) {
	err := d.retry(records)
	switch {
	case err == nil:
	case consumererror.IsPermanent(err):
		for _, r := range records {
			r.from.logs.drops.refused.Add(1)
		}
	default:
		d.lost += len(records)
		for _, r := range records {
			r.from.logs.drops.shutdown.Add(1)
		}
	}
	for i, r := range records {
		freeRecord(r)
		records[i] = nil
	}
}

func (d *delivery) retry(records []*record) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = d.initialRetry, maxRetry
	wait.Reset()
	for {
		err := d.consume(d.ctx, records)
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
func (d *delivery) shutdown(ctx context.Context) error {
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
		return fmt.Errorf("the next consumer did not return: its batch and %d waiting records are lost", waiting)
	}
	if d.lost > 0 {
		return fmt.Errorf("%d records could not be handed on before the shutdown's deadline", d.lost)
	}
	return nil
}
