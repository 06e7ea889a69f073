// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"errors"
	"time"
)

const (
	// shutdownLimit bounds Shutdown when its context has no deadline, as in the collector's own service. It is below
	// the 30 s after which orchestrators kill.
	shutdownLimit = 20 * time.Second

	// stuckAfter is how long one push may take while the exporter shuts down. A healthy disk takes milliseconds.
	stuckAfter = 5 * time.Second

	// leaveWait is how long callers that are already inside have to hand over their records. Those that take longer wait
	// for room in the queue or for a retry, and the helper's shutdown ends that.
	leaveWait = time.Second

	// minFailTime is what a queue whose pushes are cancelled gets to fail the rest, even if no time is left. It only has
	// to count.
	minFailTime = 200 * time.Millisecond

	// watchInterval is how often a push is looked at.
	watchInterval = 50 * time.Millisecond
)

var errQueueStuck = errors.New("the queue of the exporter did not end in time")

// Shutdown writes what was accepted and ends (FIL-63). The queue is drained first; a push that is stuck on the disk, and
// with it the rest of the queue, is canceled, and what is lost is counted (FIL-64). The second call does nothing.
func (e *traceExporter) Shutdown(ctx context.Context) error {
	left, first := e.gate.close()
	if !first {
		return nil
	}
	e.obs.detach()
	e.pusher.leftovers.close()
	ctx, cancel := limited(ctx)
	defer cancel()
	err := errors.Join(
		e.drain(ctx, left),
		e.pusher.writer.Shutdown(ctx),
	)
	e.pusher.leftovers.end()
	e.obs.close()
	return err
}

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, shutdownLimit)
}

// drain shuts the helper down, which writes what is in its queue. Three quarters of the time are for pushes that succeed;
// what is left is for canceling them and for the writer.
func (e *traceExporter) drain(ctx context.Context, left <-chan struct{}) error {
	ended := make(chan error, 1)
	go func() { ended <- e.endHelper(ctx, left) }()
	if err, ok := e.await(ended, remaining(ctx)*3/4); ok {
		return err
	}
	return e.cancelPushes(ended, max(remaining(ctx)/2, minFailTime))
}

// endHelper waits for the callers inside, so that none of them puts records into a queue that has ended.
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

// await is not ok when a push is stuck or the time is over.
func (e *traceExporter) await(ended <-chan error, timeout time.Duration) (result error, ok bool) {
	over := time.After(timeout)
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for e.pusher.running.elapsed() < stuckAfter {
		select {
		case err := <-ended:
			return err, true
		case <-over:
			return nil, false
		case <-ticks.C:
		}
	}
	return nil, false
}

// cancelPushes makes the push that is stuck and all that wait behind it fail. It does so again and again: a push that was
// just about to write must not miss it.
func (e *traceExporter) cancelPushes(ended <-chan error, timeout time.Duration) error {
	over := time.After(timeout)
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		e.pusher.interrupt()
		select {
		case err := <-ended:
			return errors.Join(errInterrupted, err)
		case <-over:
			return errors.Join(errInterrupted, errQueueStuck)
		case <-ticks.C:
		}
	}
}

// remaining is the time to the deadline, which limited made sure of.
func remaining(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline)
}
