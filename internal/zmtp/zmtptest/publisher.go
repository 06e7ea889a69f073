// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtptest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultHighWaterMark is libzmq's.
const DefaultHighWaterMark = 1000

// PublisherConfig is what a [Publisher] may be given.
type PublisherConfig struct {
	// HighWaterMark is how many messages wait for one subscriber at most; 0 means
	// DefaultHighWaterMark. What comes then is dropped for it, and counted.
	HighWaterMark int
	// Block makes Publish wait for room instead of dropping.
	Block bool
}

// Publisher is a PUB socket for load: every message goes to all subscribers,
// each with a bounded queue. It speaks 3.1, to subscribers of 3.0 as well, and
// answers PING. Topics are not looked at: a subscription is one to everything.
// Its methods are safe for concurrent use.
type Publisher struct {
	cfg      PublisherConfig
	listener net.Listener
	running  sync.WaitGroup

	// publishing orders the messages of concurrent callers and guards encoded. It
	// may be held for long, so nothing else takes it.
	publishing sync.Mutex
	encoded    []byte
	dropped    atomic.Uint64

	mu     sync.Mutex
	cond   sync.Cond // at each change of the clients or their subscriptions
	closed bool
	// clients are all connections. The slice is replaced, never changed.
	clients []*client
	total   int
}

// client is one connection. Everything after cond belongs to cond's lock.
type client struct {
	conn       net.Conn
	cond       sync.Cond
	subscribed bool
	closed     bool
	pending    []byte // encoded, not yet taken by the writer
	messages   int    // in pending
}

// NewPublisher binds: "tcp" with host:port (port 0 for a free one), or "unix"
// with a path or @name.
func NewPublisher(network, address string, cfg PublisherConfig) (*Publisher, error) {
	listener, err := net.Listen(network, address) //nolint:noctx // A local listener.
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	if cfg.HighWaterMark <= 0 {
		cfg.HighWaterMark = DefaultHighWaterMark
	}
	p := &Publisher{cfg: cfg, listener: listener}
	p.cond.L = &p.mu
	p.running.Go(p.accept)
	return p, nil
}

// Endpoint is what a client connects to.
func (p *Publisher) Endpoint() string { return endpointOf(p.listener.Addr()) }

// Address is the bound address, to bind it again.
func (p *Publisher) Address() string { return p.listener.Addr().String() }

// Publish sends one message to all who are subscribed now. Messages of one
// caller keep their order.
func (p *Publisher) Publish(frames ...[]byte) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.encoded = AppendMessage(p.encoded[:0], frames...)
	for _, c := range p.connected() {
		if !c.enqueue(p.encoded, p.cfg) {
			p.dropped.Add(1)
		}
	}
}

func (p *Publisher) connected() []*client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clients
}

// Subscribers counts the connections that are subscribed now.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.subscribers()
}

// WaitSubscribers blocks until n are subscribed, or the publisher is closed.
func (p *Publisher) WaitSubscribers(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.subscribers() < n && !p.closed {
		p.cond.Wait()
	}
}

func (p *Publisher) subscribers() int {
	n := 0
	for _, c := range p.clients {
		c.cond.L.Lock()
		if c.subscribed {
			n++
		}
		c.cond.L.Unlock()
	}
	return n
}

// Connections counts all connections that there ever were.
func (p *Publisher) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Dropped counts the messages that a full queue lost, once for each subscriber.
func (p *Publisher) Dropped() uint64 {
	return p.dropped.Load()
}

// Disconnect closes all connections and goes on listening.
func (p *Publisher) Disconnect() {
	for _, c := range p.connected() {
		c.close()
	}
}

// Close closes everything at once; messages that wait are lost.
func (p *Publisher) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.clients {
		c.close()
	}
	p.cond.Broadcast()
	p.mu.Unlock()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Publisher) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		c := &client{conn: conn}
		c.cond.L = &sync.Mutex{}
		if !p.add(c) {
			_ = conn.Close()
			return
		}
		p.running.Go(func() { p.serve(c) })
		p.running.Go(c.write)
	}
}

