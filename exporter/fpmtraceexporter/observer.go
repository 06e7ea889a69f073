// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// observer turns what the writer does into telemetry and component status. It is safe for concurrent use.
type observer struct {
	telemetry *metadata.TelemetryBuilder

	// Options by the value of the enumeration, made once: an attribute set costs several allocations.
	dropped   map[tracefile.DropReason]metric.AddOption
	pruned    map[tracefile.PruneCause]metric.AddOption
	failed    map[tracefile.Op]metric.AddOption
	raw, gzip metric.AddOption

	mu   sync.Mutex
	host component.Host // nil: not started, or shutting down
}

var _ tracefile.Observer = (*observer)(nil)

func newObserver(set component.TelemetrySettings) (*observer, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	o := &observer{
		telemetry: telemetry,
		dropped:   options("reason", tracefile.DropReasons()),
		pruned:    options("cause", tracefile.PruneCauses()),
		failed:    options("op", tracefile.Ops()),
		raw:       option("kind", "raw"),
		gzip:      option("kind", "gzip"),
	}
	o.countZeros()
	return o, nil
}

func options[T interface {
	comparable
	String() string
}](key string, values []T) map[T]metric.AddOption {
	made := make(map[T]metric.AddOption, len(values))
	for _, value := range values {
		made[value] = option(key, value.String())
	}
	return made
}

func option(key, value string) metric.AddOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

// countZeros makes every series exist from the start: a rate over a series that begins with its first loss misses it.
func (o *observer) countZeros() {
	o.RowsWritten(0)
	o.BytesWritten(0, 0)
	o.telemetry.FpmTraceExporterFlushes.Add(context.Background(), 0)
	o.telemetry.FpmTraceExporterSegmentsOpened.Add(context.Background(), 0)
	for reason := range o.dropped {
		o.RowsDropped(reason, 0)
	}
	for cause := range o.pruned {
		o.SegmentsPruned(cause, 0)
	}
	for _, op := range o.failed {
		o.telemetry.FpmTraceExporterErrors.Add(context.Background(), 0, op)
	}
}

// RowsWritten implements tracefile.Observer.
func (o *observer) RowsWritten(n int) {
	o.telemetry.FpmTraceExporterRowsWritten.Add(context.Background(), int64(n))
}

// RowsDropped implements tracefile.Observer.
func (o *observer) RowsDropped(reason tracefile.DropReason, n int) {
	o.telemetry.FpmTraceExporterRowsDropped.Add(context.Background(), int64(n), o.dropped[reason])
}

// BytesWritten implements tracefile.Observer.
func (o *observer) BytesWritten(raw, gzip int) {
	o.telemetry.FpmTraceExporterBytes.Add(context.Background(), int64(raw), o.raw)
	o.telemetry.FpmTraceExporterBytes.Add(context.Background(), int64(gzip), o.gzip)
}

// Flushed implements tracefile.Observer.
func (o *observer) Flushed() { o.telemetry.FpmTraceExporterFlushes.Add(context.Background(), 1) }

// SegmentOpened implements tracefile.Observer.
func (o *observer) SegmentOpened() {
	o.telemetry.FpmTraceExporterSegmentsOpened.Add(context.Background(), 1)
}

// SegmentsPruned implements tracefile.Observer.
func (o *observer) SegmentsPruned(cause tracefile.PruneCause, n int) {
	o.telemetry.FpmTraceExporterSegmentsPruned.Add(context.Background(), int64(n), o.pruned[cause])
}

// Failed implements tracefile.Observer.
func (o *observer) Failed(op tracefile.Op) {
	o.telemetry.FpmTraceExporterErrors.Add(context.Background(), 1, o.failed[op])
}

// Status reports the state of the files: an error is recoverable, since writing resumes by itself (FIL-46, FIL-55). The
// writer calls it on change only.
func (o *observer) Status(err error) {
	host := o.reportTo()
	switch {
	case host == nil:
	case err != nil:
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
	default:
		componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
}

// attach lets status reports go to the host, detach ends them: what happens at shutdown the service reports itself.
func (o *observer) attach(host component.Host) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.host = host
}

func (o *observer) detach() { o.attach(nil) }

func (o *observer) reportTo() component.Host {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.host
}

// close ends the telemetry.
func (o *observer) close() { o.telemetry.Shutdown() }
