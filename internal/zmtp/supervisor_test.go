// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

func keepaliveOn(t *testing.T, conn net.Conn) bool {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	on := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		on, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
	}))
	require.NoError(t, err)
	return on == 1
}

func TestZMQ45AddReturnsAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		began := time.Now()
		b.start() // into a black hole
		require.Zero(t, time.Since(began))
		b.requireEvents()
	})
}

func TestZMQ45ZMQ60OneGoroutineAnEndpoint(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		before := runtime.NumGoroutine()
		p := b.connect() // the peer has one of its own
		p.Publish([]byte("x"))
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+2)
	})
}

func TestZMQ43DialErrorsAreOrdinaryFailures(t *testing.T) {
	wrap := func(err error) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", err)}
	}
	for name, tt := range map[string]struct {
		err  error
		want error
	}{
		"missing ipc file":    {wrap(syscall.ENOENT), ErrDial},
		"permission":          {wrap(syscall.EACCES), ErrDial},
		"refused":             {wrap(syscall.ECONNREFUSED), ErrDial},
		"no route":            {wrap(syscall.EHOSTUNREACH), ErrDial},
		"too many open files": {wrap(syscall.EMFILE), ErrDial},
		"system timeout":      {wrap(syscall.ETIMEDOUT), ErrTimeout},
		"name not found":      {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "engine", IsNotFound: true}}, ErrResolve},
		"name server silent":  {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", Name: "engine", IsTimeout: true}}, ErrResolve},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				t := b.t
				b.net.refuse(tt.err)
				b.start()
				synctest.Wait()
				require.ErrorIs(t, b.lastError(t), tt.want)
				require.ErrorIs(t, b.lastError(t), tt.err, "with the system error")
				b.net.refuse(nil)
				b.accept().Handshake()
				synctest.Wait()
				require.Equal(t, 1, b.count("up"))
			})
		})
	}
}

func TestZMQ43RealDialErrors(t *testing.T) {
	for endpoint, want := range map[string]Reason{
		"ipc://" + filepath.Join(t.TempDir(), "missing"): ReasonDial,
		"tcp://127.0.0.1:1":                 ReasonDial,
		"ipc://@otelcol-fpm-nobody-is-here": ReasonDial,
	} {
		ctx, cancel := context.WithTimeout(context.Background(), eventually)
		_, err := dialEndpoint(ctx, mustParse(t, endpoint))
		require.Error(t, err)
		require.Equal(t, want, dialFault(ctx, err, eventually).reason, err)
		cancel()
	}
}

func TestZMQ46ZMQ47ItRetriesForEver(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.net.refuse(errRefused)
		began := time.Now()
		b.start()
		time.Sleep(4 * time.Hour)
		dials := b.net.dialTimes()
		require.Equal(t, began, dials[0], "no wait before the very first")
		require.Greater(t, len(dials), 4*3600/10)
		bound := 500 * time.Millisecond
		for i := 1; i < len(dials); i++ {
			wait := dials[i].Sub(dials[i-1])
			require.GreaterOrEqual(t, wait, bound/2)
			require.LessOrEqual(t, wait, bound)
			bound = min(2*bound, 10*time.Second)
		}
		require.Equal(t, len(dials), b.count("failed dial"))
		require.Equal(t, 1, b.count("down dial"), "ZMQ-53: the same reason is one event")
	})
}

func TestZMQ48OnlyAMessageResetsTheWait(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		lastWait := func() time.Duration {
			dials := b.net.dialTimes()
			return dials[len(dials)-1].Sub(dials[len(dials)-2])
		}
		for range 8 {
			p := b.accept()
			p.Handshake()
			p.Close()
		}
		require.GreaterOrEqual(t, lastWait(), 5*time.Second, "handshakes alone do not")
		p := b.accept()
		p.Handshake()
		p.Publish([]byte("x"))
		synctest.Wait()
		p.Close()
		b.accept()
		require.LessOrEqual(t, lastWait(), 500*time.Millisecond)
	})
}

