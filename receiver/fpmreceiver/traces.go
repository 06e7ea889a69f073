// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver/receiverhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/fairqueue"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// span is a pass or a window on its way to the traces.
type span struct {
	fpmpdata.Span
	source  *tracesSource
	metrics *fpmpdata.StreamMetrics // gets an exemplar once the span is out; may be nil
}

var _ item = (*span)(nil)

// spanSize is what a span takes of a queue's bytes.
const spanSize = 512

var spanPool = sync.Pool{New: func() any { return new(span) }}

func newSpan() *span {
	s, _ := spanPool.Get().(*span)
	return s
}

func (s *span) drops() *drops { return s.source.drops }

func (s *span) free() {
	*s = span{}
	spanPool.Put(s)
}

// tracesSignal hands spans to the traces pipeline.
type tracesSignal struct {
	next     consumer.Traces
	obs      *receiverhelper.ObsReport
	cfg      *fpmpdata.TracesConfig
	builder  *fpmpdata.TracesBuilder
	delivery *delivery[*span]
}

// newTracesSignal is part of Start: it holds what a run needs.
func newTracesSignal(r *fpmReceiver) *tracesSignal {
	s := &tracesSignal{
		next: r.nextTraces,
		obs:  r.obs,
		cfg: &fpmpdata.TracesConfig{
			Window: r.cfg.Traces.Window, MaxSpans: r.cfg.Traces.MaxSpans, MinDuration: r.cfg.Traces.MinDuration,
		},
		builder: fpmpdata.NewTracesBuilder(metadata.ScopeName, r.settings.BuildInfo.Version),
	}
	s.delivery = newDelivery(r.cfg, r.retry, "spans", s.consume)
	return s
}

func (s *tracesSignal) consume(ctx context.Context, spans []*span) error {
	for _, sp := range spans {
		s.builder.Append(&sp.Span)
	}
	ctx = s.obs.StartTracesOp(ctx)
	err := s.next.ConsumeTraces(ctx, s.builder.Take())
	s.obs.EndTracesOp(ctx, dataFormat, len(spans), err)
	if err == nil {
		offerExemplars(spans)
	}
	return err
}

// offerExemplars makes exemplars of spans that are out: one never points to a
// span that a full queue or a consumer dropped (COL-109).
func offerExemplars(spans []*span) {
	for _, s := range spans {
		if s.metrics == nil || s.Root != nil {
			continue
		}
		s.metrics.Offer(&s.Span)
	}
}

// tracesSource is an endpoint's way into the traces; nil when no pipeline wants
// them.
type tracesSource struct {
	signal *tracesSignal
	queue  *fairqueue.Source[*span]
	drops  *drops

	// mu keeps a window's root behind its passes: the endpoint's supervisor adds
	// passes, the sweep closes windows.
	mu      sync.Mutex
	streams map[*streamState]struct{}
}

// newSource lets an endpoint send; what is lost on the way is added to its counts.
func (s *tracesSignal) newSource(c *counts) *tracesSource {
	if s == nil {
		return nil
	}
	c.traces = new(drops)
	return &tracesSource{
		signal: s, queue: s.delivery.queue.NewSource(), drops: c.traces,
		streams: make(map[*streamState]struct{}),
	}
}

func (s *tracesSource) push(p *publisher, state *streamState, receivedAt time.Time) {
	if s == nil || state.traces == nil || !state.traces.Wants(&p.pass) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[state] = struct{}{}
	id, closed := state.traces.Add(&p.pass, receivedAt)
	s.pushRoot(p, state, closed)
	sp := newSpan()
	sp.SetPass(&p.pass, id, receivedAt)
	sp.metrics = state.metrics
	s.send(p, state, sp)
}

// closeWindows sends the roots of windows that are over by now, or of all.
func (s *tracesSource) closeWindows(p *publisher, now time.Time, all bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for state := range s.streams {
		if all {
			s.pushRoot(p, state, state.traces.Close())
		} else {
			s.pushRoot(p, state, state.traces.Expire(now))
		}
	}
}

// forget sends the root of a stream's open window and lets go of the stream.
func (s *tracesSource) forget(p *publisher, state *streamState) {
	if s == nil || state.traces == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushRoot(p, state, state.traces.Close())
	delete(s.streams, state)
}

func (s *tracesSource) pushRoot(p *publisher, state *streamState, closed *fpmpdata.Window) {
	if closed == nil {
		return
	}
	root := newSpan()
	root.Root, root.DPRank = closed, closed.DPRank
	s.send(p, state, root)
}

func (s *tracesSource) send(p *publisher, state *streamState, sp *span) {
	sp.Worker, sp.source = state.worker, s
	sp.ServerAddress, sp.ServerPort = p.serverAddress, p.serverPort
	s.queue.Push(sp, spanSize)
}
