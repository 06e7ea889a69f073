// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

func TestZMQ58EndpointsComeAndGo(t *testing.T) {
	a, b := zmtptest.ListenTCP(t), zmtptest.ListenTCP(t)
	s := newSubscriber(t, fastConfig())
	ra := add(t, s, a.Endpoint())
	pa := a.Accept()
	pa.Handshake()
	rb := add(t, s, b.Endpoint())
	pb := b.Accept()
	pb.Handshake()

	require.NoError(t, s.Remove(mustParse(t, a.Endpoint())))
	pa.WaitClosed()
	events := ra.all()
	pb.Publish([]byte("x"))
	rb.waitMessages(t, 1)
	require.Equal(t, []string{"connect 1", "up"}, rb.all(), "the other is undisturbed")
	require.Equal(t, events, ra.all(), "no event of the removed one")

	ra = add(t, s, a.Endpoint())
	a.Accept().Handshake()
	ra.waitEvent(t, "connect 1") // a new life
}

func TestZMQ58AddedAgainItStartsAnew(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.net.refuse(errRefused)
		b.start()
		time.Sleep(time.Minute) // n is high
		require.NoError(t, b.sub.Remove(testEndpoint))
		b.start()
		began := time.Now()
		time.Sleep(600 * time.Millisecond)
		dials := b.net.dialTimes()
		require.Less(t, dials[len(dials)-1].Sub(began), 600*time.Millisecond)
		require.GreaterOrEqual(t, b.count("failed dial"), 2)
	})
}

func TestZMQ58SetErrors(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		require.ErrorContains(t, b.sub.Add(testEndpoint, b), testEndpoint.String()+": the endpoint is subscribed to already")
		require.ErrorContains(t, b.sub.Remove(Endpoint{network: networkUnix, path: "/p"}), "ipc:///p: the endpoint is not subscribed to")
		require.ErrorContains(t, b.sub.Add(Endpoint{}, b), "no endpoint")
		require.NoError(t, b.sub.Close(context.Background()))
		require.NoError(t, b.sub.Close(context.Background()), "twice is harmless")
		require.ErrorContains(t, b.sub.Add(testEndpoint, b), "closed")
		require.Error(t, b.sub.Remove(testEndpoint))
	})
}

func TestConfigDefaults(t *testing.T) {
	require.Equal(t, DefaultConfig(), Config{}.withDefaults())
	cfg := Config{
		DialTimeout: 1, HandshakeTimeout: 2, IdleTimeout: 3, InitialBackoff: 4, MaxBackoff: 5, MaxMessageSize: 6,
	}
	require.Equal(t, cfg, cfg.withDefaults())
}

// TestZMQ49ZMQ51ZMQ59ZF48ManyEndpoints has 512 endpoints: 509 good ones, one
// refused, one silent, one hostile.
func TestZMQ49ZMQ51ZMQ59ZF48ManyEndpoints(t *testing.T) {
	const endpoints, refused, silent, hostile, messages = 512, 0, 1, 2, 20
	p := make([]*zmtptest.Publisher, endpoints)
	s := newSubscriber(t, fastConfig())
	recorders := make([]*recorder, endpoints)
	for i := range p {
		switch i {
		case refused:
			recorders[i] = add(t, s, "tcp://127.0.0.1:1")
		case silent:
			recorders[i] = add(t, s, zmtptest.ListenTCP(t).Endpoint()) // accepts, says nothing
		case hostile:
			recorders[i] = add(t, s, newHostile(t).Endpoint())
		default:
			var err error
			p[i], err = zmtptest.NewPublisher("unix", fmt.Sprintf("@otelcol-fpm-%p-%d", t, i), zmtptest.PublisherConfig{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p[i].Close()) })
			recorders[i] = add(t, s, p[i].Endpoint())
		}
	}
	good := p[hostile+1:]
	for _, publisher := range good {
		publisher.WaitSubscribers(1)
	}
	for sequence := range uint64(messages) {
		for _, publisher := range good {
			publisher.Publish(zmtptest.Numbered(sequence, []byte("payload"))...)
		}
	}
	for i := range good {
		r := recorders[hostile+1+i]
		r.waitMessages(t, messages)
		for sequence, got := range r.sequences(t) {
			require.Equal(t, uint64(sequence), got)
		}
		require.Equal(t, []string{"connect 1", "up"}, r.all())
	}
	recorders[refused].waitEvent(t, "failed dial")
	recorders[hostile].waitEvent(t, "disconnect too_large")
	require.Zero(t, recorders[silent].count("connect 1"))

	began := time.Now()
	requireClose(t, s)
	require.Less(t, time.Since(began), 5*time.Second, "100 ms on a machine that does nothing else")
	t.Logf("stopped %d endpoints in %v", endpoints, time.Since(began))
}

// newHostile serves clients that get ZF-20 after the handshake.
func newHostile(t *testing.T) *zmtptest.Server {
	t.Helper()
	server := zmtptest.ListenTCP(t)
	ended := make(chan struct{})
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		server.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, ok := server.TryAccept(stop)
			if !ok {
				return
			}
			_, _ = conn.Write(bytes.Join([][]byte{pubGreeting, pubReady, []byte("\x02\x7f\xff\xff\xff\xff\xff\xff\xf0")}, nil))
			drain(conn)
			_ = conn.Close()
		}
	}()
	return server
}

func TestZMQ51ManyEndpointsStopWithoutATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &pipeNet{conns: make(chan net.Conn)}
		s := NewSubscriber(Config{})
		s.dial = n.dial
		r := &recorder{}
		for i := range 512 {
			require.NoError(t, s.Add(Endpoint{network: networkTCP, host: "engine", port: uint16(i + 1)}, r))
		}
		for range 256 { // half of them connected, the others dialing
			zmtptest.NewPeer(t, <-n.conns).Handshake()
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, s.Close(context.Background()))
		require.Zero(t, time.Since(began))
	})
}
