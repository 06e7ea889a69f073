// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtptest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// patience is how long a Peer or Server waits for the client before the test
// fails. Nothing of it passes in a test that works.
const patience = 30 * time.Second

// Peer is one connection of a client, with the test in the publisher's place.
// Whatever the client writes is read at once and kept, except while paused. All
// methods fail the test rather than to return an error.
type Peer struct {
	tb   testing.TB
	conn net.Conn

	mu       sync.Mutex
	received []byte
	closed   bool          // by the client, or by us
	paused   chan struct{} // not nil while paused; closed by Resume
	changed  chan struct{} // closed at each change of the above
	ended    chan struct{}
}

// NewPeer takes over a connection, such as one end of [net.Pipe], until the end
// of the test.
func NewPeer(tb testing.TB, conn net.Conn) *Peer {
	tb.Helper()
	p := &Peer{tb: tb, conn: conn, changed: make(chan struct{}), ended: make(chan struct{})}
	go p.read()
	tb.Cleanup(p.Close)
	return p
}

// Conn is the connection itself.
func (p *Peer) Conn() net.Conn { return p.conn }

// Send writes each chunk with a write call of its own.
func (p *Peer) Send(chunks ...[]byte) {
	p.tb.Helper()
	for _, b := range chunks {
		if _, err := p.conn.Write(b); err != nil {
			p.tb.Fatalf("the peer can't write %d bytes: %v", len(b), err)
		}
	}
}

// TrySend writes and reports whether the client took it, for scripts in which
// the client may be gone already.
func (p *Peer) TrySend(b []byte) bool {
	_, err := p.conn.Write(b)
	return err == nil
}

// Publish sends one message with one write call.
func (p *Peer) Publish(frames ...[]byte) {
	p.tb.Helper()
	p.Send(Message(frames...))
}

// Handshake is that of a libzmq PUB; it returns when the client has subscribed.
func (p *Peer) Handshake() {
	p.tb.Helper()
	p.HandshakeWith(Greeting(3, 1, "NULL"), ReadyAs("PUB"))
}

// HandshakeWith sends a greeting and a READY and waits for the subscription.
func (p *Peer) HandshakeWith(greeting, ready []byte) {
	p.tb.Helper()
	p.Send(greeting, ready)
	p.WaitSubscription()
}

// WaitSubscription waits until the client has subscribed, in either form.
func (p *Peer) WaitSubscription() {
	p.tb.Helper()
	p.waitFor("a subscription", func() bool {
		return bytes.Contains(p.received, []byte(ClientReady+SubscribeCommand)) ||
			bytes.Contains(p.received, []byte(ClientReady+SubscribeMessage))
	})
}

// WaitReceived waits until the client has written b.
func (p *Peer) WaitReceived(b []byte) {
	p.tb.Helper()
	p.waitFor("bytes", func() bool { return bytes.Contains(p.received, b) })
}

// WaitClosed waits until the client has closed the connection.
func (p *Peer) WaitClosed() {
	p.tb.Helper()
	p.waitFor("the client to close", func() bool { return p.closed })
}

// Received gives everything that the client has written so far.
func (p *Peer) Received() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.received)
}

// Pause stops reading what the client writes.
func (p *Peer) Pause() {
	p.mu.Lock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
	p.mu.Unlock()
	_ = p.conn.SetReadDeadline(time.Unix(1, 0))
}

// Resume reads again.
func (p *Peer) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// Close ends the connection with FIN and waits for the end of the reader.
func (p *Peer) Close() {
	p.Resume()
	_ = p.conn.Close()
	<-p.ended
}

// Reset ends the connection with RST. It must be a TCP connection.
func (p *Peer) Reset() {
	p.tb.Helper()
	if err := p.conn.(*net.TCPConn).SetLinger(0); err != nil {
		p.tb.Fatalf("the peer can't reset: %v", err)
	}
	p.Close()
}

func (p *Peer) read() {
	defer close(p.ended)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.conn.Read(buf)
		paused := p.took(buf[:n], err)
		if paused != nil {
			<-paused
			_ = p.conn.SetReadDeadline(time.Time{})
			continue
		}
		if err != nil {
			return
		}
	}
}

// took keeps what came, and gives the channel to wait for while paused.
func (p *Peer) took(b []byte, err error) (paused chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = append(p.received, b...)
	if p.paused == nil && err != nil {
		p.closed = true
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return p.paused
}

// waitFor waits until condition, called under the lock, is true.
func (p *Peer) waitFor(what string, condition func() bool) {
	p.tb.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		met, closed, changed := condition(), p.closed, p.changed
		p.mu.Unlock()
		if met {
			return
		}
		if closed {
			p.tb.Fatalf("the client closed while the peer waited for %s; it wrote %q", what, p.Received())
		}
		select {
		case <-changed:
		case <-limit.C:
			p.tb.Fatalf("no %s from the client in %v; it wrote %q", what, patience, p.Received())
		}
	}
}