func TestZMQ49ZF7EndpointsAreIndependent(t *testing.T) {
	silent, http, good := zmtptest.ListenTCP(t), zmtptest.ListenTCP(t), zmtptest.ListenTCP(t)
	s := newSubscriber(t, Config{})
	silentRecorder := add(t, s, silent.Endpoint())
	refusedRecorder := add(t, s, "tcp://127.0.0.1:1")
	httpRecorder := add(t, s, http.Endpoint())
	// A handler that blocks holds up its own endpoint only.
	gate := make(chan struct{})
	blocked := zmtptest.ListenTCP(t)
	require.NoError(t, s.Add(mustParse(t, blocked.Endpoint()), &recorder{onMessage: func(*Message) { <-gate }}))
	defer close(gate)
	stuck := blocked.Accept()
	stuck.Handshake()
	stuck.Publish([]byte("x"))

	goodRecorder := add(t, s, good.Endpoint())
	silent.Accept()
	http.Accept().Send([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	p := good.Accept()
	p.Handshake()
	for i := range uint64(100) {
		p.Publish(zmtptest.Numbered(i, []byte("x"))...)
	}
	goodRecorder.waitMessages(t, 100)
	httpRecorder.waitEvent(t, "failed greeting")
	refusedRecorder.waitEvent(t, "failed dial")
	require.Contains(t, httpRecorder.lastError(t).Error(), http.Endpoint(), "FR-10: the endpoint and the cause")
	require.Empty(t, silentRecorder.all())
}

func TestZMQ50NoQueueInTheClient(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.onMessage = func(*Message) { time.Sleep(time.Hour) }
		p := b.connect()
		p.Publish([]byte("first"))
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			p.TrySend(zmtptest.Message([]byte("second")))
		}()
		synctest.Wait()
		select {
		case <-sent:
			t.Error("the client read on although the handler has not returned")
		default:
		}
	})
}

// states are those of ZMQ-51. Each brings the bubble's supervisor into one.
var states = map[string]func(b *bubble){
	"connecting": func(b *bubble) { b.start() },
	"handshake":  func(b *bubble) { b.start(); b.accept() },
	"blocked handshake write": func(b *bubble) {
		b.start()
		conn := <-b.net.conns
		b.t.Cleanup(func() { _ = conn.Close() })
	},
	"blocked read": func(b *bubble) { b.connect() },
	"blocked write": func(b *bubble) {
		p := b.connect()
		p.Pause()
		synctest.Wait()
		sendAll(p, zmtptest.Ping(0, ""))
	},
	"back-off": func(b *bubble) { b.net.refuse(errRefused); b.start() },
	"inside a message": func(b *bubble) {
		b.connect().Send([]byte("\x01\x00"))
	},
}

func TestZMQ51ZF43CancelInEachState(t *testing.T) {
	for name, enter := range states {
		for _, remove := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/remove=%v", name, remove), func(t *testing.T) {
				inBubble(t, Config{}, func(b *bubble) {
					t := b.t
					enter(b)
					synctest.Wait()
					events := b.all()
					began := time.Now()
					if remove {
						require.NoError(t, b.sub.Remove(testEndpoint))
					} else {
						require.NoError(t, b.sub.Close(context.Background()))
					}
					require.Zero(t, time.Since(began), "no timer is waited for")
					b.requireEvents(events...) // ZMQ-62: canceled is no event
				})
			})
		}
	}
}

func TestZMQ51CancelWhileResolving(t *testing.T) {
	// A name server that never answers.
	server, err := net.ListenPacket("udp", "127.0.0.1:0") //nolint:noctx // A local listener.
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	useNameServer(t, server.LocalAddr().String())
	s := NewSubscriber(Config{DialTimeout: time.Hour})
	r := add(t, s, "tcp://engine.test.:20380")
	buf := make([]byte, 512)
	_, _, err = server.ReadFrom(buf)
	require.NoError(t, err, "it is resolving")
	began := time.Now()
	requireClose(t, s)
	require.Less(t, time.Since(began), time.Second, "100 ms on a machine that does nothing else")
	require.Empty(t, r.all())
}

func TestZMQ51BusyEndpointIsCanceledBetweenMessages(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.onMessage = func(*Message) { time.Sleep(time.Second) }
		p := b.connect()
		p.Send([]byte(strings.Repeat("\x00\x01x", 1000)))
		synctest.Wait()
		require.NoError(t, b.sub.Remove(testEndpoint))
		require.LessOrEqual(t, len(b.got()), 1, "the other messages of the buffer are not handed over")
	})
}

