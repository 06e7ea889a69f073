// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

// wire joins the parts of a wire example.
func wire(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p...)
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

func TestZMQ14WireExamples(t *testing.T) {
	long := bytes.Repeat([]byte{'p'}, 300)
	for name, tt := range map[string]struct {
		sent []byte
		want [][]byte
	}{
		"short, measured at libzmq": {
			wire("\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x00\x07\x00\x03xxx"),
			zmtptest.Numbered(7, []byte("xxx")),
		},
		"long, measured at libzmq": {
			wire("\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x00\x08\x02\x00\x00\x00\x00\x00\x00\x01\x2c", long),
			zmtptest.Numbered(8, long),
		},
		"long frame with a small size": {
			wire("\x03\x00\x00\x00\x00\x00\x00\x00\x01a\x02\x00\x00\x00\x00\x00\x00\x00\x00"),
			[][]byte{[]byte("a"), {}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				t := b.t
				p := b.connect()
				p.Send(tt.sent)
				synctest.Wait()
				require.Len(t, b.got(), 1)
				require.Equal(t, tt.want, b.got()[0].frames)
			})
		})
	}
}

func TestZMQ14NoPartialMessage(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Send([]byte("\x01\x00\x01\x08\x00\x00"))
		p.Close()
		synctest.Wait()
		require.Empty(t, b.got())
		require.Equal(t, 1, b.count("disconnect truncated"))
	})
}

// violation sends bytes after a handshake and gives the error that ends the
// connection, with the messages that came before it.
func violation(t *testing.T, sent ...[]byte) (*Error, []received) {
	t.Helper()
	var (
		failed *Error
		got    []received
	)
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		began := time.Now()
		sendAll(p, sent...)
		synctest.Wait()
		require.Zero(t, time.Since(began))
		p.WaitClosed()
		failed, got = b.lastError(t), b.got()
		reason := failed.Reason.String()
		b.requireEvents("connect 1", "up", "disconnect "+reason, "down "+reason)
	})
	return failed, got
}

func TestZMQ15ZF39MessagesBeforeAViolationComeFirst(t *testing.T) {
	var sent []byte
	for i := range uint64(3) {
		sent = zmtptest.AppendMessage(sent, zmtptest.Numbered(i, []byte("x"))...)
	}
	err, got := violation(t, append(sent, 0x80, 0x00))
	require.ErrorIs(t, err, ErrProtocol)
	require.Len(t, got, 3)
}

func TestZMQ15ZMQ28MessagesBeforeTheEndComeFirst(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	for _, reset := range []bool{false, true} {
		s := newSubscriber(t, Config{})
		gate := make(chan struct{})
		r := &recorder{onMessage: func(*Message) { <-gate }}
		require.NoError(t, s.Add(mustParse(t, server.Endpoint()), r))
		p := server.Accept()
		p.Handshake()
		var sent []byte
		for i := range uint64(50) {
			sent = zmtptest.AppendMessage(sent, zmtptest.Numbered(i, []byte("x"))...)
		}
		p.Send(sent)
		close(gate)
		r.waitMessages(t, 1)
		if reset {
			r.waitMessages(t, 50) // RST may discard what the client's socket holds
			p.Reset()
			r.waitEvent(t, "disconnect reset")
		} else {
			p.Close()
			r.waitEvent(t, "disconnect closed")
		}
		require.Len(t, r.got(), 50)
		requireClose(t, s)
	}
}

func TestZMQ15MessagesOfAPeerThatTakesNoPongComeFirst(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	s := newSubscriber(t, Config{})
	gate := make(chan struct{})
	r := &recorder{onMessage: func(*Message) { <-gate }}
	require.NoError(t, s.Add(mustParse(t, server.Endpoint()), r))
	p := server.Accept()
	p.Handshake()
	p.Send(slices.Concat(zmtptest.Message([]byte("first")), bytes.Repeat(zmtptest.Ping(0, ""), 50), zmtptest.Message([]byte("last"))))
	p.Close() // each PONG meets a closed socket
	close(gate)
	r.waitMessages(t, 2)
	require.Eventually(t, func() bool { return r.count("disconnect closed")+r.count("disconnect reset") == 1 }, eventually, time.Millisecond)
}

