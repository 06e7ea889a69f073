// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

var (
	pubGreeting = zmtptest.Greeting(3, 1, "NULL")
	pubReady    = zmtptest.ReadyAs("PUB")
)

func TestZMQ1ZMQ5ZMQ8ZF51NothingIsWrittenTooEarly(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		synctest.Wait()
		require.Equal(t, zmtptest.ClientGreeting, string(p.Received()), "the greeting is written before the peer's")

		p.Send(pubGreeting)
		time.Sleep(time.Second)
		require.Equal(t, zmtptest.ClientGreeting+zmtptest.ClientReady, string(p.Received()), "no subscription before READY was read")

		p.Send(pubReady)
		synctest.Wait()
		require.Equal(t, zmtptest.ClientGreeting+zmtptest.ClientReady+zmtptest.SubscribeCommand, string(p.Received()))
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ5ReadyWaitsForTheGreeting(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		p.Send(pubGreeting[:63])
		time.Sleep(time.Second)
		require.Equal(t, zmtptest.ClientGreeting, string(p.Received()))
	})
}

// failure runs one attempt at a peer that sends these bytes and gives its error.
func failure(t *testing.T, sent ...[]byte) *Error {
	t.Helper()
	var failed *Error
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		began := time.Now()
		sendAll(p, sent...)
		synctest.Wait()
		require.Zero(t, time.Since(began), "the error comes at once, not at a deadline")
		p.WaitClosed()
		failed = b.lastError(t)
		reason := failed.Reason.String()
		b.requireEvents("failed "+reason, "down "+reason)
		require.Equal(t, testEndpoint, failed.Endpoint)
	})
	return failed
}

func TestZMQ2GreetingIsCheckedAsItArrives(t *testing.T) {
	for name, tt := range map[string]struct{ sent, says string }{
		"ZF-9 HTTP":            {"HTTP/1.1 400 Bad Request\r\n\r\n", `HTTP/1.1 400 Bad Request\x0d\x0a`},
		"ZF-10 SSH":            {"SSH-2.0-OpenSSH_9.6\r\n", `SSH-2.0-OpenSSH_9.6\x0d\x0a`},
		"one byte":             {"H", "H"},
		"wrong signature end":  {"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7e", `\xff`},
		"ZMTP 1.0 frame":       {"\x01\x00", `\x01\x00`},
		"only 255 bytes of it": {strings.Repeat("\n", 400), strings.Repeat(`\x0a`, 63) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := failure(t, []byte(tt.sent))
			require.ErrorIs(t, err, ErrGreeting)
			require.ErrorContains(t, err, tt.says)
			require.ErrorContains(t, err, testEndpoint.String())
		})
	}
}

func TestZMQ2NineBytesOfASignatureAreNoError(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.start()
		p := b.accept()
		p.Send([]byte("\xff12345678"))
		time.Sleep(time.Second)
		b.requireEvents()
	})
}

func TestZMQ3ZF11Versions(t *testing.T) {
	err := failure(t, zmtptest.Greeting(2, 1, "NULL"))
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "ZMTP 2.1")
	require.ErrorContains(t, err, "3.0")
	require.ErrorIs(t, failure(t, zmtptest.Greeting(2, 0, "NULL")[:12]), ErrVersion, "a 2.0 greeting has 12 bytes")

	for _, v := range []struct{ major, minor byte }{{3, 0}, {3, 1}, {3, 2}, {3, 255}, {4, 0}, {255, 0}} {
		t.Run(fmt.Sprintf("%d.%d", v.major, v.minor), func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				t := b.t
				b.start()
				p := b.accept()
				p.HandshakeWith(zmtptest.Greeting(v.major, v.minor, "NULL"), pubReady)
				p.Publish([]byte("x"))
				b.requireEvents("connect 1", "up")
				require.Len(t, b.got(), 1)
				form := zmtptest.SubscribeCommand
				if v.major == 3 && v.minor == 0 {
					form = zmtptest.SubscribeMessage
				}
				require.Equal(t, zmtptest.ClientGreeting+zmtptest.ClientReady+form, string(p.Received()))
			})
		})
	}
}

func TestZMQ4ZF12Mechanisms(t *testing.T) {
	for mechanism, says := range map[string]string{
		"PLAIN":                `"PLAIN"`,
		"CURVE":                `"CURVE"`,
		"NULL\x00X":            `"NULL\x00X"`,
		"\x1b]0;":              `"\x1b]0;"`,
		"NULLNULLNULLNULLNULL": `"NULLNULLNULLNULLNULL"`,
		"":                     `""`,
	} {
		err := failure(t, zmtptest.Greeting(3, 1, mechanism))
		require.ErrorIs(t, err, ErrMechanism)
		require.ErrorContains(t, err, says)
	}
}

