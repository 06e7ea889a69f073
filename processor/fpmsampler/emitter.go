// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// logEvery bounds the log lines about lost forward passes; the metrics count
// every one.
const logEvery = time.Minute

// emitter sends the samples of each tick, one batch at a time, from one
// goroutine. Arrivals never wait for it.
type emitter[T item[T]] struct {
	state    *state[T]
	send     func(ctx context.Context, batch []outgoing[T]) error // batch is in key order; its items may be moved
	recorder recorder
	logger   *zap.Logger
	complain rate.Sometimes

	cancel context.CancelFunc   // of the emissions before the shutdown; nil without start
	last   chan context.Context // gives the context of the last emissions, once
	done   chan struct{}        // closed when the goroutine has ended
	once   sync.Once            // of the shutdown, whose result is err
	err    error
}

func newEmitter[T item[T]](s *state[T], r recorder, logger *zap.Logger, send func(context.Context, []outgoing[T]) error) *emitter[T] {
	return &emitter[T]{
		state:    s,
		send:     send,
		recorder: r,
		logger:   logger,
		complain: rate.Sometimes{First: 1, Interval: logEvery},
		last:     make(chan context.Context, 1),
		done:     make(chan struct{}),
	}
}

func (e *emitter[T]) start() {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // called by stop
	e.cancel = cancel
	now := time.Now()
	e.state.start(now)
	go e.run(ctx)
}

// run serves ticks until the shutdown.
func (e *emitter[T]) run(ctx context.Context) {
	defer close(e.done)
	timer := time.NewTimer(e.state.untilTick(time.Now()))
	defer timer.Stop()
	for {
		last := e.wait(timer)
		if last != nil {
			e.emitLast(last) //nolint:contextcheck // its deadline is that of the shutdown
			return
		}
		e.emitTick(ctx)
		timer.Reset(e.state.untilTick(time.Now()))
	}
}

// wait returns at the next tick, or with the context of the last emission. When
// both are there the shutdown goes first (SMP-12).
func (e *emitter[T]) wait(timer *time.Timer) context.Context {
	select {
	case last := <-e.last:
		return last
	case <-timer.C:
	}
	select {
	case last := <-e.last:
		return last
	default:
		return nil
	}
}

func (e *emitter[T]) emitTick(ctx context.Context) {
	batch, t := e.state.fetchTick(time.Now())
	e.recorder.record(ctx, t)
	e.emit(ctx, batch)
}

// emitLast sends every pending sample once (SMP-15): those of a tick that was
// served but not yet fetched, then the rest.
func (e *emitter[T]) emitLast(ctx context.Context) {
	for batch := e.state.fetchLast(); len(batch) > 0; batch = e.state.fetchLast() {
		e.emit(ctx, batch)
	}
}

// emit sends one batch in key order (SMP-11) and settles it. An ended ctx means
// that the deadline of the shutdown has passed: nothing is sent any more.
func (e *emitter[T]) emit(ctx context.Context, batch []outgoing[T]) {
	if len(batch) == 0 {
		return
	}
	slices.SortFunc(batch, func(a, b outgoing[T]) int { return a.entry.key.compare(b.entry.key) })
	err := ctx.Err()
	if err == nil {
		err = e.send(ctx, batch)
	}
	e.recorder.record(ctx, e.state.settle(batch, outcomeOf(ctx, err)))
	e.warn(err, len(batch))
}

func outcomeOf(ctx context.Context, err error) outcome {
	switch {
	case err == nil:
		return accepted
	case ctx.Err() != nil:
		return cutOff
	default:
		return refused
	}
}

func (e *emitter[T]) warn(err error, n int) {
	if err == nil {
		return
	}
	e.complain.Do(func() {
		e.logger.Warn("The next component did not accept the forward passes of a tick; they are dropped and counted. Similar errors are not logged for a minute",
			zap.Int("records", n), zap.Error(err))
	})
}

// shutdown sends what is pending and ends the goroutine. When ctx ends first,
// the emission under way is canceled, what was not accepted is counted and the
// error of ctx returned; a next component that ignores its context keeps the
// goroutine until it returns. Safe without start and when called twice.
func (e *emitter[T]) shutdown(ctx context.Context) error {
	e.once.Do(func() { e.err = e.stop(ctx) })
	return e.err
}

func (e *emitter[T]) stop(ctx context.Context) error {
	if e.cancel != nil {
		e.last <- ctx
		select {
		case <-e.done:
		case <-ctx.Done():
		}
		e.cancel()
	}
	unsent, t := e.state.release()
	e.recorder.record(ctx, t)
	if unsent > 0 && ctx.Err() != nil {
		return fmt.Errorf("%d forward passes were not sent before the shutdown deadline: %w", unsent, ctx.Err())
	}
	return nil
}
