// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"net"
	"time"
)

const (
	// writeTimeout bounds a PING or PONG (ZMQ-35).
	writeTimeout = 2 * time.Second
	// quietShare of the idle timeout is the silence after which the peer is asked
	// with a PING (ZMQ-30).
	quietShare = 0.3
)

// connection is an established subscription. One goroutine uses it; only close
// may come from another.
type connection struct {
	conn net.Conn
	in   *assembler
	idle time.Duration
	// mayPing is false for a 3.0 peer, which has no PING.
	mayPing bool

	// onIO is Handler.OnIO. onAlive is called once, when the peer has proven that
	// the connection works; nil after that.
	onIO    func(bytes, pings int)
	onAlive func()

	// readAt is when the last read call returned.
	readAt time.Time
	// deadline is the read deadline that is set. It may lie before the one that is
	// wanted, never behind it: setting it anew for each read would cost a timer.
	deadline time.Time
	// begun is how long we have waited for the rest of the message or command in
	// progress. Time with the handler does not count (ZMQ-36).
	begun time.Duration
	// pinged says that a PING of ours has no PONG yet.
	pinged bool
	// failed is the error that came together with the last bytes.
	failed error

	bytes, pings int
	pong         []byte
}

// next reads one whole message. Its frames are valid until the next call. Whole
// messages that arrived before a violation or the end come first (ZMQ-15).
func (c *connection) next(m *Message) *fault {
	for {
		got, f := c.in.next()
		switch {
		case f != nil:
			return f
		case got == gotMessage:
			c.begun = 0
			c.alive()
			m.Frames, m.ReceivedAt = c.in.message(), c.readAt
			return nil
		case got == gotCommand:
			f = c.handle(c.in.command)
		default:
			f = c.fill()
		}
		if f != nil {
			return f
		}
	}
}

// handle does what a command asks for (ZMQ-26).
func (c *connection) handle(body []byte) *fault {
	if !c.in.inMessage() {
		c.begun = 0
	}
	cmd, f := parseCommand(body)
	switch {
	case f != nil:
		return f
	case cmd.is(commandPing):
		return c.answer(cmd.data)
	case cmd.is(commandPong):
		c.pinged = false
	case cmd.is(commandError):
		return peerErrorFault(cmd.data)
	}
	return nil
}

func (c *connection) answer(data []byte) *fault {
	context, f := checkPing(data)
	if f != nil {
		return f
	}
	c.pong = appendPong(c.pong[:0], context)
	if f := c.write(c.pong); f != nil {
		return f
	}
	c.pings++
	return nil
}

// write writes a PING or PONG. That the peer has closed is left to the reads that
// follow, because messages may have arrived before (ZMQ-15).
func (c *connection) write(b []byte) *fault {
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return &fault{ReasonWrite, err}
	}
	if _, err := c.conn.Write(b); err != nil && !isBroken(err) {
		return &fault{ReasonWrite, err}
	}
	return nil
}

// fill waits for bytes. Silence is measured from here on, so that a handler that
// stalls is not taken for a silent peer (ZMQ-36).
func (c *connection) fill() *fault {
	c.reportIO()
	if c.failed != nil {
		return readFault(c.failed, c.in.partial())
	}
	room := c.in.room()
	started := time.Now()
	quiet := false
	for {
		wait := c.patience(quiet)
		c.setDeadline(started.Add(wait))
		n, err := c.conn.Read(room)
		c.readAt = time.Now()
		waited := c.readAt.Sub(started)
		switch {
		case n > 0:
			c.took(n, waited, err)
			return nil
		case err == nil:
			continue
		case !isTimeout(err):
			return readFault(err, c.in.partial())
		}
		c.deadline = time.Time{}
		switch {
		case waited < wait: // The deadline was one of an earlier read.
		case quiet || wait < c.quietAfter():
			return c.silence()
		default:
			quiet = true
			if f := c.askForLife(); f != nil {
				return f
			}
		}
	}
}

// patience is how long to wait in all until something has to be done: first
// until the connection counts as quiet, then until the peer counts as silent.
func (c *connection) patience(quiet bool) time.Duration {
	silent := c.idle
	if c.in.partial() {
		silent -= c.begun
	}
	if !quiet {
		return min(silent, c.quietAfter())
	}
	return silent
}

func (c *connection) quietAfter() time.Duration {
	return time.Duration(quietShare * float64(c.idle))
}

func (c *connection) setDeadline(wanted time.Time) {
	if !c.deadline.IsZero() && !c.deadline.After(wanted) {
		return
	}
	c.deadline = wanted
	// The only error is that of a closed connection, which Read reports too.
	_ = c.conn.SetReadDeadline(wanted)
}

// took takes n bytes that came after a wait.
func (c *connection) took(n int, waited time.Duration, err error) {
	if c.in.partial() {
		c.begun += waited
	} else {
		c.begun = 0
	}
	c.in.filled(n)
	c.bytes += n
	c.alive()
	if err != nil && !isTimeout(err) {
		c.failed = err
	}
}

// silence is the fault of a peer that said nothing, or not enough.
func (c *connection) silence() *fault {
	if c.in.partial() {
		return faultf(ReasonSilent, "the peer did not complete a message within %v", c.idle)
	}
	return faultf(ReasonSilent, "the peer sent nothing for %v", c.idle)
}

// askForLife is called when the peer has been quiet for a while: the connection
// has survived that long, and a peer that knows PING is sent one, unless one is
// out already.
func (c *connection) askForLife() *fault {
	c.alive()
	if !c.mayPing || c.pinged {
		return nil
	}
	c.pinged = true
	return c.write(ownPing)
}

func (c *connection) alive() {
	if c.onAlive != nil {
		c.onAlive()
		c.onAlive = nil
	}
}

func (c *connection) reportIO() {
	if c.bytes == 0 && c.pings == 0 {
		return
	}
	c.onIO(c.bytes, c.pings)
	c.bytes, c.pings = 0, 0
}
