// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"net"
	"time"
)

// handshaker brings a fresh connection to the point where messages come: the
// subscription is written. All of it happens before one deadline (ZMQ-12).
type handshaker struct {
	conn    net.Conn
	in      *assembler
	timeout time.Duration
	// bytes counts what was read, readAt is when the last read returned.
	bytes  int
	readAt time.Time
}

// run gives the version that the peer announced. Bytes that came behind READY
// stay in the assembler (ZMQ-10). The deadline is left set.
func (h *handshaker) run() (peerVersion, *fault) {
	if err := h.conn.SetDeadline(time.Now().Add(h.timeout)); err != nil {
		return peerVersion{}, &fault{ReasonReset, err}
	}
	if f := h.write(ownGreeting); f != nil {
		return peerVersion{}, f
	}
	version, f := h.readGreeting()
	if f != nil {
		return version, f
	}
	if f := h.write(ownReady); f != nil {
		return version, f
	}
	// libzmq 4.3.4 closes the connection when the subscription arrives before it
	// has read READY, so it waits for the peer's (ZMQ-8).
	if f := h.readReady(); f != nil {
		return version, f
	}
	return version, h.write(subscription(version))
}

func subscription(v peerVersion) []byte {
	if v.is31() {
		return subscribeCommand
	}
	return subscribeMessage
}

func (h *handshaker) readGreeting() (peerVersion, *fault) {
	for {
		got := h.in.unread()
		if f := checkGreeting(got); f != nil {
			return peerVersion{}, f
		}
		if len(got) >= greetingSize {
			version := peerVersion{major: got[signatureSize], minor: got[signatureSize+1]}
			h.in.skip(greetingSize)
			return version, nil
		}
		if f := h.fill(); f != nil {
			return peerVersion{}, f
		}
	}
}

// readReady reads the peer's first frame, which must be READY or ERROR (ZMQ-6).
func (h *handshaker) readReady() *fault {
	for {
		if first := h.in.unread(); len(first) > 0 && first[0]&flagCommand == 0 {
			return faultf(ReasonProtocol, "the peer sent a message before READY")
		}
		got, f := h.in.next()
		if f != nil {
			return f
		}
		if got == gotCommand {
			return checkFirstCommand(h.in.command)
		}
		if f := h.fill(); f != nil {
			return f
		}
	}
}

func checkFirstCommand(body []byte) *fault {
	cmd, f := parseCommand(body)
	switch {
	case f != nil:
		return f
	case cmd.is(commandReady):
		return checkReady(cmd.data)
	case cmd.is(commandError):
		return peerErrorFault(cmd.data)
	default:
		return faultf(ReasonProtocol, "the peer sent \"%s\" before READY", EscapePeerText(cmd.name))
	}
}

func (h *handshaker) fill() *fault {
	n, err := h.conn.Read(h.in.room())
	h.readAt = time.Now()
	h.in.filled(n)
	h.bytes += n
	switch {
	case n > 0 || err == nil:
		return nil
	case isTimeout(err):
		return h.timeoutFault()
	default:
		return readFault(err, h.in.partial())
	}
}

func (h *handshaker) write(b []byte) *fault {
	_, err := h.conn.Write(b)
	switch {
	case err == nil:
		return nil
	case isTimeout(err):
		return h.timeoutFault()
	case isBroken(err):
		return &fault{ReasonReset, err}
	default:
		return &fault{ReasonWrite, err}
	}
}

func (h *handshaker) timeoutFault() *fault {
	return faultf(ReasonTimeout, "the handshake was not complete %v after the connect: the peer is no ZMQ publisher, or it hangs", h.timeout)
}