func TestZMQ51CloseGivesUpWithItsContext(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.onMessage = func(*Message) { time.Sleep(time.Minute) }
		b.connect().Publish([]byte("x"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.sub.Close(ctx), context.DeadlineExceeded)
		require.NoError(t, b.sub.Close(context.Background()), "again, to go on waiting")
	})
}

func TestFR11ZMQ52ZF44StartStopUnderTraffic(t *testing.T) {
	p, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				p.Publish(zmtptest.Numbered(i, []byte("payload"))...)
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for i := range 500 {
		s := NewSubscriber(fastConfig())
		first := make(chan struct{}, 1)
		var once sync.Once
		r := &recorder{onMessage: func(*Message) { once.Do(func() { first <- struct{}{} }) }}
		require.NoError(t, s.Add(mustParse(t, p.Endpoint()), r))
		if i%4 != 0 { // every fourth is stopped wherever it is
			<-first
		}
		began := time.Now()
		requireClose(t, s)
		require.Less(t, time.Since(began), 5*time.Second)
	}
	close(stop)
	publishing.Wait()
	require.Eventually(t, func() bool {
		return runtime.NumGoroutine() <= goroutines && openFiles(t) <= files
	}, eventually, 10*time.Millisecond)
}

func TestZMQ53StatusChanges(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.net.refuse(errRefused)
		b.start()
		time.Sleep(time.Minute)
		b.net.refuse(nil)
		b.accept().Close()
		p := b.accept()
		p.Handshake()
		p.Publish([]byte("x"))
		synctest.Wait()
		b.net.refuse(errRefused)
		p.Close()
		time.Sleep(time.Minute)
		status := slices.DeleteFunc(b.all(), func(e string) bool { return e != "up" && !strings.HasPrefix(e, "down") })
		require.Equal(t, "down dial", status[0], "the first failed attempt")
		require.Equal(t, []string{"up", "down closed", "down dial"}, status[len(status)-3:])
		require.Len(t, status, 5, "and the end of the handshake between: %v", status)
	})
}

func TestZMQ55EventsAndBytes(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		p := b.connect()
		sent := len(pubGreeting) + len(pubReady)
		for _, chunk := range [][]byte{zmtptest.Message([]byte("x")), zmtptest.Ping(0, ""), []byte("\x01\x03ab")} {
			p.Send(chunk)
			sent += len(chunk)
		}
		synctest.Wait()
		bytes, pings := b.io()
		require.Equal(b.t, sent, bytes)
		require.Equal(b.t, 1, pings)
		p.Close()
		synctest.Wait()
		b.requireEvents("connect 1", "up", "disconnect truncated", "down truncated")
	})
	inBubble(t, Config{}, func(b *bubble) {
		p := b.connect()
		p.Send(append(zmtptest.Ping(0, ""), 0x80))
		p.WaitClosed()
		synctest.Wait()
		bytes, pings := b.io()
		require.Equal(b.t, len(pubGreeting)+len(pubReady)+10, bytes, "those of the last read too")
		require.Equal(b.t, 1, pings)
	})
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		sendAll(b.accept(), []byte("HTTP/1.1 400"))
		synctest.Wait()
		bytes, _ := b.io()
		require.Equal(t, 12, bytes, "bytes of a failed handshake count")
	})
}

func TestZMQ56ZMQ57ZF50GenerationsAndMessagesAcrossReconnects(t *testing.T) {
	// Whether 5, 6, reconnect, 9 is a loss, 0 a restart and 6 a duplicate is the
	// receiver's verdict; it needs the sequence, the payload and the generation.
	type row struct {
		generation, sequence uint64
		payload              string
	}
	rows := []row{
		{1, 5, "a"}, {1, 6, "b"}, {2, 9, "c"}, {3, 0, "d"}, {4, 6, "b"}, {5, 6, "other"},
	}
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		var p *zmtptest.Peer
		for i, r := range rows {
			if i == 0 || r.generation != rows[i-1].generation {
				if p != nil {
					p.Close()
				}
				p = b.accept()
				p.Handshake()
			}
			p.Publish(zmtptest.Numbered(r.sequence, []byte(r.payload))...)
			synctest.Wait()
		}
		var got []row
		for i, m := range b.got() {
			got = append(got, row{m.generation, b.sequences(t)[i], string(m.frames[2])})
		}
		require.Equal(t, rows, got)
		require.Equal(t, 4, b.count("disconnect closed"))
	})
}

