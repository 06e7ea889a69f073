// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// errShutdown refuses what is offered after shutdown began (FIL-65).
var errShutdown = errors.New("the exporter is shutting down and accepts no more records")

// newWriterFunc makes the writer of an exporter; tests give one of their own.
type newWriterFunc func(tracefile.Config, tracefile.Observer, component.TelemetrySettings) writer

// traceExporter wraps the exporter helper, whose Shutdown waits for its queue without a deadline, and which still takes
// records then, though nobody will write them.
type traceExporter struct {
	exporter.Logs // the helper: queue and retry in front of pusher.push

	pusher   *pusher
	obs      *observer
	gate     gate
	batching bool
}

func newTraceExporter(
	ctx context.Context, set exporter.Settings, cfg *Config, newWriter newWriterFunc,
) (*traceExporter, error) {
	writerCfg, err := cfg.writerConfig()
	if err != nil {
		return nil, err
	}
	obs, err := newObserver(set.TelemetrySettings) //nolint:contextcheck // counters need no context
	if err != nil {
		return nil, err
	}
	pusher := newPusher(newWriter(writerCfg, obs, set.TelemetrySettings), writerCfg.Durability == tracefile.Buffered,
		obs, set.Logger)
	pusher.leftovers.retries = cfg.BackOffConfig.Enabled
	if keepsRecordsInMemory(cfg) {
		pusher.leftovers.count = func(n int) { obs.RowsDropped(tracefile.DropShutdown, n) } //nolint:contextcheck // as above
	}
	helper, err := exporterhelper.NewLogs(ctx, set, cfg, pusher.push,
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}), // a local write has no deadline (COL-65)
		exporterhelper.WithRetry(cfg.BackOffConfig),
		exporterhelper.WithQueue(cfg.QueueConfig),
	)
	if err != nil {
		return nil, err
	}
	return &traceExporter{Logs: helper, pusher: pusher, obs: obs, batching: batches(cfg)}, nil
}

// keepsRecordsInMemory says whether the collector's queue alone has the records that wait in it: a stored queue has them
// on disk, and without a queue or with wait_for_result the caller gets the error.
func keepsRecordsInMemory(cfg *Config) bool {
	queue := cfg.QueueConfig.Get()
	return queue != nil && queue.StorageID == nil && !queue.WaitForResult
}

func batches(cfg *Config) bool {
	queue := cfg.QueueConfig.Get()
	return queue != nil && queue.Batch.HasValue()
}

// ExporterHelperBatchingEnabled passes on what the collector asks the exporter helper.
func (e *traceExporter) ExporterHelperBatchingEnabled() bool { return e.batching }

// Start opens nothing by itself: the writer does that in the background and never fails here (FIL-46).
func (e *traceExporter) Start(ctx context.Context, host component.Host) error {
	e.obs.attach(host)
	if err := e.pusher.writer.Start(); err != nil {
		return fmt.Errorf("starting the trace file writer: %w", err)
	}
	if err := e.Logs.Start(ctx, host); err != nil {
		return errors.Join(err, e.pusher.writer.Shutdown(ctx))
	}
	return nil
}

// ConsumeLogs hands the records to the collector's queue, or without one pushes them.
func (e *traceExporter) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	if !e.gate.enter() {
		return errShutdown
	}
	defer e.gate.leave()
	return e.Logs.ConsumeLogs(ctx, logs)
}