func TestZMQ16ReceiveTimeIsThatOfTheRead(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		b.onMessage = func(*Message) { time.Sleep(time.Second) }
		p := b.connect()
		first := time.Now()
		p.Send(slices.Concat(zmtptest.Message([]byte("a")), zmtptest.Message([]byte("b")), []byte{0x00}))
		time.Sleep(2500 * time.Millisecond)
		p.Send([]byte{0x00})
		time.Sleep(2 * time.Second)
		got := b.got()
		require.Len(t, got, 3)
		require.Equal(t, first, got[0].at)
		require.Equal(t, first, got[1].at, "the same read, although the handler was busy")
		require.Equal(t, first.Add(2500*time.Millisecond), got[2].at, "the read that completed it")
	})
}

func TestZMQ17Limits(t *testing.T) {
	const mebi = 1 << 20
	header := func(flags byte, size uint64) []byte {
		return binary.BigEndian.AppendUint64([]byte{flags | 2}, size)
	}
	seven := bytes.Repeat([]byte("\x01\x01x"), 7)
	for name, tt := range map[string]struct {
		sent []byte
		want error
	}{
		"ZF-20 2^63-16":               {header(0, 0x7ffffffffffffff0), ErrTooLarge},
		"ZF-21 1 TiB":                 {header(0, 1<<40), ErrTooLarge},
		"ZF-21 FR-5 2^49":             {header(0, 1<<49), ErrTooLarge},
		"FR-5 2^34":                   {header(0, 1<<34), ErrTooLarge},
		"ZF-22 2^64-1":                {header(0, 1<<64-1), ErrTooLarge},
		"2^63":                        {header(0, 1<<63), ErrTooLarge},
		"ZF-23 limit + 1":             {header(0, mebi+1), ErrTooLarge},
		"MORE with limit + 1":         {header(1, mebi+1), ErrTooLarge},
		"ZF-25 sum at the last frame": {append(bytes.Clone(seven), header(0, mebi+1-7)...), ErrTooLarge},
		"sum does not overflow":       {append(bytes.Clone(seven), header(0, 1<<63-1)...), ErrTooLarge},
		"ZF-24 FR-6 9th header":       {append(bytes.Repeat([]byte("\x01\x00"), 8), 0x00), ErrTooManyFrames},
		"ZF-26 flags 80":              {[]byte{0x80}, ErrProtocol},
		"ZF-26 flags 08":              {[]byte{0x08}, ErrProtocol},
		"ZF-26 flags 05":              {[]byte{0x05}, ErrProtocol},
		"ZF-26 flags 07":              {[]byte{0x07}, ErrProtocol},
		"ZF-27 empty command":         {[]byte("\x04\x00"), ErrProtocol},
		"ZF-27 name beyond the body":  {[]byte("\x04\x01\x05"), ErrProtocol},
		"name of 0 bytes":             {[]byte("\x04\x02\x00\x00"), ErrProtocol},
		"command of 4,097 bytes":      {header(4, 4097), ErrProtocol},
		"command of 2^63 bytes":       {header(4, 1<<63), ErrTooLarge},
		"in the middle of a message":  {[]byte("\x01\x01x\xff"), ErrProtocol},
		"ZF-30 PING of 17 context":    {zmtptest.Ping(0, "12345678901234567"), ErrProtocol},
		"ZF-30 PING without TTL":      {zmtptest.Command("PING", nil), ErrProtocol},
		"PING with half a TTL":        {zmtptest.Command("PING", []byte{0}), ErrProtocol},
		"ERROR after READY":           {zmtptest.Error("bye"), ErrPeerError},
	} {
		t.Run(name, func(t *testing.T) {
			err, got := violation(t, tt.sent)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, testEndpoint.String())
			require.Empty(t, got)
		})
	}
}

func TestZMQ17LargestMessagesAndCommands(t *testing.T) {
	const mebi = 1 << 20
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Publish(make([]byte, mebi))
		p.Send(zmtptest.Command("WHATEVER", make([]byte, 4096-9)))
		eighths := make([][]byte, 8)
		for i := range eighths {
			eighths[i] = bytes.Repeat([]byte{byte(i)}, mebi/8)
		}
		p.Publish(eighths...)
		synctest.Wait()
		got := b.got()
		require.Len(t, got, 2)
		require.Equal(t, mebi, cap(got[0].frames[0]))
		require.True(t, slices.EqualFunc(eighths, got[1].frames, bytes.Equal))
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ17MaxMessageSizeIsConfigurable(t *testing.T) {
	inBubble(t, Config{MaxMessageSize: 10}, func(b *bubble) {
		t := b.t
		p := b.connect()
		p.Publish([]byte("12345"), []byte("12345"))
		p.Publish([]byte("12345"), []byte("123456"))
		synctest.Wait()
		require.Len(t, b.got(), 1)
		require.Equal(t, 1, b.count("disconnect too_large"))
		require.ErrorContains(t, b.lastError(t), "at least 11 bytes, max_message_size is 10")
	})
}

func TestZMQ18FrameCountsAreDeliveredAsTheyAre(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		for n := 1; n <= 8; n++ {
			p.Publish(slices.Repeat([][]byte{[]byte("f")}, n)...)
		}
		synctest.Wait()
		got := b.got()
		require.Len(t, got, 8)
		for i, m := range got {
			require.Len(t, m.frames, i+1)
		}
	})
}

