// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// useNameServer makes this process ask the name server at addr. At the end of the
// test all questions are cut off: the resolver of Go waits for its own timeout
// behind a lookup that was canceled.
func useNameServer(t *testing.T, addr string) {
	t.Helper()
	before := net.DefaultResolver
	var (
		mu    sync.Mutex
		conns []net.Conn
		ended bool
	)
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if ended {
				return nil, net.ErrClosed
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, "udp", addr)
			if err == nil {
				conns = append(conns, conn)
			}
			return conn, err
		},
	}
	t.Cleanup(func() {
		net.DefaultResolver = before
		mu.Lock()
		defer mu.Unlock()
		ended = true
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
}

// nameServer answers every A question with one address, or that there is none.
type nameServer struct {
	conn net.PacketConn
	mu   sync.Mutex
	ip   net.IP
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0") //nolint:noctx // A local listener.
	require.NoError(t, err)
	s := &nameServer{conn: conn}
	var running sync.WaitGroup
	running.Go(s.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
	useNameServer(t, conn.LocalAddr().String())
	return s
}

func (s *nameServer) set(ip net.IP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ip = ip.To4()
}

func (s *nameServer) serve() {
	buf := make([]byte, 512)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		answer := dnsAnswer(buf[:n], s.ip)
		s.mu.Unlock()
		_, _ = s.conn.WriteTo(answer, from)
	}
}

// dnsAnswer answers a question (RFC 1035): its header and question, and one A
// record that points at the name in the question.
func dnsAnswer(question []byte, ip net.IP) []byte {
	const headerSize, typeA = 12, 1
	end := headerSize
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end++
	isA := binary.BigEndian.Uint16(question[end:]) == typeA
	end += 4
	answer := append([]byte{}, question[:end]...)
	answer[2], answer[3] = 0x84, 0x00 // an authoritative answer
	binary.BigEndian.PutUint16(answer[6:], 0)
	binary.BigEndian.PutUint16(answer[8:], 0)
	binary.BigEndian.PutUint16(answer[10:], 0)
	if ip == nil {
		answer[3] = 3 // no such name
		return answer
	}
	if !isA {
		return answer
	}
	answer[7] = 1
	answer = append(answer, 0xc0, headerSize, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(answer, ip...)
}
