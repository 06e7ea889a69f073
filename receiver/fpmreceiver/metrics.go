// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// metricsSignal emits the totals of all streams once an interval. It keeps no
// queue: totals are cumulative, so that what a consumer refuses the next emission
// makes good.
type metricsSignal struct {
	next         consumer.Metrics
	obs          *receiverhelper.ObsReport
	logger       *zap.Logger
	scopeVersion string
	interval     time.Duration
	cfg          *fpmpdata.MetricsConfig
	publishers   func() []*publisher
	start        time.Time

	mu      sync.Mutex
	streams map[*fpmpdata.StreamMetrics]struct{}

	ctx    context.Context //nolint:containedctx // the run's own, not a caller's (COL-49)
	cancel context.CancelFunc
	done   chan struct{}
}

// newMetricsSignal is part of Start: it holds what a run needs.
func newMetricsSignal(r *fpmReceiver) *metricsSignal {
	ctx, cancel := context.WithCancel(context.Background())
	return &metricsSignal{
		next:         r.nextMetrics,
		obs:          r.obs,
		logger:       r.settings.Logger,
		scopeVersion: r.settings.BuildInfo.Version,
		interval:     r.cfg.Metrics.Interval,
		cfg: &fpmpdata.MetricsConfig{
			IdleAfter: r.cfg.Metrics.IdleAfter, StaleAfter: r.cfg.Metrics.StaleAfter,
			Buckets: r.cfg.Metrics.Buckets, Exponential: r.cfg.Metrics.Histogram == histogramExponential,
		},
		publishers: func() []*publisher { return r.publishers },
		start:      time.Now(),
		streams:    make(map[*fpmpdata.StreamMetrics]struct{}),
		ctx:        ctx, cancel: cancel, done: make(chan struct{}),
	}
}

// newStream begins the metrics of a stream; nil when no pipeline wants them.
func (s *metricsSignal) newStream(worker *fpmpdata.Worker, dpRank int64, at time.Time) *fpmpdata.StreamMetrics {
	if s == nil {
		return nil
	}
	m := fpmpdata.NewStreamMetrics(s.cfg, worker, dpRank, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[m] = struct{}{}
	return m
}

// rename lets a stream's totals go on under another name.
func (s *metricsSignal) rename(m *fpmpdata.StreamMetrics, worker *fpmpdata.Worker) *fpmpdata.StreamMetrics {
	if s == nil || m == nil {
		return nil
	}
	renamed := m.Rename(worker)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[renamed] = struct{}{}
	if m.Done() {
		delete(s.streams, m)
	}
	return renamed
}

// forget ends a stream that lost its state. One that was never emitted goes at
// once, so that endless new workers cost nothing between two emissions.
func (s *metricsSignal) forget(m *fpmpdata.StreamMetrics) {
	if s == nil || m == nil {
		return
	}
	m.Forget()
	if m.Done() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, m)
	}
}

func (s *metricsSignal) run() {
	defer close(s.done)
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			if err := s.emit(s.ctx, false); err != nil && s.ctx.Err() == nil {
				s.logger.Debug("Metrics were refused; the next emission makes good", zap.Error(err))
			}
		}
	}
}

// emit sends the totals of all streams and endpoints. At the end every series
// gets its last point, without a value (COL-93).
func (s *metricsSignal) emit(ctx context.Context, end bool) error {
	live, over, now := s.split(end)
	builder := fpmpdata.NewMetricsBuilder(metadata.ScopeName, s.scopeVersion, now)
	for _, p := range s.publishers() {
		builder.AddEndpoint(p.state(s.start), end)
	}
	// Series that end come first: another stream may have taken over their name.
	for _, m := range append(over, live...) {
		builder.AddStream(m, now, end)
	}
	metrics := builder.Metrics()
	points := metrics.DataPointCount()
	ctx = s.obs.StartMetricsOp(ctx)
	err := s.next.ConsumeMetrics(ctx, metrics)
	s.obs.EndMetricsOp(ctx, dataFormat, points, err)
	if err == nil {
		builder.Commit()
	} else {
		builder.Abandon()
	}
	s.removeDone()
	return err
}

// split gives the streams of an emission and its moment. No stream in it starts
// later than that: one joins under the lock, after its first record (COL-92).
func (s *metricsSignal) split(end bool) (live, over []*fpmpdata.StreamMetrics, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = time.Now()
	for m := range s.streams {
		if end || m.Over(now) {
			over = append(over, m)
		} else {
			live = append(live, m)
		}
	}
	return live, over, now
}

func (s *metricsSignal) removeDone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.streams {
		if m.Done() {
			delete(s.streams, m)
		}
	}
}

// shutdown emits the last totals and the end of every series, within the
// deadline of ctx and drainTimeout.
func (s *metricsSignal) shutdown(ctx context.Context) error {
	s.cancel()
	deadline, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	emitted := make(chan error, 1)
	go func() {
		<-s.done
		if err := s.emit(deadline, false); err != nil {
			emitted <- err
			return
		}
		emitted <- s.emit(deadline, true)
	}()
	var err error
	select {
	case err = <-emitted:
	case <-deadline.Done():
		select {
		case err = <-emitted:
		case <-time.After(returnTimeout):
			err = deadline.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("the last metrics could not be handed on: %w", err)
	}
	return nil
}