func TestZMQ6TheFirstFrame(t *testing.T) {
	for name, tt := range map[string]struct {
		sent []byte
		want error
		says string
	}{
		"ZF-18 message":            {zmtptest.Message([]byte("x")), ErrProtocol, "before READY"},
		"ZF-18 message header":     {[]byte{0x02}, ErrProtocol, "before READY"},
		"other command":            {zmtptest.Ping(0, ""), ErrProtocol, `"PING" before READY`},
		"ERROR":                    {zmtptest.Error("go away"), ErrPeerError, "go away"},
		"ZF-19 escaped ERROR":      {zmtptest.Error("a\x1b[31m\n"), ErrPeerError, `"a\x1b[31m\x0a"`},
		"empty ERROR":              {zmtptest.Error(""), ErrPeerError, "refuses"},
		"long ERROR is cut":        {zmtptest.Error(strings.Repeat("\n", 255)), ErrPeerError, strings.Repeat(`\x0a`, 63) + `"`},
		"ERROR without a reason":   {zmtptest.Command("ERROR", nil), ErrProtocol, "broken ERROR"},
		"ERROR with a false size":  {zmtptest.Command("ERROR", []byte("\x02a")), ErrProtocol, "broken ERROR"},
		"ZF-26 reserved flags":     {[]byte{0x84}, ErrProtocol, "0x84"},
		"ZF-26 MORE and COMMAND":   {[]byte{0x05}, ErrProtocol, "0x05"},
		"ZF-27 command of 0 bytes": {[]byte{0x04, 0x00}, ErrProtocol, "without a name"},
		"ZF-27 name beyond body":   {[]byte{0x04, 0x01, 0x05}, ErrProtocol, "name of 5"},
	} {
		t.Run(name, func(t *testing.T) {
			err := failure(t, pubGreeting, tt.sent)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.says)
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestZMQ6ZF19RefusalWaitsLongest(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		sendAll(p, pubGreeting, zmtptest.Error("no"))
		p.WaitClosed()
		failedAt := b.at(t, "failed peer_error")
		b.accept()
		wait := time.Since(failedAt)
		require.GreaterOrEqual(t, wait, 5*time.Second)
		require.LessOrEqual(t, wait, 10*time.Second)
	})
}

func manyProperties(n int) []zmtptest.Property {
	all := []zmtptest.Property{{Name: "Socket-Type", Value: "PUB"}}
	for i := range n - 1 {
		all = append(all, zmtptest.Property{Name: fmt.Sprintf("X-%d", i), Value: "12345"})
	}
	return all
}

func TestZMQ7ReadyAccepted(t *testing.T) {
	long := zmtptest.Command("READY", pubReady[8:])
	long = zmtptest.Frame(zmtptest.FlagCommand|zmtptest.FlagLong, long[2:])
	for name, ready := range map[string][]byte{
		"PUB":                  pubReady,
		"XPUB":                 zmtptest.ReadyAs("XPUB"),
		"long frame":           long,
		"ZF-14 200 properties": zmtptest.Ready(manyProperties(200)...),
		"ZF-17 lower case and Identity": zmtptest.Ready(
			zmtptest.Property{Name: "socket-type", Value: "PUB"},
			zmtptest.Property{Name: "Identity", Value: strings.Repeat("i", 36)}),
		"unknown ones, empty values": zmtptest.Ready(
			zmtptest.Property{Name: "Resource"},
			zmtptest.Property{Name: "X-Debug", Value: "\x00\xff"},
			zmtptest.Property{Name: "Socket-Type", Value: "XPUB"},
			zmtptest.Property{Name: "SOCKET-TYPE", Value: "PUB"}),
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(ready), 4096+9)
			inBubble(t, Config{}, func(b *bubble) {
				b.start()
				b.accept().HandshakeWith(pubGreeting, ready)
				b.requireEvents("connect 1", "up")
			})
		})
	}
}

func TestZMQ7ReadyRefused(t *testing.T) {
	property := func(name, value string) zmtptest.Property { return zmtptest.Property{Name: name, Value: value} }
	for name, tt := range map[string]struct {
		ready []byte
		want  error
		says  string
	}{
		"ZF-13 value length missing": {zmtptest.Command("READY", []byte("\x03abc")), ErrProtocol, "property name"},
		"ZF-14 value length 7fffffff": {
			zmtptest.Command("READY", []byte("\x0bSocket-Type\x7f\xff\xff\xffPUB")), ErrProtocol, "2147483647",
		},
		"value length one too many": {
			zmtptest.Command("READY", []byte("\x0bSocket-Type\x00\x00\x00\x04PUB")), ErrProtocol, "4 bytes with 3 left",
		},
		"value length ffffffff": {
			zmtptest.Command("READY", []byte("\x0bSocket-Type\xff\xff\xff\xffPUB")), ErrProtocol, "4294967295",
		},
		"ZF-14 name length 0":        {zmtptest.Command("READY", []byte("\x00\x00\x00\x00\x00")), ErrProtocol, "property name"},
		"name length beyond":         {zmtptest.Command("READY", []byte("\xffabc")), ErrProtocol, "property name"},
		"cut in value length":        {zmtptest.Command("READY", []byte("\x01a\x00\x00\x00")), ErrProtocol, "property name"},
		"trailing byte":              {zmtptest.Command("READY", append(bytes.Clone(pubReady[8:]), 1)), ErrProtocol, "property name"},
		"ZF-15 5,000 bytes":          {zmtptest.Command("READY", make([]byte, 5000)), ErrProtocol, "4096 are allowed"},
		"ZF-16 PULL":                 {zmtptest.ReadyAs("PULL"), ErrSocketType, `"PULL"`},
		"ZF-16 lower case":           {zmtptest.ReadyAs("pub"), ErrSocketType, `"pub"`},
		"ZF-16 none":                 {zmtptest.Ready(property("Identity", "x")), ErrSocketType, "does not say"},
		"no property":                {zmtptest.Command("READY", nil), ErrSocketType, "does not say"},
		"second Socket-Type is SUB":  {zmtptest.Ready(property("Socket-Type", "PUB"), property("socket-type", "SUB")), ErrSocketType, `"SUB"`},
		"escape in the socket type":  {zmtptest.ReadyAs("\x1bc"), ErrSocketType, `"\x1bc"`},
		"READY in lower case is not": {zmtptest.Command("ready", pubReady[8:]), ErrProtocol, `"ready" before READY`},
	} {
		t.Run(name, func(t *testing.T) {
			err := failure(t, pubGreeting, tt.ready)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestZMQ9FormOfTheSubscription(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		p := b.connectOld()
		require.Equal(b.t, zmtptest.ClientGreeting+zmtptest.ClientReady+zmtptest.SubscribeMessage, string(p.Received()))
	})
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		require.Equal(t, zmtptest.ClientGreeting+zmtptest.ClientReady+zmtptest.SubscribeCommand, string(p.Received()))
	})
}

