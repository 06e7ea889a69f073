// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"net"
	"time"
)

// supervisor owns the whole life of one endpoint: dial, handshake, read, close,
// wait, for ever (ZMQ-45, ZMQ-46). One goroutine runs it.
type supervisor struct {
	endpoint Endpoint
	handler  Handler
	cfg      *Config
	dial     dialFunc

	backoff    backoff
	status     status
	generation uint64
}

func newSupervisor(e Endpoint, h Handler, cfg *Config, dial dialFunc) *supervisor {
	return &supervisor{
		endpoint: e,
		handler:  h,
		cfg:      cfg,
		dial:     dial,
		backoff:  newBackoff(cfg.InitialBackoff, cfg.MaxBackoff),
		status:   status{report: h.OnStatus},
	}
}

// run returns when ctx ends, and for no other reason.
func (s *supervisor) run(ctx context.Context) {
	for {
		s.attempt(ctx)
		if !sleep(ctx, s.backoff.wait()) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// attempt is one connection from dial to close.
func (s *supervisor) attempt(ctx context.Context) {
	conn, f := s.connect(ctx)
	if f != nil {
		s.attemptFailed(ctx, f)
		return
	}
	defer func() { _ = conn.Close() }()
	// Closing the connection ends whatever the supervisor is blocked in (ZMQ-51).
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	established, f := s.shakeHands(conn)
	if f != nil {
		s.attemptFailed(ctx, f)
		return
	}
	s.connected()
	f = s.receive(ctx, established)
	established.reportIO()
	s.disconnected(ctx, f)
}

func (s *supervisor) connect(ctx context.Context) (net.Conn, *fault) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	conn, err := s.dial(ctx, s.endpoint)
	if err != nil {
		return nil, dialFault(ctx, err, s.cfg.DialTimeout)
	}
	return conn, nil
}

func (s *supervisor) shakeHands(conn net.Conn) (*connection, *fault) {
	in := newAssembler(s.cfg.MaxMessageSize)
	h := handshaker{conn: conn, in: in, timeout: s.cfg.HandshakeTimeout}
	version, f := h.run()
	if h.bytes > 0 {
		s.handler.OnIO(h.bytes, 0)
	}
	if f != nil {
		return nil, f
	}
	return &connection{
		conn:    conn,
		in:      in,
		idle:    s.cfg.IdleTimeout,
		mayPing: version.is31(),
		onIO:    s.handler.OnIO,
		onAlive: s.status.alive,
		readAt:  h.readAt,
	}, nil
}

// receive hands over messages until the connection ends.
func (s *supervisor) receive(ctx context.Context, c *connection) *fault {
	m := Message{Generation: s.generation}
	for ctx.Err() == nil {
		if f := c.next(&m); f != nil {
			return f
		}
		s.backoff.reset()
		s.handler.OnMessage(&m)
	}
	return faultf(ReasonCanceled, "%w", ctx.Err())
}

func (s *supervisor) connected() {
	s.generation++
	s.handler.OnConnect(s.generation)
	s.status.connected()
}

func (s *supervisor) attemptFailed(ctx context.Context, f *fault) {
	if ctx.Err() == nil {
		s.down(f, s.handler.OnAttemptFailed)
	}
}

func (s *supervisor) disconnected(ctx context.Context, f *fault) {
	if ctx.Err() == nil {
		s.down(f, s.handler.OnDisconnect)
	}
}

// down reports a loss. A peer that refuses us is left alone for longer (ZMQ-6).
func (s *supervisor) down(f *fault, report func(*Error)) {
	if f.reason == ReasonPeerError {
		s.backoff.exhaust()
	}
	err := f.at(s.endpoint)
	report(err)
	s.status.down(err)
}