func TestZMQ56FailedHandshakesCountNoGeneration(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		b.accept().Close()
		b.accept().Close()
		b.accept().Handshake()
		synctest.Wait()
		require.Equal(t, 1, b.count("connect 1"))
	})
}

func TestZMQ62CanceledIsNoEvent(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		require.NoError(t, b.sub.Close(context.Background()))
		p.WaitClosed()
		b.requireEvents("connect 1", "up")
	})
}

func TestZF1ZMQ45PublisherComesLater(t *testing.T) {
	for _, away := range []time.Duration{30 * time.Second, time.Hour} {
		inBubble(t, Config{}, func(b *bubble) {
			t := b.t
			b.net.refuse(errRefused)
			b.start()
			time.Sleep(away)
			b.net.refuse(nil)
			bound := time.Now()
			p := b.accept()
			require.LessOrEqual(t, time.Since(bound), 11*time.Second)
			p.Handshake()
			p.Publish([]byte("flows"))
			synctest.Wait()
			require.Len(t, b.got(), 1)
		})
	}
}

func TestZF2ZF3PublisherRestarts(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				t := b.t
				p := b.connect()
				p.Publish([]byte("before"))
				synctest.Wait()
				b.forget()
				b.net.refuse(errRefused)
				p.Close()
				time.Sleep(away)
				b.net.refuse(nil)
				bound := time.Now()
				p = b.accept()
				require.LessOrEqual(t, time.Since(bound), 11*time.Second)
				p.Handshake()
				p.Publish([]byte("after"))
				synctest.Wait()
				require.Len(t, b.got(), 1)
				require.Equal(t, 1, b.count("disconnect closed"))
				require.Equal(t, 1, b.count("down closed"))
				require.Equal(t, 1, b.count("up"))
				require.Equal(t, 1, b.count("connect 2"))
			})
		})
	}
}

func TestZF2RestartOnRealSockets(t *testing.T) {
	first, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{})
	require.NoError(t, err)
	s := newSubscriber(t, fastConfig())
	r := add(t, s, first.Endpoint())
	first.WaitSubscribers(1)
	first.Publish([]byte("1"))
	r.waitMessages(t, 1)
	require.NoError(t, first.Close())
	r.waitEvent(t, "failed dial")
	second, err := zmtptest.NewPublisher("tcp", first.Address(), zmtptest.PublisherConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	second.WaitSubscribers(1)
	second.Publish([]byte("2"))
	r.waitMessages(t, 2)
	require.Equal(t, 1, r.count("connect 2"))
}

func TestZF4OneOfTwoRestarts(t *testing.T) {
	a, b := zmtptest.ListenTCP(t), zmtptest.ListenTCP(t)
	s := newSubscriber(t, fastConfig())
	ra, rb := add(t, s, a.Endpoint()), add(t, s, b.Endpoint())
	pa, pb := a.Accept(), b.Accept()
	pa.Handshake()
	pb.Handshake()
	pb.Publish(zmtptest.Numbered(0, nil)...)
	pa.Close()
	pa = a.Accept()
	pa.Handshake()
	pa.Publish(zmtptest.Numbered(7, nil)...)
	pb.Publish(zmtptest.Numbered(1, nil)...)
	ra.waitMessages(t, 1)
	rb.waitMessages(t, 2)
	require.Equal(t, []uint64{7}, ra.sequences(t))
	require.Equal(t, []uint64{0, 1}, rb.sequences(t), "undisturbed, nothing twice")
	require.Equal(t, 1, b.Connections())
	require.Equal(t, []string{"connect 1", "up"}, rb.all())
}

func TestZF49PeerThatClosesAfterEachHandshake(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.start()
		began := time.Now()
		for time.Since(began) < time.Minute {
			p := b.accept()
			p.Handshake()
			p.Close()
			synctest.Wait()
		}
		dials := b.net.dialTimes()
		require.GreaterOrEqual(t, dials[len(dials)-1].Sub(dials[len(dials)-2]), 5*time.Second, "waits grow")
		require.Less(t, len(dials), 20)
		require.Equal(t, 1, b.count("up"))
		require.Equal(t, 1, b.count("down closed"), "one down event: %v", b.all())
		require.Equal(t, len(dials), b.count("disconnect closed"), "but each is counted")
	})
}

