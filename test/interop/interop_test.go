// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

const payloadSize = 440

func fastRedial() zmtp.Config {
	return zmtp.Config{InitialBackoff: 50 * time.Millisecond, MaxBackoff: 500 * time.Millisecond}
}

func TestZF45EveryKindOfEndpoint(t *testing.T) {
	for name, tt := range map[string]struct {
		bind string
		// endpoint is what to connect to, from what was bound.
		endpoint func(bound string) string
		args     []string
	}{
		"tcp":       {bind: "tcp://127.0.0.1:*"},
		"XPUB":      {bind: "tcp://127.0.0.1:*", args: []string{"--xpub"}},
		"IPv6":      {bind: "tcp://[::1]:*"},
		"localhost": {bind: "tcp://127.0.0.1:*", endpoint: func(bound string) string { return strings.Replace(bound, "127.0.0.1", "localhost", 1) }},
		"ipc":       {bind: "ipc://" + filepath.Join(t.TempDir(), "s")},
		"abstract":  {bind: fmt.Sprintf("ipc://@otelcol-fpm-interop-%d", os.Getpid())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "IPv6" && !hasIPv6() {
				t.Skip("no IPv6 loopback here")
			}
			p := startPublisher(t, tt.bind, tt.args...)
			endpoint := p.endpoint
			if tt.endpoint != nil {
				endpoint = tt.endpoint(endpoint)
			}
			s := subscribe(t, endpoint, zmtp.Config{}, &subscription{payloadSize: payloadSize})
			s.waitMessages(100)
			requireNoGaps(t, s)
		})
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0") //nolint:noctx // A local listener.
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func requireNoGaps(t *testing.T, s *subscription) {
	t.Helper()
	_, gaps, _ := s.counts()
	require.Zero(t, gaps)
	require.Equal(t, []string{"up"}, s.all())
}

func TestZF31Heartbeats(t *testing.T) {
	t.Parallel()
	p := startPublisher(t, "tcp://127.0.0.1:*", "--heartbeat-interval=400", "--heartbeat-timeout=400")
	s := subscribe(t, p.endpoint, zmtp.Config{}, &subscription{payloadSize: payloadSize})
	s.waitMessages(1)
	time.Sleep(10 * time.Second)
	requireNoGaps(t, s)
	_, _, pings := s.counts()
	require.Positive(t, pings)
}

func TestZMQ30ZMQ37ZF32SilentPublisherThatAnswersPing(t *testing.T) {
	t.Parallel()
	p := startPublisher(t, "tcp://127.0.0.1:*", "--rate=0")
	s := subscribe(t, p.endpoint, zmtp.Config{IdleTimeout: 2 * time.Second}, &subscription{})
	s.waitEvent("up")
	time.Sleep(8 * time.Second)
	require.Equal(t, []string{"up"}, s.all())
}

func TestZF33StoppedPublisher(t *testing.T) {
	t.Parallel()
	p := startPublisher(t, "tcp://127.0.0.1:*")
	cfg := fastRedial()
	cfg.IdleTimeout = 2 * time.Second
	s := subscribe(t, p.endpoint, cfg, &subscription{payloadSize: payloadSize})
	s.waitMessages(10)
	p.signal(t, syscall.SIGSTOP)
	s.waitEvent("disconnect silent")
	p.signal(t, syscall.SIGCONT)
	s.waitMore(10)
}

func TestZF2KilledPublisher(t *testing.T) {
	t.Parallel()
	p := startPublisher(t, "tcp://127.0.0.1:*")
	s := subscribe(t, p.endpoint, fastRedial(), &subscription{payloadSize: payloadSize})
	s.waitMessages(10)
	p.kill()
	s.waitEvent("failed dial")
	startPublisher(t, p.endpoint)
	s.waitMore(10)
	require.Equal(t, "up", s.all()[len(s.all())-1])
}

func TestZF46IPCFileIsBoundAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	p := startPublisher(t, "ipc://"+path)
	s := subscribe(t, p.endpoint, fastRedial(), &subscription{payloadSize: payloadSize})
	s.waitMessages(10)
	p.kill() // leaves its file behind
	s.waitEvent("failed dial")
	require.NoError(t, os.Remove(path))
	startPublisher(t, "ipc://"+path)
	s.waitMore(10)
}

// TestZMQ25PingBetweenFrames makes libzmq put PINGs between the frames of a
// message: heartbeats, a reader so slow that the socket is always full, and
// messages so short that the end of libzmq's batch often lies in the first frames.
func TestZMQ25PingBetweenFrames(t *testing.T) {
	t.Parallel()
	const size = 40
	p := startPublisher(t, "tcp://127.0.0.1:*", "--heartbeat-interval=5", "--heartbeat-timeout=30000", "--rate=20000", "--send-buffer=4096", fmt.Sprintf("--size=%d", size))
	watcher := newWatcher(t, strings.TrimPrefix(p.endpoint, "tcp://"))
	s := subscribe(t, watcher.endpoint(), zmtp.Config{}, &subscription{payloadSize: size})
	require.Eventually(t, func() bool { return watcher.interleaved.Load() >= 2 }, eventually, 10*time.Millisecond, "libzmq put no PING between frames")
	s.waitMore(1000) // whole messages, checked one by one, after that too
	require.Equal(t, []string{"up"}, s.all())
	_, _, pings := s.counts()
	require.Positive(t, pings)
	t.Logf("%d PINGs between frames", watcher.interleaved.Load())
}
