// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// pacer says when a record is due. It keeps a schedule and not a distance: what
// comes late does not delay what follows, so the mean rate is exact.
type pacer struct {
	start time.Time
	rate  float64 // records a second; 0: by the engine's clock
	speed float64 // engine seconds a second; 0: everything is due at once
	sent  int64
	life  time.Duration // start of the engine's present life, since start
	last  time.Duration // due time of the last record, since start
	timer *time.Timer
}

func newPacer(o *options, start time.Time) *pacer {
	p := &pacer{start: start, timer: time.NewTimer(0)}
	switch {
	case o.passesPerSecond > 0:
		p.rate, p.speed = o.passesPerSecond, 1
	case !o.bench:
		p.speed = o.speed
	}
	return p
}

// wait blocks until the record that the engine published at the given time of
// its clock is due; false: the context ended first.
func (p *pacer) wait(ctx context.Context, at time.Duration) bool {
	if p.speed == 0 {
		return ctx.Err() == nil
	}
	p.last = p.due(at)
	p.sent++
	delay := time.Until(p.start.Add(p.last))
	if delay <= 0 {
		return ctx.Err() == nil
	}
	p.timer.Reset(delay)
	select {
	case <-p.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pacer) due(at time.Duration) time.Duration {
	if p.rate > 0 {
		return time.Duration(float64(p.sent) * float64(time.Second) / p.rate)
	}
	return p.life + time.Duration(float64(at)/p.speed)
}

// restart begins a new life of the engine now, or at the last record's time if
// that is later.
func (p *pacer) restart() {
	p.life = max(p.last, time.Since(p.start))
}

func (p *pacer) stop() { p.timer.Stop() }