func TestZF49UpComesWithTheProof(t *testing.T) {
	for name, prove := range map[string]func(p *zmtptest.Peer){
		"a message":      func(p *zmtptest.Peer) { p.Publish([]byte("x")) },
		"any byte":       func(p *zmtptest.Peer) { p.Send(zmtptest.Ping(0, "")) },
		"quiet survival": func(*zmtptest.Peer) { time.Sleep(3 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				t := b.t
				p := b.connect()
				p.Close()
				p = b.accept()
				p.Handshake()
				synctest.Wait()
				require.Equal(t, 1, b.count("up"), "not yet again")
				prove(p)
				synctest.Wait()
				require.Equal(t, 2, b.count("up"))
			})
		})
	}
}

func TestZMQ39ZMQ41ZF45EveryKindOfEndpointDelivers(t *testing.T) {
	for name, listen := range map[string][2]string{
		"ipc path":     {"unix", filepath.Join(t.TempDir(), "s")},
		"ipc abstract": {"unix", fmt.Sprintf("@otelcol-fpm-test-%d", os.Getpid())},
		"IPv6":         {"tcp", "[::1]:0"},
		"IPv4":         {"tcp", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "IPv6" && !hasIPv6() {
				t.Skip("no IPv6 loopback here")
			}
			server := zmtptest.Listen(t, listen[0], listen[1])
			requireDelivers(t, server, server.Endpoint())
		})
	}
	t.Run("localhost", func(t *testing.T) {
		server := zmtptest.ListenTCP(t)
		requireDelivers(t, server, strings.Replace(server.Endpoint(), "127.0.0.1", "localhost", 1))
	})
	t.Run("relative ipc", func(t *testing.T) {
		t.Chdir(t.TempDir())
		requireDelivers(t, zmtptest.Listen(t, "unix", "relative"), "ipc://relative")
	})
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0") //nolint:noctx // A local listener.
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func requireDelivers(t *testing.T, server *zmtptest.Server, endpoint string) {
	t.Helper()
	s := newSubscriber(t, fastConfig())
	r := add(t, s, endpoint)
	p := server.Accept()
	p.Handshake()
	p.Publish(zmtptest.Numbered(1, []byte("x"))...)
	r.waitMessages(t, 1)
	require.Equal(t, []uint64{1}, r.sequences(t))
}

func TestZF46IPCFileIsBoundAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := newSubscriber(t, fastConfig())
	first := zmtptest.Listen(t, "unix", path)
	r := add(t, s, first.Endpoint())
	p := first.Accept()
	p.Handshake()
	p.Publish([]byte("old"))
	r.waitMessages(t, 1)
	first.Close() // removes the file
	p.Close()
	r.waitEvent(t, "failed dial")
	second := zmtptest.Listen(t, "unix", path)
	p = second.Accept()
	p.Handshake()
	p.Publish([]byte("new"))
	r.waitMessages(t, 2)
}

func TestZMQ42ZMQ44ZF47NamesAreResolvedAtEachAttempt(t *testing.T) {
	names := newNameServer(t)
	x := zmtptest.Listen(t, "tcp", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(x.Address())
	require.NoError(t, err)
	y := zmtptest.Listen(t, "tcp", net.JoinHostPort("127.0.0.2", port))

	names.set(net.IPv4(127, 0, 0, 1))
	s := newSubscriber(t, fastConfig())
	r := add(t, s, "tcp://engine.test.:"+port)
	p := x.Accept()
	p.Handshake()
	names.set(net.IPv4(127, 0, 0, 2))
	p.Publish([]byte("x"))
	r.waitMessages(t, 1) // ZMQ-44: the connection lives on
	require.Zero(t, y.Connections())
	p.Close()
	p = y.Accept()
	p.Handshake()
	p.Publish([]byte("y"))
	r.waitMessages(t, 2)
	require.Equal(t, 1, x.Connections())
}

func TestZMQ42NameNotFound(t *testing.T) {
	newNameServer(t) // knows nothing
	s := newSubscriber(t, fastConfig())
	r := add(t, s, "tcp://engine.test.:1")
	r.waitEvent(t, "failed resolve")
	require.ErrorIs(t, r.lastError(t), ErrResolve)
}
