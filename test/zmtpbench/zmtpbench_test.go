// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtpbench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

func TestMain(m *testing.M) {
	zmtptest.LoadMain()
	m.Run()
}

// payloadSize is that of an FPM record with all keys.
const payloadSize = 440

// client subscribes to all endpoints and calls onMessage for each message, from
// several goroutines. stop returns when it has ended.
type client func(tb testing.TB, endpoints []string, onMessage func()) (stop func())

func BenchmarkSideBySide(b *testing.B) {
	for _, tt := range []struct {
		name     string
		load     zmtptest.Load
		messages int64 // of one measurement
		// guard is the largest allowed ratio of CPU time, ours by theirs; 0 is none.
		guard float64
	}{
		{"saturated", zmtptest.Load{Endpoints: 1}, 100_000, 1.0 / 3},
		{"paced", zmtptest.Load{Endpoints: 1, Rate: 50_000}, 50_000, 0},
		{"endpoints=128", zmtptest.Load{Endpoints: 128, Rate: 50}, 6_400, 0},
	} {
		tt.load.PayloadSize = payloadSize
		b.Run(tt.name, func(b *testing.B) { compare(b, tt.load, tt.messages, tt.guard) })
	}
}

// compare measures both in turns, so that a busy machine hits both, and compares
// the medians.
func compare(b *testing.B, load zmtptest.Load, messages int64, guard float64) {
	b.Helper()
	const rounds = 3
	endpoints := zmtptest.StartLoad(b, load)
	var ours, theirs []time.Duration
	for b.Loop() {
		for range rounds {
			ours = append(ours, measure(b, own, endpoints, messages))
			theirs = append(theirs, measure(b, goZeroMQ, endpoints, messages))
		}
	}
	o, t := median(ours), median(theirs)
	ratio := float64(o) / float64(t)
	b.ReportMetric(0, "ns/op") // an op is a whole comparison and says nothing
	b.ReportMetric(float64(o), "own-cpu-ns/msg")
	b.ReportMetric(float64(t), "zmq4-cpu-ns/msg")
	b.ReportMetric(1/ratio, "x")
	if guard > 0 && ratio > guard {
		b.Errorf("the client costs %v of CPU per message and go-zeromq %v: a ratio of %.2f, at most %.2f is allowed", o, t, ratio, guard)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// measure gives the CPU time of this process per message, without set-up.
func measure(b *testing.B, c client, endpoints []string, messages int64) time.Duration {
	b.Helper()
	var count, target atomic.Int64
	target.Store(-1)
	warm, done := make(chan struct{}), make(chan struct{})
	warmMessages := int64(10 * len(endpoints))
	stop := c(b, endpoints, func() {
		switch n := count.Add(1); n {
		case warmMessages:
			close(warm)
		case target.Load():
			close(done)
		}
	})
	defer stop()
	<-warm
	start, first := cpuTime(b), count.Load()
	// Far enough ahead that no message passes the target before it is set.
	target.Store(first + messages)
	if count.Load() >= first+messages {
		b.Fatal("too few messages for a measurement")
	}
	<-done
	return (cpuTime(b) - start) / time.Duration(messages)
}

func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// handler takes messages only.
type handler struct{ onMessage func() }

func (h handler) OnMessage(*zmtp.Message)   { h.onMessage() }
func (handler) OnConnect(uint64)            {}
func (handler) OnAttemptFailed(*zmtp.Error) {}
func (handler) OnDisconnect(*zmtp.Error)    {}
func (handler) OnStatus(bool, *zmtp.Error)  {}
func (handler) OnIO(int, int)               {}

func own(tb testing.TB, endpoints []string, onMessage func()) (stop func()) {
	tb.Helper()
	s := zmtp.NewSubscriber(zmtp.DefaultConfig())
	for _, text := range endpoints {
		e, err := zmtp.ParseEndpoint(text)
		require.NoError(tb, err)
		require.NoError(tb, s.Add(e, handler{onMessage}))
	}
	return func() { require.NoError(tb, s.Close(context.Background())) }
}

// goZeroMQ has a socket and a goroutine for each endpoint, as the own client has.
func goZeroMQ(tb testing.TB, endpoints []string, onMessage func()) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var (
		sockets []zmq4.Socket
		reading sync.WaitGroup
	)
	for _, endpoint := range endpoints {
		socket := zmq4.NewSub(ctx)
		require.NoError(tb, socket.Dial(endpoint))
		require.NoError(tb, socket.SetOption(zmq4.OptionSubscribe, ""))
		sockets = append(sockets, socket)
		reading.Go(func() {
			for {
				if _, err := socket.Recv(); err != nil {
					return
				}
				onMessage()
			}
		})
	}
	return func() {
		cancel()
		for _, socket := range sockets {
			_ = socket.Close()
		}
		reading.Wait()
	}
}
