// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

func newLogs(set processor.Settings, cfg *Config, next consumer.Logs) (processor.Logs, error) {
	if cfg.captureMode() == fpmpdata.CaptureModeFull {
		r, err := newRecorder(set.TelemetrySettings)
		return &fullLogs{passer: passer{recorder: r}, next: next}, err
	}
	s := &sampledLogs{next: next}
	var err error
	s.sampler, err = newSampler(set, cfg, plog.NewLogRecord, s.send)
	return s, err
}

// sampledLogs samples log records.
type sampledLogs struct {
	*sampler[plog.LogRecord]
	next consumer.Logs
}

// ConsumeLogs keeps the forward passes for their tick and sends all else on at
// once (SMP-23). Its error can only concern the rest: a sender that repeats the
// batch finds its forward passes replaced or suppressed.
func (s *sampledLogs) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	var passes, others int
	s.ingest(ctx, func(in *intake[plog.LogRecord]) {
		passes, others = intakeLogs(in, ld)
	})
	switch {
	case passes == 0:
		return s.next.ConsumeLogs(ctx, ld)
	case others == 0:
		return nil
	default:
		return s.next.ConsumeLogs(ctx, otherLogs(ld))
	}
}

// intakeLogs hands in the forward passes of ld and counts them and the rest.
func intakeLogs(in *intake[plog.LogRecord], ld plog.Logs) (passes, others int) {
	for _, rl := range ld.ResourceLogs().All() {
		in.enterResource(rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			in.enterScope(logsOrigin(rl, sl))
			for _, record := range sl.LogRecords().All() {
				if !fpmpdata.IsForwardPassLog(record) {
					others++
					continue
				}
				passes++
				in.arrive(record)
			}
		}
	}
	return passes, others
}

func logsOrigin(rl plog.ResourceLogs, sl plog.ScopeLogs) origin {
	return origin{
		resource:          rl.Resource(),
		resourceSchemaURL: rl.SchemaUrl(),
		scope:             sl.Scope(),
		scopeSchemaURL:    sl.SchemaUrl(),
	}
}

// otherLogs copies what is no forward pass, in its order and with its resources
// and scopes.
func otherLogs(ld plog.Logs) plog.Logs {
	others := plog.NewLogs()
	for _, rl := range ld.ResourceLogs().All() {
		toResource := others.ResourceLogs().AppendEmpty()
		rl.Resource().CopyTo(toResource.Resource())
		toResource.SetSchemaUrl(rl.SchemaUrl())
		for _, sl := range rl.ScopeLogs().All() {
			toScope := toResource.ScopeLogs().AppendEmpty()
			sl.Scope().CopyTo(toScope.Scope())
			toScope.SetSchemaUrl(sl.SchemaUrl())
			copyOtherLogRecords(sl.LogRecords(), toScope.LogRecords())
		}
		toResource.ScopeLogs().RemoveIf(func(s plog.ScopeLogs) bool { return s.LogRecords().Len() == 0 })
	}
	others.ResourceLogs().RemoveIf(func(r plog.ResourceLogs) bool { return r.ScopeLogs().Len() == 0 })
	return others
}

func copyOtherLogRecords(from, to plog.LogRecordSlice) {
	for _, record := range from.All() {
		if !fpmpdata.IsForwardPassLog(record) {
			record.CopyTo(to.AppendEmpty())
		}
	}
}

// send makes one batch of the samples of a tick.
func (s *sampledLogs) send(ctx context.Context, batch []outgoing[plog.LogRecord]) error {
	out := logsAppender{logs: plog.NewLogs()}
	for _, o := range batch {
		record := out.add(o.origin)
		o.item.MoveTo(record)
		stampSampled(record.Attributes())
	}
	return s.next.ConsumeLogs(ctx, out.logs)
}

// logsAppender appends log records in a given order; those of one resource and
// scope that follow each other share it.
type logsAppender struct {
	logs plog.Logs
	last *origin
	rl   plog.ResourceLogs
	sl   plog.ScopeLogs
}

func (a *logsAppender) add(from *origin) plog.LogRecord {
	if a.last == nil || !a.last.equal(from) {
		a.open(from)
	}
	a.last = from
	return a.sl.LogRecords().AppendEmpty()
}

func (a *logsAppender) open(from *origin) {
	if a.last == nil || !a.last.sameResource(from) {
		a.rl = a.logs.ResourceLogs().AppendEmpty()
		from.resource.CopyTo(a.rl.Resource())
		a.rl.SetSchemaUrl(from.resourceSchemaURL)
	}
	a.sl = a.rl.ScopeLogs().AppendEmpty()
	from.scope.CopyTo(a.sl.Scope())
	a.sl.SetSchemaUrl(from.scopeSchemaURL)
}

// fullLogs sends every log record on at once (SMP-17).
type fullLogs struct {
	passer
	next consumer.Logs
}

// ConsumeLogs stamps the forward passes of ld in place and sends it on.
func (f *fullLogs) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	var n int64
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, record := range sl.LogRecords().All() {
				if fpmpdata.IsForwardPassLog(record) {
					stampFull(record.Attributes())
					n++
				}
			}
		}
	}
	return f.passed(ctx, n, f.next.ConsumeLogs(ctx, ld))
}
