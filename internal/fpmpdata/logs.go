// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Record is what a log record says of one forward pass.
type Record struct {
	Worker        *Worker
	WorkerID      string
	Kind          fpm.RecordKind
	DPRank        int64
	CounterID     int64
	Sequence      int64
	ReceivedAt    time.Time
	ServerAddress string
	ServerPort    int // 0: ipc, left out

	// Payload is the body: canonical msgpack for a map body, the bytes to
	// carry when AsBytes is set. It is copied.
	Payload []byte
	AsBytes bool
}

// LogsBuilder collects forward passes into one plog.Logs, a resource a worker
// (COL-99). The zero value is not usable; it is not safe for concurrent use.
type LogsBuilder struct {
	scopeName, scopeVersion string

	logs    plog.Logs
	workers map[string]plog.LogRecordSlice
}

// NewLogsBuilder makes a builder whose records carry this scope.
func NewLogsBuilder(scopeName, scopeVersion string) *LogsBuilder {
	b := &LogsBuilder{
		scopeName: scopeName, scopeVersion: scopeVersion,
		workers: make(map[string]plog.LogRecordSlice),
	}
	b.reset()
	return b
}

func (b *LogsBuilder) reset() {
	b.logs = plog.NewLogs()
	clear(b.workers)
}

// Append adds one record.
func (b *LogsBuilder) Append(r *Record) {
	putRecord(r, b.recordsOf(r.Worker).AppendEmpty())
}

// Take gives what was appended and starts anew. The caller owns the result.
func (b *LogsBuilder) Take() plog.Logs {
	logs := b.logs
	b.reset()
	return logs
}

func (b *LogsBuilder) recordsOf(worker *Worker) plog.LogRecordSlice {
	if records, ok := b.workers[worker.Key()]; ok {
		return records
	}
	resource := b.logs.ResourceLogs().AppendEmpty()
	worker.copyTo(resource.Resource())
	scope := resource.ScopeLogs().AppendEmpty()
	scope.Scope().SetName(b.scopeName)
	scope.Scope().SetVersion(b.scopeVersion)
	b.workers[worker.Key()] = scope.LogRecords()
	return scope.LogRecords()
}

func putRecord(r *Record, into plog.LogRecord) {
	receivedAt := pcommon.NewTimestampFromTime(r.ReceivedAt)
	into.SetEventName(EventName)
	into.SetTimestamp(receivedAt)
	into.SetObservedTimestamp(receivedAt)
	putAttributes(r, into.Attributes())
	if r.AsBytes {
		into.Body().SetEmptyBytes().FromRaw(r.Payload)
		return
	}
	putBody(r.Payload, into.Body().SetEmptyMap())
}

func putAttributes(r *Record, into pcommon.Map) {
	into.EnsureCapacity(8) // one to spare for the sampler's stamp
	into.PutStr(AttrRecordKind, r.Kind.String())
	into.PutStr(AttrWorkerID, r.WorkerID)
	into.PutInt(AttrDPRank, r.DPRank)
	into.PutInt(AttrCounterID, r.CounterID)
	into.PutInt(AttrSequence, r.Sequence)
	into.PutStr(AttrServerAddress, r.ServerAddress)
	if r.ServerPort != 0 {
		into.PutInt(AttrServerPort, int64(r.ServerPort))
	}
}
