// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"errors"
	"time"
)

const (
	// leaveWait is how long callers that are already inside have to hand over their records. Those that take longer wait
	// for room in the queue or for a retry, and the helper's shutdown ends that.
	leaveWait = time.Second

	// minFailTime is what a queue whose pushes are canceled gets to fail the rest, even if no time is left. It only has to
	// count.
	minFailTime = 200 * time.Millisecond
)

var (
	errCanceled   = errors.New("the disk did not take all records before the shutdown had to end")
	errQueueStuck = errors.New("the queue of the exporter did not end in time")
)

// Shutdown writes what was accepted and ends (FIL-63). The queue is drained first, then the files are closed. Nothing makes
// it hang (FIL-64): a push that is stuck on the disk is interrupted before the helper waits for it, and if the time runs
// out, the rest of the queue is given up; what is lost is counted. The second call does nothing.
func (e *traceExporter) Shutdown(ctx context.Context) error {
	left, first := e.gate.close()
	if !first {
		return nil
	}
	e.obs.detach()
	e.pusher.leftovers.close()
	e.pusher.writer.Interrupt()
	err := errors.Join(
		e.drain(ctx, left),
		e.pusher.writer.Shutdown(ctx),
	)
	e.pusher.leftovers.end()
	e.obs.close()
	return err
}

// drain shuts the helper down, which pushes what is in its queue. Three quarters of the time are for pushes that succeed,
// what is left is for canceling the others and for the writer. Without a deadline, as in the collector's own service, the
// writer's interrupt alone ends pushes that get nowhere.
func (e *traceExporter) drain(ctx context.Context, left <-chan struct{}) error {
	ended := make(chan error, 1)
	go func() { ended <- e.endHelper(ctx, left) }()
	pushing, cancel := firstPart(ctx)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-pushing.Done():
		return e.cancelPushes(ended, remaining(ctx)/2)
	}
}

// firstPart is the time for pushes that succeed.
func firstPart(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, remaining(ctx)*3/4)
	}
	return context.WithCancel(ctx)
}

// remaining is 0 without a deadline.
func remaining(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline)
}

// endHelper first waits for the callers inside, so that none of them puts records into a queue that has ended.
func (e *traceExporter) endHelper(ctx context.Context, left <-chan struct{}) error {
	select {
	case <-left:
	case <-time.After(leaveWait):
	case <-ctx.Done():
	}
	err := e.Logs.Shutdown(ctx)
	<-left
	return err
}

// cancelPushes makes the push in progress and all that wait behind it fail.
func (e *traceExporter) cancelPushes(ended <-chan error, timeout time.Duration) error {
	e.pusher.cancel(errCanceled)
	select {
	case err := <-ended:
		return errors.Join(errCanceled, err)
	case <-time.After(max(timeout, minFailTime)):
		return errors.Join(errCanceled, errQueueStuck)
	}
}
