// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Names of spans.
const (
	SpanForwardPass = "forward_pass"
	SpanWindow      = "forward_pass.window"
)

// Attributes of spans: the batch composition of a pass, and the totals of a
// window.
const (
	AttrScheduledPrefillRequests       = "fpm.scheduled.prefill_requests"
	AttrScheduledPrefillTokens         = "fpm.scheduled.prefill_tokens"
	AttrScheduledPrefillKVTokens       = "fpm.scheduled.prefill_kv_tokens"
	AttrScheduledDecodeRequests        = "fpm.scheduled.decode_requests"
	AttrScheduledDecodeKVTokens        = "fpm.scheduled.decode_kv_tokens"
	AttrScheduledPrefillLengthVariance = "fpm.scheduled.prefill_length_variance"
	AttrScheduledDecodeKVVariance      = "fpm.scheduled.decode_kv_tokens_variance"
	AttrQueuedPrefillRequests          = "fpm.queued.prefill_requests"
	AttrQueuedPrefillTokens            = "fpm.queued.prefill_tokens"
	AttrQueuedDecodeRequests           = "fpm.queued.decode_requests"
	AttrQueuedDecodeKVTokens           = "fpm.queued.decode_kv_tokens"
	AttrQueuedPrefillLengthVariance    = "fpm.queued.prefill_length_variance"
	AttrQueuedDecodeKVVariance         = "fpm.queued.decode_kv_tokens_variance"

	AttrWindowNumber          = "fpm.window.number"
	AttrWindowPasses          = "fpm.window.passes"
	AttrWindowTime            = "fpm.window.time" // seconds
	AttrWindowPrefillSteps    = "fpm.window.prefill_steps"
	AttrWindowPrefillTokens   = "fpm.window.prefill_tokens"
	AttrWindowPrefillKVTokens = "fpm.window.prefill_kv_tokens"
	AttrWindowDecodeSteps     = "fpm.window.decode_steps"
	AttrWindowDecodeKVTokens  = "fpm.window.decode_kv_tokens"
	AttrBusyRatio             = "fpm.busy_ratio"
)

// Span is what a span says of one timed pass, or of a window when Root is set.
// It holds no view of a payload.
type Span struct {
	Worker        *Worker
	ServerAddress string
	ServerPort    int // 0: ipc, left out
	DPRank        int64

	Root *Window

	ID        SpanID
	Start     time.Time
	End       time.Time
	Seconds   float64 // wall_time
	CounterID int64
	PassKind  fpm.PassKind
	Scope     string
	HasScope  bool
	Scheduled fpm.Scheduled
	Queued    fpm.Queued
}

// SetPass fills in what a span says of a pass, whose scope is one that
// TimingScopes let through.
func (s *Span) SetPass(p *fpm.ForwardPass, id SpanID, end time.Time) {
	s.ID, s.Start, s.End = id, end.Add(-seconds(p.WallTime)), end
	s.Seconds = p.WallTime
	s.CounterID, s.DPRank = p.CounterID, p.DPRank
	s.PassKind, s.Scheduled, s.Queued = p.PassKind(), p.Scheduled, p.Queued
	s.HasScope = p.TimingScope != nil
	s.Scope = string(p.TimingScope)
}

// TracesBuilder collects spans into one ptrace.Traces, a resource a worker. It
// is not safe for concurrent use.
type TracesBuilder struct {
	scopeName, scopeVersion string

	traces  ptrace.Traces
	workers map[string]ptrace.SpanSlice
}

// NewTracesBuilder makes a builder whose spans carry this scope.
func NewTracesBuilder(scopeName, scopeVersion string) *TracesBuilder {
	return &TracesBuilder{
		scopeName: scopeName, scopeVersion: scopeVersion,
		traces: ptrace.NewTraces(), workers: make(map[string]ptrace.SpanSlice),
	}
}

// Append adds one span.
func (b *TracesBuilder) Append(s *Span) {
	into := b.spansOf(s.Worker).AppendEmpty()
	into.SetKind(ptrace.SpanKindInternal)
	if s.Root != nil {
		putWindow(s, into)
		return
	}
	putPass(s, into)
}

// Take gives what was appended and starts anew. The caller owns the result.
func (b *TracesBuilder) Take() ptrace.Traces {
	traces := b.traces
	b.traces = ptrace.NewTraces()
	clear(b.workers)
	return traces
}

