// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadata"
)

// Reasons of fpm_sampler_processor_dropped.
var (
	reasonDownstream = dropReason("downstream") // SMP-14
	reasonMaxKeys    = dropReason("max_keys")   // SMP-21
	reasonShutdown   = dropReason("shutdown")   // SMP-15
)

func dropReason(reason string) metric.AddOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", reason)))
}

// tally counts what happened to forward passes under the lock of the state; it
// is added to the metrics after the lock is released. Every forward pass is in
// exactly one of out, suppressed, replaced and dropped, or still pending.
type tally struct {
	in, out, suppressed, replaced                      int64
	droppedDownstream, droppedMaxKeys, droppedShutdown int64
	keys                                               int64 // change in the number of keys
	evicted                                            int64
}

// evict counts n forgotten keys.
func (t *tally) evict(n int64) {
	t.evicted += n
	t.keys -= n
}

// recorder adds tallies to the own metrics.
type recorder struct {
	builder *metadata.TelemetryBuilder
}

// record adds t. The end of ctx must not cost a count: what could not be sent
// before a deadline is counted after it.
func (r recorder) record(ctx context.Context, t tally) {
	ctx = context.WithoutCancel(ctx)
	add(ctx, r.builder.FpmSamplerProcessorRecordsIn, t.in)
	add(ctx, r.builder.FpmSamplerProcessorRecordsOut, t.out)
	add(ctx, r.builder.FpmSamplerProcessorSuppressed, t.suppressed)
	add(ctx, r.builder.FpmSamplerProcessorReplaced, t.replaced)
	add(ctx, r.builder.FpmSamplerProcessorDropped, t.droppedDownstream, reasonDownstream)
	add(ctx, r.builder.FpmSamplerProcessorDropped, t.droppedMaxKeys, reasonMaxKeys)
	add(ctx, r.builder.FpmSamplerProcessorDropped, t.droppedShutdown, reasonShutdown)
	add(ctx, r.builder.FpmSamplerProcessorKeys, t.keys)
	add(ctx, r.builder.FpmSamplerProcessorKeysEvicted, t.evicted)
}

// countZeros makes every reason of a drop exist from the start: a rate over a
// series that begins with its first loss misses it.
func (r recorder) countZeros() {
	for _, reason := range []metric.AddOption{reasonDownstream, reasonMaxKeys, reasonShutdown} {
		r.builder.FpmSamplerProcessorDropped.Add(context.Background(), 0, reason)
	}
}

// adder is what counters and up-down counters have in common.
type adder interface {
	Add(ctx context.Context, n int64, options ...metric.AddOption)
}

func add(ctx context.Context, instrument adder, n int64, options ...metric.AddOption) {
	if n != 0 {
		instrument.Add(ctx, n, options...)
	}
}