func (p *Publisher) add(c *client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.clients = append(slices.Clone(p.clients), c)
	p.total++
	return true
}

func (p *Publisher) remove(c *client) {
	c.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = slices.DeleteFunc(slices.Clone(p.clients), func(other *client) bool { return other == c })
	p.cond.Broadcast()
}

// serve reads what the subscriber sends until the connection ends.
func (p *Publisher) serve(c *client) {
	defer p.remove(c)
	c.control(Greeting(3, 1, "NULL"))
	r := bufio.NewReader(c.conn)
	greeting := make([]byte, 64)
	if _, err := io.ReadFull(r, greeting); err != nil {
		return
	}
	c.control(ReadyAs("PUB"))
	for {
		flags, body, err := readFrame(r)
		if err != nil {
			return
		}
		if c.handle(flags, body) {
			p.mu.Lock()
			p.cond.Broadcast()
			p.mu.Unlock()
		}
	}
}

// handle does what a frame of the subscriber asks for, and reports whether the
// subscription changed.
func (c *client) handle(flags byte, body []byte) (changed bool) {
	ping := []byte("\x04PING")
	switch {
	case flags&FlagCommand == 0 && len(body) > 0:
		c.subscribe(body[0] == 1)
		return true
	case bytes.HasPrefix(body, []byte(SubscribeCommand[2:])):
		c.subscribe(true)
		return true
	case bytes.HasPrefix(body, []byte("\x06CANCEL")):
		c.subscribe(false)
		return true
	case bytes.HasPrefix(body, ping) && len(body) >= len(ping)+2:
		c.control(Pong(string(body[len(ping)+2:])))
	}
	return false
}

// readFrame reads a frame of a subscriber, which is never large.
func readFrame(r *bufio.Reader) (flags byte, body []byte, err error) {
	const limit = 64 << 10
	flags, err = r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	header := make([]byte, 1)
	if flags&FlagLong != 0 {
		header = make([]byte, 8)
	}
	if _, err = io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint64(append(make([]byte, 8-len(header)), header...))
	if size > limit {
		return 0, nil, fmt.Errorf("a frame of %d bytes from a subscriber", size)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return flags, body, err
}

func (c *client) subscribe(yes bool) {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	c.subscribed = yes
}

// control queues bytes that are no message.
func (c *client) control(b []byte) {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	c.pending = append(c.pending, b...)
	c.cond.Broadcast()
}

// enqueue queues an encoded message for a subscriber; false means dropped.
func (c *client) enqueue(encoded []byte, cfg PublisherConfig) bool {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	for cfg.Block && c.subscribed && !c.closed && c.messages >= cfg.HighWaterMark {
		c.cond.Wait()
	}
	if !c.subscribed || c.closed {
		return true
	}
	if c.messages >= cfg.HighWaterMark {
		return false
	}
	wasEmpty := len(c.pending) == 0
	c.pending = append(c.pending, encoded...)
	c.messages++
	if wasEmpty {
		c.cond.Broadcast()
	}
	return true
}

func (c *client) close() {
	_ = c.conn.Close()
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	c.closed, c.subscribed = true, false
	c.cond.Broadcast()
}

// write takes all that waits with one write call, again and again.
func (c *client) write() {
	var out []byte
	for {
		out = c.take(out)
		if len(out) == 0 {
			return
		}
		if _, err := c.conn.Write(out); err != nil {
			return
		}
	}
}

// take swaps the pending bytes for an empty buffer; empty means closed.
func (c *client) take(empty []byte) []byte {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	for len(c.pending) == 0 && !c.closed {
		c.cond.Wait()
	}
	if c.closed {
		return nil
	}
	out := c.pending
	c.pending, c.messages = empty[:0], 0
	c.cond.Broadcast()
	return out
}