func TestZMQ19OversizeEndsTheConnectionAndRedials(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		sendAll(p, []byte("\x02\x00\x00\x00\x00\x00\x10\x00\x01"))
		p.WaitClosed()
		b.accept().Handshake()
		synctest.Wait()
		require.Equal(t, []string{"connect 1", "up", "disconnect too_large", "down too_large", "connect 2", "up"}, b.all())
	})
}

// feed copies b into the assembler in reads of at most step bytes.
func feed(a *assembler, b []byte, step int) {
	for len(b) > 0 {
		n := copy(a.room(), b[:min(step, len(b))])
		a.filled(n)
		b = b[n:]
	}
}

func TestZMQ20ZF23ClaimCostsNothing(t *testing.T) {
	a := newAssembler(1 << 20)
	feed(a, wire("\x02\x00\x00\x00\x00\x00\x10\x00\x00", "0123456789"), 100)
	got, f := a.next()
	require.Nil(t, f)
	require.Equal(t, needMore, got)
	require.Equal(t, baseBufferSize, cap(a.buf))
	a.room()
	require.Equal(t, baseBufferSize, cap(a.buf))
}

func TestZMQ20BufferAtMostDoubles(t *testing.T) {
	a := newAssembler(1 << 20)
	message := zmtptest.Message(make([]byte, 1<<20))
	before := len(a.buf)
	for len(message) > 0 {
		room := a.room()
		require.LessOrEqual(t, len(a.buf), 2*before)
		require.LessOrEqual(t, len(a.buf), max(baseBufferSize, 2*(a.write+minReadSize)), "it grows only when what has arrived needs it")
		before = len(a.buf)
		n := copy(room, message)
		a.filled(n)
		message = message[n:]
		if len(message) > 0 {
			got, f := a.next()
			require.Nil(t, f)
			require.Equal(t, needMore, got)
		}
	}
	got, f := a.next()
	require.Nil(t, f)
	require.Equal(t, gotMessage, got)
	require.LessOrEqual(t, len(a.buf), 1<<20+baseBufferSize)
}

func TestZMQ20CommandsInsideAMessageCostNothing(t *testing.T) {
	a := newAssembler(1 << 20)
	feed(a, wire("\x01\x03abc"), 100)
	ping := zmtptest.Ping(0, "0123456789abcdef")
	for range 10_000 {
		_, f := a.next()
		require.Nil(t, f)
		feed(a, ping, len(ping))
	}
	feed(a, []byte("\x00\x03def"), 100)
	var got event
	for got != gotMessage {
		var f *fault
		got, f = a.next()
		require.Nil(t, f)
		require.NotEqual(t, needMore, got)
	}
	require.Equal(t, [][]byte{[]byte("abc"), []byte("def")}, a.message())
	require.Equal(t, baseBufferSize, cap(a.buf))
}

func TestZMQ21GrownBufferIsGivenBack(t *testing.T) {
	a := newAssembler(1 << 20)
	read := func(message []byte) {
		for len(message) > 0 {
			n := copy(a.room(), message)
			a.filled(n)
			message = message[n:]
			if len(message) > 0 {
				_, f := a.next()
				require.Nil(t, f)
			}
		}
		got, f := a.next()
		require.Nil(t, f)
		require.Equal(t, gotMessage, got)
	}
	read(zmtptest.Message(make([]byte, 1<<20)))
	require.Greater(t, len(a.buf), shrinkAbove)
	small := zmtptest.Message(make([]byte, 400))
	for range shrinkAfter - 1 {
		read(small)
	}
	a.room()
	require.Greater(t, len(a.buf), shrinkAbove)
	read(small)
	feed(a, small[:10], 10)
	require.Equal(t, baseBufferSize, cap(a.buf), "empty, and the last 64 would have fitted")

	read(small[10:])
	read(zmtptest.Message(make([]byte, 40<<10)))
	grown := len(a.buf)
	require.LessOrEqual(t, grown, shrinkAbove)
	for range 2 * shrinkAfter {
		read(small)
	}
	a.room()
	require.Equal(t, grown, cap(a.buf), "up to 64 KiB is kept")
}

