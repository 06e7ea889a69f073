// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

var receivedAt = time.Unix(1782777601, 250_000_000)

func goldenRecord(worker *Worker) *Record {
	return &Record{
		Worker: worker, WorkerID: "4192", Kind: fpm.RecordPass, CounterID: 42, Sequence: 42, ReceivedAt: receivedAt,
		ServerAddress: "10.0.0.7", ServerPort: 20380, Payload: fpmtest.Golden(),
	}
}

func testWorker() *Worker {
	return NewWorker(
		WorkerIdentity{Namespace: "default", Component: "backend", InstanceID: "4192", ProducerID: "p", Backend: "vllm"},
		map[string]any{"cluster": "east", "gpus": 8, "spot": true},
	)
}

func TestLogRecord(t *testing.T) {
	b := NewLogsBuilder("scope", "1.2.3")
	b.Append(goldenRecord(testWorker()))
	logs := b.Take()
	require.Equal(t, 1, logs.LogRecordCount())
	resource := logs.ResourceLogs().At(0)
	require.Equal(t, map[string]any{
		"service.namespace": "default", "service.name": "backend", "service.instance.id": "4192",
		"fpm.producer.id": "p", "fpm.backend": "vllm", "cluster": "east", "gpus": int64(8), "spot": true,
	}, resource.Resource().Attributes().AsRaw())
	scope := resource.ScopeLogs().At(0)
	require.Equal(t, "scope", scope.Scope().Name())
	require.Equal(t, "1.2.3", scope.Scope().Version())

	record := scope.LogRecords().At(0)
	require.True(t, IsForwardPassLog(record))
	require.Equal(t, pcommon.NewTimestampFromTime(receivedAt), record.Timestamp())
	require.Equal(t, record.Timestamp(), record.ObservedTimestamp())
	require.Equal(t, map[string]any{
		"fpm.record.kind": "pass", "fpm.worker_id": "4192", "fpm.dp_rank": int64(0), "fpm.counter_id": int64(42),
		"fpm.sequence": int64(42), "server.address": "10.0.0.7", "server.port": int64(20380),
	}, record.Attributes().AsRaw())
	require.Equal(t, pcommon.ValueTypeMap, record.Body().Type())
	require.Zero(t, b.Take().LogRecordCount())
}

func TestLogRecordOfIPCHasNoPort(t *testing.T) {
	b := NewLogsBuilder("scope", "")
	r := goldenRecord(NewWorker(WorkerIdentity{}, nil))
	r.ServerAddress, r.ServerPort, r.AsBytes = "/run/fpm.0", 0, true
	b.Append(r)
	logs := b.Take().ResourceLogs().At(0)
	_, hasPort := logs.ScopeLogs().At(0).LogRecords().At(0).Attributes().Get(AttrServerPort)
	require.False(t, hasPort)
	_, hasBackend := logs.Resource().Attributes().Get(AttrBackend)
	require.False(t, hasBackend)
	require.Equal(t, fpmtest.Golden(), logs.ScopeLogs().At(0).LogRecords().At(0).Body().Bytes().AsRaw())
}

func TestCOL_99_OneResourceAWorker(t *testing.T) {
	b := NewLogsBuilder("scope", "")
	same := testWorker()
	other := NewWorker(WorkerIdentity{Namespace: "default", Component: "backend", InstanceID: "4192", ProducerID: "p", Backend: "vllm"}, nil)
	for _, worker := range []*Worker{testWorker(), other, same} {
		b.Append(goldenRecord(worker))
	}
	logs := b.Take()
	require.Equal(t, 2, logs.ResourceLogs().Len(), "workers with equal resources share one")
	require.Equal(t, 2, logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().Len())
}

func TestWorkerKeysDoNotCollide(t *testing.T) {
	keys := map[string]bool{}
	for _, identity := range []WorkerIdentity{
		{Namespace: "a", Component: "b"},
		{Namespace: "ab"},
		{Component: "ab"},
		{Namespace: `a""b`},
		{Namespace: "a", InstanceID: "b"},
		{Namespace: "a", ProducerID: "b"},
		{Namespace: "a", Backend: "b"},
	} {
		keys[NewWorker(identity, nil).Key()] = true
		keys[NewWorker(identity, map[string]any{"x": 1}).Key()] = true
		keys[NewWorker(identity, map[string]any{"x": "1"}).Key()] = true
		keys[NewWorker(identity, map[string]any{"x": 1.0}).Key()] = true
		keys[NewWorker(identity, map[string]any{"x": math.NaN(), "rack": "a"}).Key()] = true
		keys[NewWorker(identity, map[string]any{"x": math.NaN(), "rack": "b"}).Key()] = true
	}
	require.Len(t, keys, 42)
}

func TestSMP_23_OnlyPassesAreForwardPasses(t *testing.T) {
	require.False(t, IsForwardPassLog(plog.NewLogRecord()))
	span := ptrace.NewSpan()
	require.False(t, IsForwardPassSpan(span))
	span.Attributes().PutStr(AttrCounterID, "42")
	require.False(t, IsForwardPassSpan(span))
	span.Attributes().PutInt(AttrCounterID, 42)
	require.True(t, IsForwardPassSpan(span))
}

func BenchmarkLogs(b *testing.B) {
	for _, form := range []struct {
		name    string
		asBytes bool
	}{{"map", false}, {"msgpack", true}} {
		b.Run(form.name, func(b *testing.B) {
			builder := NewLogsBuilder("scope", "")
			r := goldenRecord(testWorker())
			r.AsBytes = form.asBytes
			b.ReportAllocs()
			b.SetBytes(1)
			for i := 0; b.Loop(); i++ {
				builder.Append(r)
				if i%100 == 99 {
					builder.Take()
				}
			}
		})
	}
}
