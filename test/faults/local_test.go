// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
)

// local is a publisher inside the test, for tests that need hundreds of them. Like
// the other one it writes its log before it sends.
type local struct {
	*zmtptest.Publisher
	worker string
	log    []accounting.Message
}

func newLocal(t *testing.T, worker string) *local {
	t.Helper()
	p, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{HighWaterMark: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return &local{Publisher: p, worker: worker}
}

// publish sends one record to all who are subscribed.
func (l *local) publish() {
	sequence := len(l.log)
	pass := fpm.ForwardPass{
		WorkerID: []byte(l.worker), CounterID: int64(sequence), WallTime: 0.025,
		Scheduled: fpm.Scheduled{DecodeRequests: 1, DecodeKVTokens: int64(sequence) + 1},
	}
	payload := fpm.AppendPayload(nil, &pass)
	l.log = append(l.log, accounting.Message{
		Endpoint: l.Endpoint(), Sequence: uint64(sequence), WorkerID: l.worker,
		Text:   string(tracefile.AppendPayloadJSON(nil, payload)),
		SentNS: time.Now().UnixNano(),
	})
	l.Publish(zmtptest.Numbered(uint64(sequence), payload)...)
}

// fleet is many of them.
type fleet []*local

func (f fleet) sent() (messages []accounting.Message) {
	for _, l := range f {
		messages = append(messages, l.log...)
	}
	return messages
}

func (f fleet) endpoints() (endpoints []string) {
	for _, l := range f {
		endpoints = append(endpoints, l.Endpoint())
	}
	return endpoints
}

func (f fleet) subscribers() (n int) {
	for _, l := range f {
		n += l.Subscribers()
	}
	return n
}

// publish sends rounds of one record of each publisher, spread over the interval.
func (f fleet) publish(rounds int, interval time.Duration) {
	start := time.Now()
	for i := range rounds * len(f) {
		time.Sleep(time.Until(start.Add(interval * time.Duration(i) / time.Duration(len(f)))))
		f[i%len(f)].publish()
	}
}

// hostile listens and does the same to each client, until the end of the test. The
// connection is closed when the script returns.
func hostile(t *testing.T, script func(net.Conn)) (endpoint string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed by the test
	require.NoError(t, err)
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			running.Go(func() {
				script(conn)
				mu.Lock()
				defer mu.Unlock()
				delete(open, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "tcp://" + listener.Addr().String()
}

// says is a script that writes and then waits for the client to go.
func says(chunks ...[]byte) func(net.Conn) {
	return func(conn net.Conn) {
		for _, b := range chunks {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}

// endless is a script that writes the same for as long as the client takes it.
func endless(first, again []byte) func(net.Conn) {
	return func(conn net.Conn) {
		for _, err := conn.Write(first); err == nil; {
			_, err = conn.Write(again)
		}
	}
}

// handshake is what a good publisher writes first.
func handshake() []byte {
	return append(zmtptest.Greeting(3, 1, "NULL"), zmtptest.ReadyAs("PUB")...)
}
