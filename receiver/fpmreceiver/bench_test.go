// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

func nopSettings() receiver.Settings { return receivertest.NewNopSettings(metadata.Type) }

// numbered is the golden message with a sequence that goes up.
type numbered struct {
	zmtp.Message
	sequence uint64
}

func benchMessage() *numbered {
	return &numbered{Message: zmtp.Message{Frames: zmtptest.Numbered(0, golden()), ReceivedAt: time.Now(), Generation: 1}}
}

func (m *numbered) next() {
	m.sequence++
	binary.BigEndian.PutUint64(m.Frames[1], m.sequence)
}

// counting is a consumer that costs nothing.
type counting struct{ records atomic.Int64 }

func (*counting) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (c *counting) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	c.records.Add(int64(logs.LogRecordCount()))
	return nil
}

// BenchmarkReceive is the way of a message from its frames on: decoding alone,
// with loss accounting, with its share in the metrics, and to the consumer of its
// log record. What the metrics cost a message is "metrics" less "decode".
func BenchmarkReceive(b *testing.B) {
	b.Run("decode", benchmarkDecode)
	b.Run("account", func(b *testing.B) { benchmarkReceive(b, testConfig(nobody), nil, nil) })
	b.Run("metrics", func(b *testing.B) { benchmarkReceive(b, testConfig(nobody), nil, consumertest.NewNop()) })
	for _, body := range []string{bodyMap, bodyMsgpack} {
		b.Run("logs_"+body, func(b *testing.B) {
			cfg := testConfig(nobody)
			cfg.Logs.Body = body
			cfg.Queue = QueueConfig{MaxRecords: 1 << 30, MaxBytes: 1 << 40}
			benchmarkReceive(b, cfg, &counting{}, nil)
		})
	}
}

func benchmarkDecode(b *testing.B) {
	var decoder fpm.Decoder
	var pass fpm.ForwardPass
	message := benchMessage()
	b.ReportAllocs()
	b.SetBytes(1)
	for b.Loop() {
		message.next()
		sequence, payload, err := fpm.ParseFrames(message.Frames)
		if err == nil {
			err = decoder.Decode(payload, sequence, &pass)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkReceive(b *testing.B, cfg *Config, next *counting, metrics consumer.Metrics) {
	b.Helper()
	r, err := newReceiver(cfg, nopSettings())
	require.NoError(b, err)
	r.nextMetrics = metrics
	if next != nil {
		r.nextLogs = next
	}
	require.NoError(b, r.Start(b.Context(), &statusHost{}))
	message := benchMessage()
	b.ReportAllocs()
	b.SetBytes(1)
	for b.Loop() {
		message.next()
		r.publishers[0].OnMessage(&message.Message)
		// The queue must not grow without end, or memory is what is measured.
		if next != nil && message.sequence%4096 == 0 {
			waitUntilDelivered(next, message.sequence)
		}
	}
	if next != nil {
		waitUntilDelivered(next, message.sequence)
	}
	b.StopTimer()
	require.NoError(b, r.Shutdown(b.Context()))
	require.Equal(b, int64(message.sequence), r.publishers[0].counts.records.Load())
}

func waitUntilDelivered(next *counting, records uint64) {
	for next.records.Load() < int64(records) {
		time.Sleep(10 * time.Microsecond)
	}
}
