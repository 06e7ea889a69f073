// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver/receiverhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/fairqueue"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// logsSignal hands records to the logs pipeline.
type logsSignal struct {
	next           consumer.Logs
	obs            *receiverhelper.ObsReport
	builder        *fpmpdata.LogsBuilder
	delivery       *delivery[*record]
	asBytes        bool
	dropHeartbeats bool
}

// newLogsSignal is part of Start: it holds what a run needs.
func newLogsSignal(r *fpmReceiver) *logsSignal {
	s := &logsSignal{
		next:           r.nextLogs,
		obs:            r.obs,
		builder:        fpmpdata.NewLogsBuilder(metadata.ScopeName, r.settings.BuildInfo.Version),
		asBytes:        r.cfg.Logs.Body == bodyMsgpack,
		dropHeartbeats: r.cfg.Logs.Heartbeats == heartbeatsDrop,
	}
	s.delivery = newDelivery(r.cfg, r.retry, "records", s.consume)
	return s
}

// consume builds the records anew for each attempt: what a consumer was given
// once belongs to it (COL-54).
func (s *logsSignal) consume(ctx context.Context, records []*record) error {
	for _, r := range records {
		s.builder.Append(&r.Record)
	}
	ctx = s.obs.StartLogsOp(ctx)
	err := s.next.ConsumeLogs(ctx, s.builder.Take())
	s.obs.EndLogsOp(ctx, dataFormat, len(records), err)
	return err
}

// logsSource is an endpoint's way into the logs; nil when no pipeline wants
// them.
type logsSource struct {
	signal *logsSignal
	queue  *fairqueue.Source[*record]
	drops  *drops
}

// newSource lets an endpoint send; what is lost on the way is added to its counts.
func (s *logsSignal) newSource(c *counts) *logsSource {
	if s == nil {
		return nil
	}
	c.logs = new(drops)
	return &logsSource{signal: s, queue: s.delivery.queue.NewSource(), drops: c.logs}
}

func (s *logsSource) push(p *publisher, state *streamState, sequence int64, receivedAt time.Time) {
	if s == nil || (s.signal.dropHeartbeats && p.pass.RecordKind() == fpm.RecordHeartbeat) {
		return
	}
	r := newRecord(&p.decoder, &p.pass, s.signal.asBytes)
	r.Worker, r.WorkerID = state.worker, state.workerID
	r.Sequence, r.ReceivedAt = sequence, receivedAt
	r.ServerAddress, r.ServerPort = p.serverAddress, p.serverPort
	r.source = s
	s.queue.Push(r, int64(len(r.Payload)))
}
