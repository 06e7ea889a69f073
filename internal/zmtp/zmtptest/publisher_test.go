// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtptest_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPublisher(t *testing.T, cfg zmtptest.PublisherConfig) *zmtptest.Publisher {
	t.Helper()
	p, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// subscribe is a bare subscriber, up to the byte where messages begin.
func subscribe(t *testing.T, p *zmtptest.Publisher, subscription string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, zmtptest.ClientGreeting+zmtptest.ClientReady+subscription)
	require.NoError(t, err)
	requireRead(t, conn, append(zmtptest.Greeting(3, 1, "NULL"), zmtptest.ReadyAs("PUB")...))
	return conn
}

func requireRead(t *testing.T, conn net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestPublisherReachesAllSubscribers(t *testing.T) {
	p := newPublisher(t, zmtptest.PublisherConfig{})
	a := subscribe(t, p, zmtptest.SubscribeCommand)
	b := subscribe(t, p, zmtptest.SubscribeMessage)
	p.WaitSubscribers(2)
	frames := zmtptest.Numbered(7, make([]byte, 300))
	p.Publish(frames...)
	requireRead(t, a, zmtptest.Message(frames...))
	requireRead(t, b, zmtptest.Message(frames...))
	require.Zero(t, p.Dropped())
}

func TestPublisherAnswersPing(t *testing.T) {
	p := newPublisher(t, zmtptest.PublisherConfig{})
	conn := subscribe(t, p, zmtptest.SubscribeCommand)
	_, err := conn.Write(zmtptest.Ping(0, "abc"))
	require.NoError(t, err)
	requireRead(t, conn, zmtptest.Pong("abc"))
}

func TestPublisherDropsAtTheHighWaterMark(t *testing.T) {
	p := newPublisher(t, zmtptest.PublisherConfig{HighWaterMark: 2})
	subscribe(t, p, zmtptest.SubscribeCommand)
	p.WaitSubscribers(1)
	large := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		p.Publish(large)
		return p.Dropped() > 0
	}, 30*time.Second, time.Millisecond)
}

func TestPublisherThatBlocksCanBeClosed(t *testing.T) {
	p := newPublisher(t, zmtptest.PublisherConfig{HighWaterMark: 1, Block: true})
	subscribe(t, p, zmtptest.SubscribeCommand)
	p.WaitSubscribers(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 64 {
			p.Publish(make([]byte, 1<<20)) // far more than the sockets hold
		}
	}()
	select {
	case <-done:
		t.Error("Publish did not block")
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, p.Close())
	<-done
	require.Zero(t, p.Dropped())
}

func TestPublisherDisconnect(t *testing.T) {
	p := newPublisher(t, zmtptest.PublisherConfig{})
	conn := subscribe(t, p, zmtptest.SubscribeCommand)
	p.WaitSubscribers(1)
	p.Disconnect()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	subscribe(t, p, zmtptest.SubscribeCommand)
	p.WaitSubscribers(1)
	require.Equal(t, 2, p.Connections())
}
