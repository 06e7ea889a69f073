// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

func newTraces(set processor.Settings, cfg *Config, next consumer.Traces) (processor.Traces, error) {
	if cfg.captureMode() == fpmpdata.CaptureModeFull {
		r, err := newRecorder(set.TelemetrySettings)
		return &fullTraces{passer: passer{recorder: r}, next: next}, err
	}
	s := &sampledTraces{next: next}
	var err error
	s.sampler, err = newSampler(set, cfg, ptrace.NewSpan, s.send)
	return s, err
}

// sampledTraces samples spans.
type sampledTraces struct {
	*sampler[ptrace.Span]
	next consumer.Traces
}

// ConsumeTraces keeps the forward passes for their tick and sends all else on at
// once (SMP-23). Its error can only concern the rest: a sender that repeats the
// batch finds its forward passes replaced or suppressed.
func (s *sampledTraces) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	var passes, others int
	s.ingest(ctx, func(in *intake[ptrace.Span]) {
		passes, others = intakeTraces(in, td)
	})
	switch {
	case passes == 0:
		return s.next.ConsumeTraces(ctx, td)
	case others == 0:
		return nil
	default:
		return s.next.ConsumeTraces(ctx, otherTraces(td))
	}
}

// intakeTraces hands in the forward passes of td and counts them and the rest.
func intakeTraces(in *intake[ptrace.Span], td ptrace.Traces) (passes, others int) {
	for _, rs := range td.ResourceSpans().All() {
		in.enterResource(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			in.enterScope(tracesOrigin(rs, ss))
			for _, span := range ss.Spans().All() {
				if !fpmpdata.IsForwardPassSpan(span) {
					others++
					continue
				}
				passes++
				in.arrive(span)
			}
		}
	}
	return passes, others
}

func tracesOrigin(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) origin {
	return origin{
		resource:          rs.Resource(),
		resourceSchemaURL: rs.SchemaUrl(),
		scope:             ss.Scope(),
		scopeSchemaURL:    ss.SchemaUrl(),
	}
}

// otherTraces copies what is no forward pass, in its order and with its resources
// and scopes.
func otherTraces(td ptrace.Traces) ptrace.Traces {
	others := ptrace.NewTraces()
	for _, rs := range td.ResourceSpans().All() {
		toResource := others.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(toResource.Resource())
		toResource.SetSchemaUrl(rs.SchemaUrl())
		for _, ss := range rs.ScopeSpans().All() {
			toScope := toResource.ScopeSpans().AppendEmpty()
			ss.Scope().CopyTo(toScope.Scope())
			toScope.SetSchemaUrl(ss.SchemaUrl())
			copyOtherSpans(ss.Spans(), toScope.Spans())
		}
		toResource.ScopeSpans().RemoveIf(func(s ptrace.ScopeSpans) bool { return s.Spans().Len() == 0 })
	}
	others.ResourceSpans().RemoveIf(func(r ptrace.ResourceSpans) bool { return r.ScopeSpans().Len() == 0 })
	return others
}

func copyOtherSpans(from, to ptrace.SpanSlice) {
	for _, span := range from.All() {
		if !fpmpdata.IsForwardPassSpan(span) {
			span.CopyTo(to.AppendEmpty())
		}
	}
}

// send makes one batch of the samples of a tick.
func (s *sampledTraces) send(ctx context.Context, batch []outgoing[ptrace.Span]) error {
	out := tracesAppender{traces: ptrace.NewTraces()}
	for _, o := range batch {
		span := out.add(o.origin)
		o.item.MoveTo(span)
		stampSampled(span.Attributes())
	}
	return s.next.ConsumeTraces(ctx, out.traces)
}

// tracesAppender appends spans in a given order; those of one resource and
// scope that follow each other share it.
type tracesAppender struct {
	traces ptrace.Traces
	last   *origin
	rs     ptrace.ResourceSpans
	ss     ptrace.ScopeSpans
}

func (a *tracesAppender) add(from *origin) ptrace.Span {
	if a.last == nil || !a.last.equal(from) {
		a.open(from)
	}
	a.last = from
	return a.ss.Spans().AppendEmpty()
}

func (a *tracesAppender) open(from *origin) {
	if a.last == nil || !a.last.sameResource(from) {
		a.rs = a.traces.ResourceSpans().AppendEmpty()
		from.resource.CopyTo(a.rs.Resource())
		a.rs.SetSchemaUrl(from.resourceSchemaURL)
	}
	a.ss = a.rs.ScopeSpans().AppendEmpty()
	from.scope.CopyTo(a.ss.Scope())
	a.ss.SetSchemaUrl(from.scopeSchemaURL)
}

// fullTraces sends every span on at once (SMP-17).
type fullTraces struct {
	passer
	next consumer.Traces
}

// ConsumeTraces stamps the forward passes of td in place and sends it on.
func (f *fullTraces) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	var n int64
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if fpmpdata.IsForwardPassSpan(span) {
					stampFull(span.Attributes())
					n++
				}
			}
		}
	}
	return f.passed(ctx, n, f.next.ConsumeTraces(ctx, td))
}
