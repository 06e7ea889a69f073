// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtptest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Server listens for clients and gives each as a [Peer].
type Server struct {
	tb       testing.TB
	listener net.Listener
	accepted chan net.Conn
	ended    chan struct{}

	mu          sync.Mutex
	connections int
	closed      chan struct{}
	closeOnce   sync.Once
}

// Listen binds until the end of the test: "tcp" with an address such as
// 127.0.0.1:0, or "unix" with a path or @name.
func Listen(tb testing.TB, network, address string) *Server {
	tb.Helper()
	listener, err := net.Listen(network, address) //nolint:noctx // A local listener.
	if err != nil {
		tb.Fatalf("can't listen: %v", err)
	}
	s := &Server{
		tb:       tb,
		listener: listener,
		accepted: make(chan net.Conn),
		ended:    make(chan struct{}),
		closed:   make(chan struct{}),
	}
	go s.accept()
	tb.Cleanup(s.Close)
	return s
}

// ListenTCP binds a free port on the loopback.
func ListenTCP(tb testing.TB) *Server {
	tb.Helper()
	return Listen(tb, "tcp", "127.0.0.1:0")
}

// Endpoint is what a client connects to.
func (s *Server) Endpoint() string { return endpointOf(s.listener.Addr()) }

// Address is the bound address, to listen on it again.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Connections counts the connections so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Accept waits for the next client.
func (s *Server) Accept() *Peer {
	s.tb.Helper()
	return NewPeer(s.tb, s.AcceptConn())
}

// AcceptConn waits for the next client and gives the bare connection, which the
// caller closes.
func (s *Server) AcceptConn() net.Conn {
	s.tb.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case conn := <-s.accepted:
		return conn
	case <-s.ended:
		s.tb.Fatal("the server is closed")
	case <-limit.C:
		s.tb.Fatalf("no client in %v", patience)
	}
	return nil
}

// TryAccept waits for the next client until stop is closed, for goroutines that
// serve clients beside the test.
func (s *Server) TryAccept(stop <-chan struct{}) (conn net.Conn, ok bool) {
	select {
	case conn = <-s.accepted:
		return conn, true
	case <-stop:
	case <-s.ended:
	}
	return nil, false
}

// Close stops listening. Connections that were accepted live on.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		close(s.closed)
		_ = s.listener.Close()
	})
	<-s.ended
}

func (s *Server) accept() {
	defer close(s.ended)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.connections++
		s.mu.Unlock()
		select {
		case s.accepted <- conn:
		case <-s.closed:
			_ = conn.Close()
			return
		}
	}
}

func endpointOf(addr net.Addr) string {
	if addr.Network() == "unix" {
		return "ipc://" + addr.String()
	}
	return "tcp://" + addr.String()
}
