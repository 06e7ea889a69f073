// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// receivedAt is the receive time of the golden row (ROW-24).
var receivedAt = time.UnixMilli(1782777601250)

// payloadOf encodes a busy pass.
func payloadOf(worker string, rank, counter int64) []byte {
	return fpm.AppendPayload(nil, &fpm.ForwardPass{
		WorkerID: []byte(worker), DPRank: rank, CounterID: counter, WallTime: 0.025,
		Scheduled: fpm.Scheduled{DecodeRequests: 3, DecodeKVTokens: 1024 + counter%1000},
	})
}

// body is how a payload travels.
type body bool

const (
	asBytes body = true
	asMap   body = false
)

// logsBuilder builds logs as the receiver does.
type logsBuilder struct {
	builder *fpmpdata.LogsBuilder
	decoder fpm.Decoder
}

func newLogsBuilder() *logsBuilder {
	return &logsBuilder{builder: fpmpdata.NewLogsBuilder("receiver", "1"), decoder: fpm.Decoder{MaxSize: maxPayloadSize}}
}

func worker(id string) *fpmpdata.Worker {
	return fpmpdata.NewWorker(fpmpdata.WorkerIdentity{
		Namespace: "default", Component: "backend", InstanceID: id, ProducerID: id,
	}, nil)
}

// add appends a valid payload of a worker.
func (b *logsBuilder) add(tb testing.TB, from *fpmpdata.Worker, payload []byte, form body) {
	tb.Helper()
	var pass fpm.ForwardPass
	require.NoError(tb, b.decoder.Decode(payload, 0, &pass))
	carried := b.decoder.Canonical(&pass)
	if form == asBytes {
		carried = b.decoder.Raw(&pass)
	}
	b.builder.Append(&fpmpdata.Record{
		Worker: from, WorkerID: string(pass.WorkerID), Kind: pass.RecordKind(), DPRank: pass.DPRank, CounterID: pass.CounterID,
		ReceivedAt: receivedAt, ServerAddress: "127.0.0.1", ServerPort: 20380, Payload: carried, AsBytes: bool(form),
	})
}

// counted are the logs of one pass.
func counted(counter int64) plog.Logs {
	b := newLogsBuilder()
	b.builder.Append(&fpmpdata.Record{
		Worker: worker("4192"), WorkerID: "4192", CounterID: counter, ReceivedAt: receivedAt,
		Payload: payloadOf("4192", 0, counter), AsBytes: true,
	})
	return b.take()
}

func (b *logsBuilder) take() plog.Logs { return b.builder.Take() }

// passLogs are n passes of one worker, with the counters from first on.
func passLogs(tb testing.TB, workerID string, first, n int64) plog.Logs {
	tb.Helper()
	b := newLogsBuilder()
	from := worker(workerID)
	for counter := first; counter < first+n; counter++ {
		b.add(tb, from, payloadOf(workerID, 0, counter), asMap)
	}
	return b.take()
}

// pushesOf splits the passes 0 to n-1 of one worker into logs of size records each.
func pushesOf(tb testing.TB, n, size int64) []plog.Logs {
	tb.Helper()
	var all []plog.Logs
	for first := int64(0); first < n; first += size {
		all = append(all, passLogs(tb, "4192", first, size))
	}
	return all
}

// firstRecord is the only record that most tests have.
func firstRecord(logs plog.Logs) plog.LogRecord {
	return logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
}