func TestZMQ10ZF40EverythingInOneSegment(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		all := append(bytes.Clone(pubGreeting), pubReady...)
		for i := range uint64(5) {
			all = zmtptest.AppendMessage(all, zmtptest.Numbered(i, []byte("payload"))...)
		}
		before := time.Now()
		p.Send(all)
		synctest.Wait()
		require.Equal(t, []uint64{0, 1, 2, 3, 4}, b.sequences(t))
		require.Equal(t, before, b.got()[0].at, "the receive time is that of the read")
	})
}

func TestZMQ11TheOnlyTopicIsTheEmptyPrefix(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Publish([]byte("topic"), []byte("x"))
		p.Publish([]byte{}, []byte("y"))
		synctest.Wait()
		require.Len(t, b.got(), 2)
	})
}

func TestZMQ12ZF7SilentPeerFailsAtTheDeadline(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		began := time.Now()
		p.WaitClosed()
		synctest.Wait()
		require.Equal(t, 5*time.Second, b.at(t, "failed timeout").Sub(began))
		require.ErrorIs(t, b.lastError(t), ErrTimeout)
	})
}

func TestZMQ12PeerThatReadsNothingFailsAtTheDeadline(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		conn := <-b.net.conns
		defer func() { _ = conn.Close() }()
		began := time.Now()
		time.Sleep(6 * time.Second)
		require.Equal(t, 5*time.Second, b.at(t, "failed timeout").Sub(began))
	})
}

func TestZMQ12ZF8DripDoesNotExtendTheDeadline(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		p := b.accept()
		began := time.Now()
		drip(p, pubGreeting)
		synctest.Wait()
		require.Equal(t, 5*time.Second, b.at(t, "failed timeout").Sub(began))
	})
}

func TestZMQ12DialTimeout(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		began := time.Now()
		b.start() // nobody accepts
		time.Sleep(6 * time.Second)
		require.Equal(t, 5*time.Second, b.at(t, "failed timeout").Sub(began))
		require.ErrorContains(t, b.lastError(t), "no connection after 5s")
	})
}

func TestZMQ28EndInTheHandshake(t *testing.T) {
	for name, tt := range map[string]struct {
		sent []byte
		want string
	}{
		"before the greeting": {nil, "failed closed"},
		"inside the greeting": {pubGreeting[:20], "failed truncated"},
		"before READY":        {pubGreeting, "failed closed"},
		"inside READY":        {append(bytes.Clone(pubGreeting), pubReady[:9]...), "failed truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				b.start()
				p := b.accept()
				p.WaitReceived([]byte(zmtptest.ClientGreeting))
				p.Send(tt.sent)
				synctest.Wait()
				p.Close()
				synctest.Wait()
				require.Equal(t, 1, b.count(tt.want), b.all())
			})
		})
	}
}

func TestZMQ13ZF9FailedAttemptsLeaveNoFiles(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	s := newSubscriber(t, fastConfig())
	before := openFiles(t)
	r := add(t, s, server.Endpoint())
	for range 20 {
		conn := server.AcceptConn()
		_, err := conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
		require.NoError(t, err)
		drain(conn)
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return r.count("failed greeting") >= 20 }, eventually, time.Millisecond)
	require.NoError(t, s.Remove(mustParse(t, server.Endpoint())))
	require.LessOrEqual(t, openFiles(t), before+1) // one attempt more may wait in the server
}

// drain reads until the client closes.
func drain(conn net.Conn) {
	buf := make([]byte, 4096)
	for {
		if _, err := conn.Read(buf); err != nil {
			return
		}
	}
}
