// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

// Why a received record was not handed on.
const (
	dropQueueFull = "queue_full"
	dropRefused   = "refused"
	dropShutdown  = "shutdown"
)

// Signals that have a queue.
const (
	signalLogs   = "logs"
	signalTraces = "traces"
)

// observeTelemetry lets the receiver's own counters be read when telemetry is
// collected: the receive path pays for an atomic addition only.
func (r *fpmReceiver) observeTelemetry() error {
	t := r.telemetry
	return errors.Join(
		t.RegisterFpmReceiverConnectsCallback(r.observeConnects),
		t.RegisterFpmReceiverDisconnectsCallback(r.observeDisconnects),
		t.RegisterFpmReceiverInvalidMessagesCallback(r.observeInvalid),
		t.RegisterFpmReceiverDroppedRecordsCallback(r.observeDropped),
		t.RegisterFpmReceiverQueueRecordsCallback(r.observeQueueRecords),
		t.RegisterFpmReceiverQueueBytesCallback(r.observeQueueBytes),
		t.RegisterFpmReceiverStreamsCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(r.registry.Len()))
			return nil
		}),
		t.RegisterFpmReceiverBytesCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.bytes })),
		t.RegisterFpmReceiverPingsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.pings })),
		t.RegisterFpmReceiverMessagesCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.messages })),
		t.RegisterFpmReceiverRecordsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.records })),
		t.RegisterFpmReceiverDuplicatesCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.duplicates })),
		t.RegisterFpmReceiverMissingRecordsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.missing })),
		t.RegisterFpmReceiverGapsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.gaps })),
		t.RegisterFpmReceiverRestartsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.restarts })),
		t.RegisterFpmReceiverCounterMismatchesCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.mismatches })),
		t.RegisterFpmReceiverLegacyRecordsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.legacy })),
		t.RegisterFpmReceiverSkippedFieldsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.skippedFields })),
		t.RegisterFpmReceiverEmptyWorkerIdsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.emptyWorkers })),
		t.RegisterFpmReceiverSharedWorkerIdsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.sharedWorkers })),
		t.RegisterFpmReceiverStreamOverflowsCallback(r.perEndpoint(func(c *counts) *atomic.Int64 { return &c.overflows })),
	)
}

// perEndpoint observes one total of every endpoint, from 0 on.
func (r *fpmReceiver) perEndpoint(total func(*counts) *atomic.Int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		for _, p := range r.publishers {
			o.Observe(total(p.counts).Load(), metric.WithAttributes(attribute.String("endpoint", p.name)))
		}
		return nil
	}
}

func (r *fpmReceiver) observeConnects(_ context.Context, o metric.Int64Observer) error {
	for _, p := range r.publishers {
		observe(o, p.counts.connected.Load(), p, attribute.String("result", "ok"))
		for _, reason := range zmtp.Reasons() {
			observe(o, p.counts.failed[reason].Load(), p, attribute.String("result", reason.String()))
		}
	}
	return nil
}

func (r *fpmReceiver) observeDisconnects(_ context.Context, o metric.Int64Observer) error {
	for _, p := range r.publishers {
		for _, reason := range zmtp.Reasons() {
			observe(o, p.counts.disconnects[reason].Load(), p, attribute.String("reason", reason.String()))
		}
	}
	return nil
}

func (r *fpmReceiver) observeInvalid(_ context.Context, o metric.Int64Observer) error {
	for _, p := range r.publishers {
		for _, reason := range fpm.Reasons() {
			observe(o, p.counts.invalid[reason].Load(), p, attribute.String("reason", reason.String()))
		}
	}
	return nil
}

func (r *fpmReceiver) observeDropped(_ context.Context, o metric.Int64Observer) error {
	for _, p := range r.publishers {
		if p.logs != nil {
			observeDrops(o, p, signalLogs, p.logs.queue.Dropped(), &p.logs.drops)
		}
		if p.traces != nil {
			observeDrops(o, p, signalTraces, p.traces.queue.Dropped(), &p.traces.drops)
		}
	}
	return nil
}

// observeDrops reports every reason from 0 on: an alert on the first drop needs
// the increase.
func observeDrops(o metric.Int64Observer, p *publisher, signal string, queueFull int64, d *drops) {
	for reason, total := range map[string]int64{
		dropQueueFull: queueFull, dropRefused: d.refused.Load(), dropShutdown: d.shutdown.Load(),
	} {
		o.Observe(total, metric.WithAttributes(
			attribute.String("endpoint", p.name), attribute.String("signal", signal), attribute.String("reason", reason)))
	}
}

// observe reports a total that is split by reason, once there is something to
// report: most reasons never come up.
func observe(o metric.Int64Observer, total int64, p *publisher, attributes ...attribute.KeyValue) {
	if total == 0 {
		return
	}
	o.Observe(total, metric.WithAttributes(append(attributes, attribute.String("endpoint", p.name))...))
}

func (r *fpmReceiver) observeQueueRecords(_ context.Context, o metric.Int64Observer) error {
	return r.observeQueue(o, func(records int, _ int64) int64 { return int64(records) })
}

func (r *fpmReceiver) observeQueueBytes(_ context.Context, o metric.Int64Observer) error {
	return r.observeQueue(o, func(_ int, bytes int64) int64 { return bytes })
}

func (r *fpmReceiver) observeQueue(o metric.Int64Observer, value func(records int, bytes int64) int64) error {
	if r.logs != nil {
		o.Observe(value(r.logs.delivery.queue.Len()), metric.WithAttributes(attribute.String("signal", signalLogs)))
	}
	if r.traces != nil {
		o.Observe(value(r.traces.delivery.queue.Len()), metric.WithAttributes(attribute.String("signal", signalTraces)))
	}
	return nil
}
