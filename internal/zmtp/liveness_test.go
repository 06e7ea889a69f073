// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

var ping = string(zmtptest.Ping(0, ""))

func TestZMQ29ZMQ30SilentPeerIsAskedOnceThenLeft(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		quiet := time.Now()
		time.Sleep(3*time.Second - 1)
		require.NotContains(t, string(p.Received()), ping)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Contains(t, string(p.Received()), ping, "one PING after 0.3 x idle_timeout")
		p.WaitClosed()
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(quiet))
		require.Equal(t, 1, strings.Count(string(p.Received()), ping))
		require.ErrorIs(t, b.lastError(t), ErrSilent)
		require.ErrorContains(t, b.lastError(t), "sent nothing for 10s")
	})
}

func TestZMQ29AnyByteIsLife(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		p := b.connect()
		for range 20 { // nothing but PONG, half of it at a time
			time.Sleep(6 * time.Second)
			p.Send([]byte("\x04\x05\x04"))
			time.Sleep(2 * time.Second)
			p.Send([]byte("PONG"))
		}
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ29IdleTimeoutIsConfigurable(t *testing.T) {
	inBubble(t, Config{IdleTimeout: 2 * time.Second}, func(b *bubble) {
		t := b.t
		p := b.connect()
		quiet := time.Now()
		p.WaitClosed()
		synctest.Wait()
		require.Equal(t, 2*time.Second, b.at(t, "disconnect silent").Sub(quiet))
	})
}

func TestZMQ30AtMostOnePingIsOutstanding(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		for range 5 { // never a PONG, but a message now and then
			time.Sleep(8 * time.Second)
			p.Publish([]byte("x"))
		}
		synctest.Wait()
		require.Equal(t, 1, strings.Count(string(p.Received()), ping))
		p.Send(zmtptest.Pong(""))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, strings.Count(string(p.Received()), ping), "the next one after the PONG")
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ30ZF34NoPingToAnOldPeer(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connectOld()
		quiet := time.Now()
		p.WaitClosed()
		synctest.Wait()
		require.NotContains(t, string(p.Received()), "PING")
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(quiet))
	})
}

func TestZMQ31ZF37OurPing(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		subscribed := len(p.Received())
		time.Sleep(4 * time.Second)
		require.Equal(t, "\x04\x07\x04PING\x00\x00", string(p.Received()[subscribed:]))
		p.Send(zmtptest.Pong(""))
		for range 300 {
			p.Publish([]byte("busy"))
			time.Sleep(100 * time.Millisecond)
		}
		b.requireEvents("connect 1", "up")
		require.Len(t, b.got(), 300)
		require.Equal(t, 1, strings.Count(string(p.Received()), ping))
	})
}

func TestZMQ32ZMQ33ZF30PongHasTheSameContext(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		subscribed := len(p.Received())
		want := ""
		for i, context := range []string{"", "ab", "0123456789abcdef"} {
			p.Send(append(zmtptest.Ping(20, context), zmtptest.Message([]byte("m"))...))
			want += string(zmtptest.Pong(context))
			synctest.Wait()
			require.Equal(t, want, string(p.Received()[subscribed:]))
			require.Len(t, b.got(), i+1)
		}
		_, pings := b.io()
		require.Equal(t, 3, pings)
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ32PongComesBeforeTheNextMessage(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		pong := string(zmtptest.Pong("c"))
		b.onMessage = func(*Message) {
			time.Sleep(time.Nanosecond) // until everything else waits
			assert.Contains(t, string(p.Received()), pong)
		}
		p.Send(append(zmtptest.Ping(0, "c"), zmtptest.Message([]byte("m"))...))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, b.got(), 1)
	})
}

func TestZMQ34ZF35TheTTLIsIgnored(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Send(zmtptest.Ping(20, ""))
		quiet := time.Now()
		p.WaitReceived(zmtptest.Pong(""))
		p.WaitClosed()
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(quiet))
	})
}

