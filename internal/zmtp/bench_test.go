// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

// cpuTime is what this process has used, user and system.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU reports the CPU time per message since start.
func reportCPU(b *testing.B, start time.Duration) {
	b.Helper()
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/msg")
}

// BenchmarkRead is the parser alone: reads cost nothing (ZMQ-64).
func BenchmarkRead(b *testing.B) {
	short := zmtptest.Message(zmtptest.Numbered(1, make([]byte, 200))...)
	long := zmtptest.Message(zmtptest.Numbered(1, make([]byte, 440))...)
	for name, message := range map[string][]byte{
		"short": short,
		"long":  long,
		"mixed": slices.Concat(short, long, zmtptest.Ping(0, "")),
	} {
		b.Run(name, func(b *testing.B) {
			chunk := bytes.Repeat(message, baseBufferSize/len(message))
			c := newLoopConnection(chunk)
			var m Message
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				if f := c.next(&m); f != nil {
					b.Fatal(f)
				}
			}
			reportCPU(b, start)
		})
	}
}

// counter is a Handler that counts messages of all its endpoints and missing
// sequences of one.
type counter struct {
	messages *atomic.Int64
	target   int64
	reached  chan struct{}
}

func (c *counter) OnMessage(*Message) {
	if c.messages.Add(1) == c.target {
		close(c.reached)
	}
}
func (*counter) OnConnect(uint64)       {}
func (*counter) OnAttemptFailed(*Error) {}
func (*counter) OnDisconnect(*Error)    {}
func (*counter) OnStatus(bool, *Error)  {}
func (*counter) OnIO(int, int)          {}

// BenchmarkLoopback receives b.N messages from publishers in another process
// (ZMQ-64). Set-up is not measured.
func BenchmarkLoopback(b *testing.B) {
	for _, load := range []zmtptest.Load{
		{Endpoints: 1, PayloadSize: 440},
		{Endpoints: 1, PayloadSize: 440, Rate: 50_000},
		{Endpoints: 128, PayloadSize: 440, Rate: 50},
		{Endpoints: 512, PayloadSize: 440, Rate: 50},
	} {
		name := fmt.Sprintf("endpoints=%d/rate=%d", load.Endpoints, load.Rate)
		if load.Rate == 0 {
			name = fmt.Sprintf("endpoints=%d/saturated", load.Endpoints)
		}
		b.Run(name, func(b *testing.B) { benchmarkLoopback(b, load) })
	}
}

func benchmarkLoopback(b *testing.B, load zmtptest.Load) {
	b.Helper()
	endpoints := zmtptest.StartLoad(b, load)
	s := NewSubscriber(Config{})
	defer func() { require.NoError(b, s.Close(context.Background())) }()
	var warm, messages atomic.Int64
	started := make(chan struct{})
	warmup := &counter{messages: &warm, target: 1, reached: started}
	measured := &counter{messages: &messages, target: int64(b.N), reached: make(chan struct{})}
	handler := &switchHandler{Handler: warmup}
	for _, e := range endpoints {
		require.NoError(b, s.Add(mustParse(b, e), handler))
	}
	<-started
	time.Sleep(200 * time.Millisecond) // until all have subscribed
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime(b)
	handler.on.Store(measured)
	<-measured.reached
	b.StopTimer()
	reportCPU(b, start)
}

// switchHandler hands messages to a counter that is set while it runs.
type switchHandler struct {
	Handler
	on atomic.Pointer[counter]
}

func (h *switchHandler) OnMessage(m *Message) {
	if c := h.on.Load(); c != nil {
		c.OnMessage(m)
		return
	}
	h.Handler.OnMessage(m)
}