func (b *TracesBuilder) spansOf(worker *Worker) ptrace.SpanSlice {
	if spans, ok := b.workers[worker.Key()]; ok {
		return spans
	}
	resource := b.traces.ResourceSpans().AppendEmpty()
	worker.copyTo(resource.Resource())
	scope := resource.ScopeSpans().AppendEmpty()
	scope.Scope().SetName(b.scopeName)
	scope.Scope().SetVersion(b.scopeVersion)
	b.workers[worker.Key()] = scope.Spans()
	return scope.Spans()
}

func putPass(s *Span, into ptrace.Span) {
	into.SetName(SpanForwardPass)
	into.SetTraceID(s.ID.Trace)
	into.SetSpanID(s.ID.Span)
	into.SetParentSpanID(s.ID.Parent)
	into.SetStartTimestamp(pcommon.NewTimestampFromTime(s.Start))
	into.SetEndTimestamp(pcommon.NewTimestampFromTime(s.End))
	attributes := into.Attributes()
	attributes.EnsureCapacity(20) // with one to spare for the sampler's stamp
	attributes.PutStr(AttrPassKind, s.PassKind.String())
	if s.HasScope {
		attributes.PutStr(AttrTimingScope, s.Scope)
	}
	attributes.PutInt(AttrCounterID, s.CounterID)
	putPlace(s, attributes)
	putScheduled(&s.Scheduled, attributes)
	putQueued(&s.Queued, attributes)
}

func putPlace(s *Span, into pcommon.Map) {
	into.PutInt(AttrDPRank, s.DPRank)
	into.PutStr(AttrServerAddress, s.ServerAddress)
	if s.ServerPort != 0 {
		into.PutInt(AttrServerPort, int64(s.ServerPort))
	}
}

func putScheduled(s *fpm.Scheduled, into pcommon.Map) {
	into.PutInt(AttrScheduledPrefillRequests, s.PrefillRequests)
	into.PutInt(AttrScheduledPrefillTokens, s.PrefillTokens)
	into.PutInt(AttrScheduledPrefillKVTokens, s.PrefillKVTokens)
	into.PutInt(AttrScheduledDecodeRequests, s.DecodeRequests)
	into.PutInt(AttrScheduledDecodeKVTokens, s.DecodeKVTokens)
	if s.HasPrefillLengthVariance {
		into.PutDouble(AttrScheduledPrefillLengthVariance, s.PrefillLengthVariance)
	}
	if s.HasDecodeKVVariance {
		into.PutDouble(AttrScheduledDecodeKVVariance, s.DecodeKVVariance)
	}
}

func putQueued(q *fpm.Queued, into pcommon.Map) {
	into.PutInt(AttrQueuedPrefillRequests, q.PrefillRequests)
	into.PutInt(AttrQueuedPrefillTokens, q.PrefillTokens)
	into.PutInt(AttrQueuedDecodeRequests, q.DecodeRequests)
	into.PutInt(AttrQueuedDecodeKVTokens, q.DecodeKVTokens)
	if q.HasPrefillLengthVariance {
		into.PutDouble(AttrQueuedPrefillLengthVariance, q.PrefillLengthVariance)
	}
	if q.HasDecodeKVVariance {
		into.PutDouble(AttrQueuedDecodeKVVariance, q.DecodeKVVariance)
	}
}

func putWindow(s *Span, into ptrace.Span) {
	w := s.Root
	into.SetName(SpanWindow)
	into.SetTraceID(w.id.trace)
	into.SetSpanID(w.id.span(0))
	into.SetStartTimestamp(pcommon.NewTimestampFromTime(w.Start))
	into.SetEndTimestamp(pcommon.NewTimestampFromTime(w.End))
	if w.Number > 1 {
		link := into.Links().AppendEmpty()
		link.SetTraceID(w.previous.trace)
		link.SetSpanID(w.previous.span(0))
	}
	attributes := into.Attributes()
	attributes.EnsureCapacity(12)
	putPlace(s, attributes)
	attributes.PutInt(AttrWindowNumber, w.Number)
	attributes.PutInt(AttrWindowPasses, w.Passes)
	attributes.PutDouble(AttrWindowTime, w.Seconds)
	attributes.PutInt(AttrWindowPrefillSteps, w.Work.PrefillRequests)
	attributes.PutInt(AttrWindowPrefillTokens, w.Work.PrefillTokens)
	attributes.PutInt(AttrWindowPrefillKVTokens, w.Work.PrefillKVTokens)
	attributes.PutInt(AttrWindowDecodeSteps, w.Work.DecodeRequests)
	attributes.PutInt(AttrWindowDecodeKVTokens, w.Work.DecodeKVTokens)
	attributes.PutDouble(AttrBusyRatio, w.BusyRatio())
}
