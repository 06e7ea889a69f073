// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

// fuzzLimit is the size limit while fuzzing, large enough for a buffer to grow.
const fuzzLimit = 20 << 10

// cutConn is a socket in which the bytes lie in segments, then EOF.
type cutConn struct {
	net.Conn
	t    *testing.T
	rest []byte
	// cuts are the sizes of the segments, used over and over; 0 is 256.
	cuts []byte
	next int
	in   *assembler
}

func (c *cutConn) Read(b []byte) (int, error) {
	if len(b) == 0 || len(c.in.buf) > fuzzLimit+baseBufferSize {
		c.t.Fatalf("a read of %d bytes, with a buffer of %d", len(b), len(c.in.buf))
	}
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	size := len(c.rest)
	if len(c.cuts) > 0 {
		size = int(c.cuts[c.next%len(c.cuts)])
		if size == 0 {
			size = 256
		}
		c.next++
	}
	n := copy(b, c.rest[:min(size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

func (*cutConn) Write(b []byte) (int, error)      { return len(b), nil }
func (*cutConn) SetDeadline(time.Time) error      { return nil }
func (*cutConn) SetReadDeadline(time.Time) error  { return nil }
func (*cutConn) SetWriteDeadline(time.Time) error { return nil }

// readAll runs a connection to its end, as the supervisor does.
func readAll(t *testing.T, stream, cuts []byte, handshake bool) (messages [][][]byte, end Reason) {
	t.Helper()
	in := newAssembler(fuzzLimit)
	conn := &cutConn{t: t, rest: stream, cuts: cuts, in: in}
	if handshake {
		h := handshaker{conn: conn, in: in, timeout: time.Second}
		if _, f := h.run(); f != nil {
			require.NotEmpty(t, f.Error())
			require.Less(t, len(f.Error()), 512)
			return nil, f.reason
		}
	}
	c := &connection{conn: conn, in: in, idle: time.Hour, mayPing: true, onIO: func(int, int) {}}
	var m Message
	for {
		if f := c.next(&m); f != nil {
			require.Less(t, len(f.Error()), 512)
			return messages, f.reason
		}
		var frames [][]byte
		for _, f := range m.Frames {
			frames = append(frames, append([]byte{}, f...))
		}
		messages = append(messages, frames)
	}
}

// reference parses a whole stream the plain way: a second opinion on which
// messages there are and how it ends.
func reference(b []byte) (messages [][][]byte, end Reason) {
	var frames [][]byte
	size := uint64(0)
	for len(b) > 0 {
		flags := b[0]
		command, long, more := flags&4 != 0, flags&2 != 0, flags&1 != 0
		if flags > 7 || command && more {
			return messages, ReasonProtocol
		}
		if !command && len(frames) == 8 {
			return messages, ReasonTooManyFrames
		}
		headerSize := 2
		if long {
			headerSize = 9
		}
		if len(b) < headerSize {
			return messages, ReasonTruncated
		}
		bodySize := uint64(b[1])
		if long {
			bodySize = binary.BigEndian.Uint64(b[1:])
		}
		switch {
		case bodySize > math.MaxInt64, !command && bodySize+size > fuzzLimit:
			return messages, ReasonTooLarge
		case command && bodySize > 4096:
			return messages, ReasonProtocol
		case uint64(len(b)-headerSize) < bodySize:
			return messages, ReasonTruncated
		}
		body := b[headerSize : headerSize+int(bodySize)]
		b = b[headerSize+int(bodySize):]
		if command {
			if reason := referenceCommand(body); reason != 0 {
				return messages, reason
			}
			continue
		}
		frames = append(frames, append([]byte{}, body...))
		size += bodySize
		if !more {
			messages = append(messages, frames)
			frames, size = nil, 0
		}
	}
	if len(frames) > 0 {
		return messages, ReasonTruncated
	}
	return messages, ReasonClosed
}

func referenceCommand(body []byte) Reason {
	if len(body) < 2 || body[0] == 0 || len(body) < 1+int(body[0]) {
		return ReasonProtocol
	}
	name, data := string(body[1:1+body[0]]), body[1+body[0]:]
	switch {
	case name == "PING" && (len(data) < 2 || len(data) > 18):
		return ReasonProtocol
	case name == "ERROR" && (len(data) == 0 || len(data) < 1+int(data[0])):
		return ReasonProtocol
	case name == "ERROR":
		return ReasonPeerError
	}
	return 0
}

// FuzzFrames is ZF-52: arbitrary bytes after the handshake, at arbitrary cut
// points. Whatever the cuts, the messages and the end are those of the plain
// parser.
func FuzzFrames(f *testing.F) {
	numbered := zmtptest.Message(zmtptest.Numbered(7, []byte("xxx"))...)
	large := zmtptest.Message(make([]byte, 300), make([]byte, 10<<10), make([]byte, 9<<10))
	for _, stream := range [][]byte{
		{},
		numbered, large, slices.Concat(numbered, large, numbered),
		slices.Concat([]byte("\x01\x00"), zmtptest.Ping(20, "ctx"), numbered[2:]),
		slices.Concat(numbered, []byte{0x80, 0x00}),
		slices.Concat([]byte("\x01\x05hello"), bytes.Repeat(zmtptest.Ping(0, "0123456789abcdef"), 700), []byte("\x00\x05world")),
		slices.Concat(large[:15<<10], zmtptest.Command("BLAH", make([]byte, 4000)), []byte("\x00\x00")),
		bytes.Repeat([]byte("\x01\x00"), 9),
		[]byte("\x02\x7f\xff\xff\xff\xff\xff\xff\xf0"), []byte("\x02\xff\xff\xff\xff\xff\xff\xff\xff"),
		[]byte("\x06\x00\x00\x00\x00\x00\x00\x10\x01"), []byte("\x03\x00\x00\x00\x00\x00\x00\x00\x01a\x00\x00"),
		[]byte("\x04\x00"), []byte("\x04\x01\x05"), []byte("\x05\x00"), zmtptest.Error("a\x1b[31m\n"),
		zmtptest.Pong("x"), zmtptest.ReadyAs("PUB"), []byte(zmtptest.SubscribeCommand), zmtptest.Command("PING", nil),
	} {
		f.Add(stream, []byte{})
		f.Add(stream, []byte{1})
		f.Add(stream, []byte{0, 3, 17})
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		messages, end := readAll(t, stream, cuts, false)
		wantMessages, wantEnd := reference(stream)
		require.Equal(t, wantEnd, end)
		require.True(t, slices.EqualFunc(wantMessages, messages, func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }))
	})
}

// FuzzHandshake sends arbitrary bytes from the greeting on. The outcome must not
// depend on the cuts.
func FuzzHandshake(f *testing.F) {
	greeting := zmtptest.Greeting(3, 1, "NULL")
	message := zmtptest.Message([]byte("x"))
	for _, stream := range [][]byte{
		{},
		greeting, slices.Concat(greeting, zmtptest.ReadyAs("PUB"), message),
		slices.Concat(zmtptest.Greeting(3, 0, "NULL"), zmtptest.ReadyAs("XPUB"), message),
		slices.Concat(zmtptest.Greeting(4, 9, "NULL"), zmtptest.Ready(manyProperties(200)...), message),
		zmtptest.Greeting(2, 0, "NULL"), zmtptest.Greeting(3, 1, "PLAIN"), zmtptest.Greeting(3, 1, "CURVE"),
		[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), []byte("SSH-2.0-OpenSSH_9.6\r\n"),
		slices.Concat(greeting, zmtptest.Error("a\x1b[31m\n")), slices.Concat(greeting, message),
		slices.Concat(greeting, zmtptest.Command("READY", []byte("\x03abc"))),
		slices.Concat(greeting, zmtptest.Command("READY", []byte("\x0bSocket-Type\x7f\xff\xff\xffPUB"))),
		slices.Concat(greeting, zmtptest.Command("READY", []byte("\x00\x00\x00\x00\x00"))),
		slices.Concat(greeting, zmtptest.Command("READY", make([]byte, 5000))),
		slices.Concat(greeting, zmtptest.ReadyAs("PULL")), slices.Concat(greeting, zmtptest.Ping(0, "")),
	} {
		f.Add(stream, []byte{1})
		f.Add(stream, []byte{0, 63, 2})
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		messages, end := readAll(t, stream, cuts, true)
		wholeMessages, wholeEnd := readAll(t, stream, nil, true)
		require.Equal(t, wholeEnd, end)
		require.Equal(t, wholeMessages, messages)
	})
}
