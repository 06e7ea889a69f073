// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// proxy is a link to a publisher that can break.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	pairs   map[*pair]struct{}
	dark    bool // forwards nothing
	cutNext string
	closed  bool
}

// pair is one connection through the proxy.
type pair struct{ client, server *net.TCPConn }

// Ways to cut: with the next bytes from the publisher.
const (
	cutFIN = "FIN"
	cutRST = "RST"
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed by the test
	require.NoError(t, err)
	p := &proxy{listener: listener, target: strings.TrimPrefix(target, "tcp://"), pairs: map[*pair]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) endpoint() string { return "tcp://" + p.listener.Addr().String() }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.pairs {
		c.close()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.running.Wait()
}

func (c *pair) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // a local address
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client.(*net.TCPConn), server: server.(*net.TCPConn)}
		p.mu.Lock()
		if p.closed {
			c.close()
		}
		p.pairs[c] = struct{}{}
		p.mu.Unlock()
		p.running.Go(func() { p.forward(c, c.client, c.server, false) })
		p.running.Go(func() { p.forward(c, c.server, c.client, true) })
	}
}

// forward copies one direction until it ends.
func (p *proxy) forward(c *pair, from, to *net.TCPConn, downstream bool) {
	defer p.remove(c)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if p.lit() && downstream {
			if how := p.takeCut(); how != "" {
				p.cutNow(c, to, buffer[:n], how)
				return
			}
		}
		if _, err = to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// lit waits while the link is dark.
func (p *proxy) lit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.dark && !p.closed {
		p.changed.Wait()
	}
	return !p.closed
}

func (p *proxy) takeCut() (how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how, p.cutNext = p.cutNext, ""
	return how
}

// cutNow forwards all but the last byte, so that a frame is left open, and ends
// the connection.
func (p *proxy) cutNow(c *pair, to *net.TCPConn, b []byte, how string) {
	_, _ = to.Write(b[:len(b)-1]) // the client may be gone
	if how == cutRST {
		_ = to.SetLinger(0)
	}
	c.close()
}

func (p *proxy) remove(c *pair) {
	c.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

// cut ends the connection within the next message.
func (p *proxy) cut(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutNext = map[bool]string{false: cutFIN, true: cutRST}[reset]
}

// blackhole stops forwarding, or begins again with new connections: what was under
// way in the dark is lost.
func (p *proxy) blackhole(dark bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = dark
	if !dark {
		for c := range p.pairs {
			c.close()
		}
	}
	p.changed.Broadcast()
}

// inNamespace makes the collectors of this test run a command first, in a mount
// namespace of their own; they keep their process id.
func inNamespace(t *testing.T, command string) {
	t.Helper()
	harness.Unable(t, "makes a mount namespace", exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run())
	wrap(t, fmt.Sprintf("exec unshare --mount --propagation private sh -c '%s && exec \"$0\" \"$@\"' '%s' \"$@\"\n", command, harness.Binary(t)))
}

// wrap puts a shell script in the place of the binary.
func wrap(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "collector")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("OTELCOL_FPM_BINARY", path)
}
