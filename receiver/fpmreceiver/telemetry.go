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
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
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

// totals are the counts of all endpoints of a run, read when telemetry is collected:
// the receive path pays for an atomic addition only.
//
// Their callbacks stay registered for ever. What a shutdown gives up is known at its
// end only, and a periodic reader collects for the last time when the meter provider
// ends, which is after all components: a counter that left with its receiver would
// take along what was added since the last collection. The provider lives as long as
// its service, so a reload leaves nothing behind; under a provider with several runs
// the SDK adds up what they observe for the same attributes, so that a counter never
// falls. For this the callbacks hold the counts and nothing else of the receiver.
type totals []*counts

func (r *fpmReceiver) observeCounters() error {
	all := make(totals, 0, len(r.publishers))
	for _, p := range r.publishers {
		all = append(all, p.counts)
	}
	return all.observe(r.counters)
}

func (all totals) observe(t *metadata.TelemetryBuilder) error {
	return errors.Join(
		t.RegisterFpmReceiverConnectsCallback(all.observeConnects),
		t.RegisterFpmReceiverDisconnectsCallback(all.observeDisconnects),
		t.RegisterFpmReceiverInvalidMessagesCallback(all.observeInvalid),
		t.RegisterFpmReceiverDroppedRecordsCallback(all.observeDropped),
		t.RegisterFpmReceiverBytesCallback(all.each(func(c *counts) *atomic.Int64 { return &c.bytes })),
		t.RegisterFpmReceiverPingsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.pings })),
		t.RegisterFpmReceiverMessagesCallback(all.each(func(c *counts) *atomic.Int64 { return &c.messages })),
		t.RegisterFpmReceiverRecordsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.records })),
		t.RegisterFpmReceiverDuplicatesCallback(all.each(func(c *counts) *atomic.Int64 { return &c.duplicates })),
		t.RegisterFpmReceiverMissingRecordsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.missing })),
		t.RegisterFpmReceiverGapsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.gaps })),
		t.RegisterFpmReceiverRestartsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.restarts })),
		t.RegisterFpmReceiverCounterMismatchesCallback(all.each(func(c *counts) *atomic.Int64 { return &c.mismatches })),
		t.RegisterFpmReceiverLegacyRecordsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.legacy })),
		t.RegisterFpmReceiverSkippedFieldsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.skippedFields })),
		t.RegisterFpmReceiverEmptyWorkerIdsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.emptyWorkers })),
		t.RegisterFpmReceiverSharedWorkerIdsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.sharedWorkers })),
		t.RegisterFpmReceiverStreamOverflowsCallback(all.each(func(c *counts) *atomic.Int64 { return &c.overflows })),
	)
}

// each observes one total of every endpoint, from 0 on.
func (all totals) each(total func(*counts) *atomic.Int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		for _, c := range all {
			o.Observe(total(c).Load(), metric.WithAttributes(attribute.String("endpoint", c.endpoint)))
		}
		return nil
	}
}

func (all totals) observeConnects(_ context.Context, o metric.Int64Observer) error {
	for _, c := range all {
		observe(o, c.connected.Load(), c, attribute.String("result", "ok"))
		for _, reason := range zmtp.Reasons() {
			observe(o, c.failed[reason].Load(), c, attribute.String("result", reason.String()))
		}
	}
	return nil
}

func (all totals) observeDisconnects(_ context.Context, o metric.Int64Observer) error {
	for _, c := range all {
		for _, reason := range zmtp.Reasons() {
			observe(o, c.disconnects[reason].Load(), c, attribute.String("reason", reason.String()))
		}
	}
	return nil
}

func (all totals) observeInvalid(_ context.Context, o metric.Int64Observer) error {
	for _, c := range all {
		for _, reason := range fpm.Reasons() {
			observe(o, c.invalid[reason].Load(), c, attribute.String("reason", reason.String()))
		}
	}
	return nil
}

func (all totals) observeDropped(_ context.Context, o metric.Int64Observer) error {
	for _, c := range all {
		observeDrops(o, c, signalLogs, c.logs)
		observeDrops(o, c, signalTraces, c.traces)
	}
	return nil
}

// observeDrops reports every reason from 0 on: an alert on the first drop needs
// the increase.
func observeDrops(o metric.Int64Observer, c *counts, signal string, d *drops) {
	if d == nil {
		return
	}
	for reason, total := range map[string]*atomic.Int64{
		dropQueueFull: &d.queueFull, dropRefused: &d.refused, dropShutdown: &d.shutdown,
	} {
		o.Observe(total.Load(), metric.WithAttributes(
			attribute.String("endpoint", c.endpoint), attribute.String("signal", signal), attribute.String("reason", reason)))
	}
}

// observe reports a total that is split by reason, once there is something to
// report: most reasons never come up.
func observe(o metric.Int64Observer, total int64, c *counts, attributes ...attribute.KeyValue) {
	if total == 0 {
		return
	}
	o.Observe(total, metric.WithAttributes(append(attributes, attribute.String("endpoint", c.endpoint))...))
}

// observeGauges lets the state of the run be read until its end.
func (r *fpmReceiver) observeGauges() error {
	return errors.Join(
		r.gauges.RegisterFpmReceiverQueueRecordsCallback(r.observeQueueRecords),
		r.gauges.RegisterFpmReceiverQueueBytesCallback(r.observeQueueBytes),
		r.gauges.RegisterFpmReceiverStreamsCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(r.registry.Len()))
			return nil
		}),
	)
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