func TestZMQ35WritesHaveADeadline(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Pause() // a pipe takes nothing then
		synctest.Wait()
		began := time.Now()
		sendAll(p, zmtptest.Ping(0, ""))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 2*time.Second, b.at(t, "disconnect write").Sub(began))
		require.ErrorIs(t, b.lastError(t), ErrWrite)
	})
}

func TestZMQ35ZF36PeerThatPingsAndNeverReads(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	s := newSubscriber(t, fastConfig())
	s.dial = func(ctx context.Context, e Endpoint) (net.Conn, error) {
		conn, err := dialEndpoint(ctx, e)
		if err == nil {
			err = conn.(*net.TCPConn).SetWriteBuffer(4096) // soon full
		}
		return conn, err
	}
	r := add(t, s, server.Endpoint())
	p := server.Accept()
	require.NoError(t, p.Conn().(*net.TCPConn).SetReadBuffer(4096))
	p.Handshake()
	p.Pause()
	pings := []byte(strings.Repeat(string(zmtptest.Ping(0, "0123456789abcdef")), 1000))
	for p.TrySend(pings) {
	}
	r.waitEvent(t, "disconnect write")
	server.Accept().Handshake()
	r.waitEvent(t, "connect 2")
}

func TestZMQ27ZF38DrippedMessageIsCut(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		first := time.Now()
		message := zmtptest.Message(make([]byte, 100))
		drip(p, message)
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(first))
		require.ErrorContains(t, b.lastError(t), "did not complete a message within 10s")
	})
}

func TestZMQ27PingsDoNotProlongAMessage(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		first := time.Now()
		p.Send([]byte("\x01\x00"))
		for p.TrySend(zmtptest.Ping(0, "")) {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(first))
	})
}

func TestZMQ27DrippedCommandIsCut(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Publish([]byte("x"))
		time.Sleep(2 * time.Second)
		first := time.Now()
		command := zmtptest.Command("SLOW", make([]byte, 100))
		drip(p, command)
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(first))
	})
}

func TestZMQ27EachMessageHasItsOwnTime(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		message := zmtptest.Message([]byte("x"))
		p.Send(message[:1])
		for range 10 { // the end of one and the start of the next in each segment
			time.Sleep(8 * time.Second)
			p.Send(append(bytes.Clone(message[1:]), message[0]))
		}
		synctest.Wait()
		require.Len(t, b.got(), 10)
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ27EachCommandHasItsOwnTime(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		p := b.connect()
		pong := zmtptest.Pong("")
		p.Send(pong[:1])
		for range 10 { // the end of one and the start of the next in each segment
			time.Sleep(8 * time.Second)
			p.Send(append(bytes.Clone(pong[1:]), pong[0]))
		}
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ20ZF23ClaimThenSilence(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Send([]byte("\x02\x00\x00\x00\x00\x00\x10\x00\x00" + "0123456789"))
		began := time.Now()
		p.WaitClosed()
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(began))
	})
}

func TestZMQ36ZF42StalledHandlerIsNoSilence(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		stall := true
		b.onMessage = func(*Message) {
			if stall {
				time.Sleep(30 * time.Second)
				stall = false
			}
		}
		p := b.connect()
		// The rest of the second message comes after the stall: that time does not
		// count for ZMQ-27 either.
		p.Send([]byte("\x00\x01a\x00\x05he"))
		sendAll(p, []byte("llo"), zmtptest.Message([]byte("later")))
		time.Sleep(31 * time.Second)
		require.Len(t, b.got(), 3)
		b.requireEvents("connect 1", "up")
		require.NotContains(t, string(p.Received()), ping)

		time.Sleep(2*time.Second - 1) // silence since the last read only
		require.NotContains(t, string(p.Received()), ping)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Contains(t, string(p.Received()), ping)
	})
}

