// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"context"
	"fmt"
	"time"
)

// Shutdown stops taking anything in, writes what the queues hold, closes the files and gives the locks back (FIL-63). It
// ends with ctx, or, if that has no deadline, when the disk has made no progress for a while (FIL-64); the rows that were
// given up are counted, and the error says how many they are. It may be called twice, and without Start.
func (w *Writer) Shutdown(ctx context.Context) error {
	w.life.Lock()
	again, running := w.stopping, w.running
	w.stopping = true
	w.life.Unlock()
	if again {
		<-w.ended
		return nil
	}
	defer close(w.ended)
	ctx, cancel := w.patience(ctx)
	defer cancel()

	w.endPushes(ctx)
	close(w.stop)
	if running {
		await(ctx, w.gate.done)
	} else {
		w.gate.set(gateEnded, errShutdown)
	}
	stuck := w.awaitProducers(ctx)
	w.abandon(stuck)
	if running {
		await(ctx, w.family.done)
	}
	w.gate.release()
	return w.shutdownError(len(stuck))
}

// patience is ctx, with an end if it has none.
func (w *Writer) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(w.limits.stuckAfter)
		defer ticker.Stop()
		for before := w.progress.Load(); ; before = w.progress.Load() {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if w.progress.Load() == before {
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

// endPushes lets those in progress end, but not wait for ever.
func (w *Writer) endPushes(ctx context.Context) {
	w.Interrupt()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.pushes.Wait()
	}()
	await(ctx, done)
}

// awaitProducers returns those that did not end.
func (w *Writer) awaitProducers(ctx context.Context) (stuck []*producer) {
	for _, p := range w.everyProducer() {
		// One that kept a push waiting before holds no rows of its own, so there is nothing to wait for.
		if j := p.current.Load(); j != nil && j.isCanceled() || !await(ctx, p.done) {
			stuck = append(stuck, p)
		}
	}
	return stuck
}

func (w *Writer) abandon(stuck []*producer) {
	for _, p := range stuck {
		if lost := p.abandon(); lost > 0 {
			w.lost.Add(int64(lost))
			w.obs.RowsDropped(DropShutdown, lost)
			p.summarize()
		}
	}
}

func (w *Writer) shutdownError(stuck int) error {
	lost := w.lost.Load()
	switch {
	case lost > 0 && stuck > 0:
		return fmt.Errorf("%d rows were not written: %w", lost, errStuck)
	case lost > 0:
		return fmt.Errorf("%d rows were not written, see the log for the cause", lost)
	case stuck > 0:
		return fmt.Errorf("%d producers are still waiting for the disk: %w", stuck, errStuck)
	default:
		return nil
	}
}

// await waits for done, and says whether it came before the end of ctx.
func await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