func TestZMQ22NoAllocationPerMessage(t *testing.T) {
	for name, chunk := range map[string][]byte{
		"short": zmtptest.Message(zmtptest.Numbered(1, make([]byte, 200))...),
		"long":  zmtptest.Message(zmtptest.Numbered(1, make([]byte, 440))...),
		"PING":  append(zmtptest.Ping(0, "0123456789abcdef"), zmtptest.Message([]byte("x"))...),
	} {
		t.Run(name, func(t *testing.T) {
			c := newLoopConnection(chunk)
			var m Message
			require.Nil(t, c.next(&m))
			require.Zero(t, testing.AllocsPerRun(1000, func() {
				if f := c.next(&m); f != nil {
					panic(f)
				}
			}))
		})
	}
}

// loopConn is a socket in which the same bytes lie again and again.
type loopConn struct {
	net.Conn
	chunk []byte
	reads int
	wrote int
}

func (c *loopConn) Read(b []byte) (int, error) {
	c.reads++
	return copy(b, c.chunk), nil
}

func (c *loopConn) Write(b []byte) (int, error) {
	c.wrote += len(b)
	return len(b), nil
}
func (*loopConn) SetReadDeadline(time.Time) error  { return nil }
func (*loopConn) SetWriteDeadline(time.Time) error { return nil }

// newLoopConnection reads chunk, whole messages, for ever.
func newLoopConnection(chunk []byte) *connection {
	return &connection{
		conn: &loopConn{chunk: chunk},
		in:   newAssembler(1 << 20),
		idle: 10 * time.Second,
		onIO: func(int, int) {},
	}
}

func TestZMQ23Ownership(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		type kept struct{ frames [][]byte }
		var views []kept
		var want [][]byte
		b.onMessage = func(m *Message) {
			for _, f := range m.Frames {
				require.Equal(t, len(f), cap(f), "an append must not reach the buffer")
				require.NotNil(t, f)
			}
			require.Equal(t, len(m.Frames), cap(m.Frames))
			_ = append(m.Frames[0], "overwritten"...)
			views = append(views, kept{frames: m.Frames})
			want = append(want, bytes.Clone(m.Frames[1]))
		}
		p := b.connect()
		p.Send(slices.Concat(zmtptest.Message([]byte("a"), []byte("one")), zmtptest.Message([]byte("b"), []byte("two"))))
		synctest.Wait()
		require.Equal(t, [][]byte{[]byte("one"), []byte("two")}, want, "an append to one frame changed no other")
	})
}

func TestZMQ23CloseDoesNotRecycleTheBufferUnderAReader(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		var after []byte
		b.onMessage = func(m *Message) {
			time.Sleep(time.Minute) // Close comes meanwhile
			after = bytes.Clone(m.Frames[0])
		}
		p := b.connect()
		p.Publish([]byte("still here"))
		synctest.Wait()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.sub.Remove(testEndpoint)
		}()
		synctest.Wait()
		p.WaitClosed()
		<-done
		require.Equal(t, "still here", string(after))
	})
}

func TestZMQ24OneReadTakesAllThatIsThere(t *testing.T) {
	message := zmtptest.Message(zmtptest.Numbered(1, make([]byte, 440))...)
	c := newLoopConnection(bytes.Repeat(message, 10))
	var m Message
	for range 100 {
		require.Nil(t, c.next(&m))
		require.Len(t, m.Frames, 3)
	}
	require.Equal(t, 10, c.conn.(*loopConn).reads)
}

func TestZMQ25ZMQ32ZF29PingBetweenFrames(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		// The order of libzmq 4.3.4 with heartbeats and a slow reader.
		p.Send(slices.Concat(
			[]byte("\x01\x00"), zmtptest.Ping(20, ""),
			[]byte("\x01\x08\x00\x00\x00\x00\x00\x00\x00\x07"), zmtptest.Command("BLAH", nil), zmtptest.Ping(0, "c"),
		))
		synctest.Wait()
		require.Contains(t, string(p.Received()), string(zmtptest.Pong(""))+string(zmtptest.Pong("c")), "answered while the message is incomplete")
		p.Send([]byte("\x00\x03xxx"))
		synctest.Wait()
		require.Equal(t, []uint64{7}, b.sequences(t))
		_, pings := b.io()
		require.Equal(t, 2, pings)
	})
}