func TestZMQ36DeadlineOfBeforeTheStallDoesNotEndTheWait(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.onMessage = func(*Message) { time.Sleep(30 * time.Second) }
		p := b.connect()
		p.Publish([]byte("x"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		reading := time.Now()
		p.WaitClosed()
		synctest.Wait()
		require.Equal(t, 10*time.Second, b.at(t, "disconnect silent").Sub(reading))
	})
}

func TestZMQ36ZMQ50ZF42StallUnderTraffic(t *testing.T) {
	p, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{HighWaterMark: 100})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	gate := make(chan struct{})
	r := &recorder{onMessage: func(*Message) { <-gate }}
	s := newSubscriber(t, Config{IdleTimeout: 2 * time.Second})
	require.NoError(t, s.Add(mustParse(t, p.Endpoint()), r))
	p.WaitSubscribers(1)

	payload := make([]byte, 32<<10)
	sent := uint64(0)
	publish := func() {
		p.Publish(zmtptest.Numbered(sent, payload)...)
		sent++
	}
	// The stall lasts until the publisher has lost something, and longer than
	// idle_timeout in any case.
	stalled := time.Now()
	for time.Since(stalled) < 2500*time.Millisecond || p.Dropped() == 0 {
		publish()
		time.Sleep(500 * time.Microsecond)
	}
	close(gate)
	require.Eventually(t, func() bool {
		dropped := p.Dropped()
		publish()
		return p.Dropped() == dropped && len(r.got()) > 0 && r.sequencesEnd(t) >= sent-1
	}, eventually, 10*time.Millisecond)

	sequences := r.sequences(t)
	missing := uint64(0)
	for i := 1; i < len(sequences); i++ {
		require.Greater(t, sequences[i], sequences[i-1])
		missing += sequences[i] - sequences[i-1] - 1
	}
	require.Equal(t, p.Dropped(), missing, "what is lost is the publisher's loss")
	require.Zero(t, r.count("disconnect silent"), r.all())
}

func (r *recorder) sequencesEnd(t *testing.T) uint64 {
	t.Helper()
	all := r.sequences(t)
	return all[len(all)-1]
}

func TestZMQ37ZF32PausedPublisherThatAnswersPing(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		b.forget()
		began := time.Now()
		for answered := 0; answered < 20; { // 60 s
			time.Sleep(time.Second)
			if n := strings.Count(string(p.Received()), ping); n > answered {
				p.Send(zmtptest.Pong(""))
				answered = n
			}
		}
		synctest.Wait()
		require.Empty(t, b.all(), "no status event")
		require.Less(t, time.Since(began), 90*time.Second, "asked again 3 s after each answer")
	})
}

func TestZF31HeartbeatsOfAPublisher(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		// libzmq with ZMQ_HEARTBEAT_IVL and _TIMEOUT 400 ms: it closes when no PONG
		// came in time.
		p := b.connect()
		for i := range uint64(25) {
			before := len(p.Received())
			p.Send(zmtptest.Ping(0, ""))
			p.Publish(zmtptest.Numbered(i, []byte("x"))...)
			synctest.Wait()
			require.Equal(t, string(zmtptest.Pong("")), string(p.Received()[before:]))
			time.Sleep(400 * time.Millisecond)
		}
		require.Len(t, b.got(), 25)
		b.requireEvents("connect 1", "up")
	})
}

func TestZF33StoppedPeer(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	cfg := fastConfig()
	cfg.IdleTimeout = 300 * time.Millisecond
	s := newSubscriber(t, cfg)
	r := add(t, s, server.Endpoint())
	p := server.Accept()
	p.Handshake()
	p.Pause() // the kernel takes bytes, nobody answers: as after SIGSTOP
	r.waitEvent(t, "disconnect silent")
	server.Accept().Handshake()
	r.waitEvent(t, "connect 2")
}

func TestZMQ38KeepaliveStaysOn(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	conn, err := dialEndpoint(context.Background(), mustParse(t, server.Endpoint()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	server.Accept()
	require.True(t, keepaliveOn(t, conn))
}
