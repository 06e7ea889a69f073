// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver/receiverhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/fairqueue"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

type (
	recordQueue = fairqueue.Queue[*record]
	queueSource = *fairqueue.Source[*record]
)

// deliveryDrops are records of an endpoint that left the queue and did not get
// through.
type deliveryDrops struct {
	refused  atomic.Int64 // by the next consumer, for good
	shutdown atomic.Int64 // still waiting at the end
}

// logsSignal hands records to the logs pipeline.
type logsSignal struct {
	next           consumer.Logs
	obs            *receiverhelper.ObsReport
	queue          *recordQueue
	delivery       *delivery
	asBytes        bool
	dropHeartbeats bool
}

// newLogsSignal is part of Start: it holds what a run needs.
func newLogsSignal(cfg *Config, next consumer.Logs, obs *receiverhelper.ObsReport, scopeVersion string) *logsSignal {
	s := &logsSignal{
		next: next,
		obs:  obs,
		queue: fairqueue.New(fairqueue.Limits{
			Items: cfg.Queue.MaxRecords,
			Bytes: int64(cfg.Queue.MaxBytes),
		}, freeRecord),
		asBytes:        cfg.Logs.Body == bodyMsgpack,
		dropHeartbeats: cfg.Logs.Heartbeats == heartbeatsDrop,
	}
	builder := fpmpdata.NewLogsBuilder(metadata.ScopeName, scopeVersion)
	s.delivery = newDelivery(cfg.Batch, s.queue, func(ctx context.Context, records []*record) error {
		return s.consume(ctx, builder, records)
	})
	return s
}

func (s *logsSignal) newSource() *logsSource {
	return &logsSource{signal: s, queue: s.queue.NewSource()}
}

// consume builds the records anew for each attempt: what a consumer was given
// once belongs to it (COL-54).
func (s *logsSignal) consume(ctx context.Context, builder *fpmpdata.LogsBuilder, records []*record) error {
	for _, r := range records {
		builder.Append(&r.Record)
	}
	ctx = s.obs.StartLogsOp(ctx)
	err := s.next.ConsumeLogs(ctx, builder.Take())
	s.obs.EndLogsOp(ctx, "msgpack", len(records), err)
	return err
}