func TestZMQ26ZF28CommandsToIgnore(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		for _, c := range [][]byte{
			[]byte("\x04\x05\x04BLAH"), []byte(zmtptest.SubscribeCommand), zmtptest.Command("CANCEL", []byte("x")),
			zmtptest.Pong("never asked"), zmtptest.ReadyAs("PUSH"), zmtptest.Command("READY", []byte("\xff")),
			zmtptest.Command("ping", nil), zmtptest.Command("\x00\xff", []byte("no letters")),
		} {
			p.Send(c)
			p.Publish([]byte("m"))
		}
		synctest.Wait()
		require.Len(t, b.got(), 8)
		b.requireEvents("connect 1", "up")
	})
}

func TestZMQ28Ends(t *testing.T) {
	for name, tt := range map[string]struct {
		sent string
		want string
	}{
		"at a boundary":           {"\x00\x01x", "closed"},
		"ZF-5 inside a message":   {"\x01\x00\x01\x08\x00\x00", "truncated"},
		"between two frames":      {"\x01\x00", "truncated"},
		"inside a command":        {"\x04\x07\x04PI", "truncated"},
		"inside a frame's header": {"\x02\x00", "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				p := b.connect()
				p.Send([]byte(tt.sent))
				synctest.Wait()
				p.Close()
				b.requireEvents("connect 1", "up", "disconnect "+tt.want, "down "+tt.want)
				b.accept().Handshake() // redial
			})
		})
	}
}

func TestZMQ28ZF6Reset(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	s := newSubscriber(t, fastConfig())
	r := add(t, s, server.Endpoint())
	p := server.Accept()
	p.Handshake()
	p.Send([]byte("\x01\x00\x01\x08\x00\x00"))
	p.Reset()
	r.waitEvent(t, "disconnect reset")
	server.Accept().Handshake()
	r.waitEvent(t, "connect 2")
	require.Empty(t, r.got())
}

func TestZMQ17ZF24EndlessFramesLeaveMemoryFlat(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	s := newSubscriber(t, fastConfig())
	r := add(t, s, server.Endpoint())
	p := server.Accept()
	p.Handshake()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	endless := bytes.Repeat([]byte("\x01\x00"), 32<<10)
	for p.TrySend(endless) {
	}
	r.waitEvent(t, "disconnect too_many_frames")
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20))
}

func TestZF41EverySplit(t *testing.T) {
	messages := [][][]byte{
		zmtptest.Numbered(1, []byte("short")),
		zmtptest.Numbered(2, bytes.Repeat([]byte("l"), 300)),
		{{}},
		{[]byte("two"), []byte("frames")},
	}
	var stream []byte
	for _, m := range messages {
		stream = append(zmtptest.AppendMessage(stream, m...), zmtptest.Ping(0, "x")...)
	}
	for cut := range len(stream) + 1 {
		a := newAssembler(1 << 20)
		var got [][][]byte
		for _, part := range [][]byte{stream[:cut], stream[cut:]} {
			feed(a, part, len(part))
			got = append(got, takeAll(t, a)...)
		}
		require.Equal(t, messages, got, "cut at %d", cut)
	}
}

// takeAll takes every whole message that is there.
func takeAll(t *testing.T, a *assembler) [][][]byte {
	t.Helper()
	var all [][][]byte
	for {
		got, f := a.next()
		require.Nil(t, f)
		switch got {
		case needMore:
			return all
		case gotMessage:
			var m [][]byte
			for _, frame := range a.message() {
				m = append(m, append([]byte{}, frame...))
			}
			all = append(all, m)
		}
	}
}

func TestZF41EverySplitOnTheWire(t *testing.T) {
	frames := zmtptest.Numbered(7, []byte("payload"))
	message := zmtptest.Message(frames...)
	inBubble(t, Config{}, func(b *bubble) {
		t := b.t
		p := b.connect()
		for cut := range len(message) - 1 {
			p.Send(message[:cut+1], message[cut+1:])
		}
		synctest.Wait()
		got := b.got()
		require.Len(t, got, len(message)-1)
		for _, m := range got {
			require.Equal(t, frames, m.frames)
		}
	})
}

func TestZMQ59WorkingMemory(t *testing.T) {
	state := unsafe.Sizeof(assembler{}) + unsafe.Sizeof(connection{}) + unsafe.Sizeof(supervisor{})
	require.Less(t, state, uintptr(2<<10))
	require.Equal(t, 16<<10, cap(newAssembler(1<<30).buf), "whatever the limit is; the state beside it has %d bytes", state)
}
