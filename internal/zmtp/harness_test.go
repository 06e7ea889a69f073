// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

func TestMain(m *testing.M) {
	zmtptest.LoadMain()
	// The peer of the interop test leaves a goroutine for each closed PUB.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*pubMWriter).run"))
}

// eventually is the limit of tests that use real sockets. Nothing waits for all
// of it in a test that works.
const eventually = 30 * time.Second

// received is a message with its own bytes.
type received struct {
	frames     [][]byte
	at         time.Time
	generation uint64
}

// recorder is a Handler that keeps everything. Events are "connect 1", "failed
// dial", "disconnect silent", "up", "down silent".
type recorder struct {
	// onMessage, when set, is called first; it may block.
	onMessage func(m *Message)

	mu       sync.Mutex
	events   []string
	eventsAt []time.Time
	errs     []*Error
	messages []received
	bytes    int
	pings    int
}

func (r *recorder) OnMessage(m *Message) {
	if r.onMessage != nil {
		r.onMessage(m)
	}
	frames := make([][]byte, len(m.Frames))
	for i, f := range m.Frames {
		frames[i] = bytes.Clone(f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, received{frames: frames, at: m.ReceivedAt, generation: m.Generation})
}

func (r *recorder) OnConnect(generation uint64) { r.event(fmt.Sprintf("connect %d", generation), nil) }
func (r *recorder) OnAttemptFailed(err *Error)  { r.event("failed "+err.Reason.String(), err) }
func (r *recorder) OnDisconnect(err *Error)     { r.event("disconnect "+err.Reason.String(), err) }

func (r *recorder) OnStatus(up bool, err *Error) {
	if up {
		r.event("up", nil)
		return
	}
	r.event("down "+err.Reason.String(), err)
}

func (r *recorder) OnIO(bytes, pings int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += bytes
	r.pings += pings
}

func (r *recorder) event(what string, err *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, what)
	r.eventsAt = append(r.eventsAt, time.Now())
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// count counts the events with that text.
func (r *recorder) count(what string) int {
	n := 0
	for _, e := range r.all() {
		if e == what {
			n++
		}
	}
	return n
}

// at is when the first event with that text came.
func (r *recorder) at(t *testing.T, what string) time.Time {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.events {
		if e == what {
			return r.eventsAt[i]
		}
	}
	require.FailNow(t, "no such event", "%s in %v", what, r.events)
	return time.Time{}
}

func (r *recorder) lastError(t *testing.T) *Error {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.errs)
	return r.errs[len(r.errs)-1]
}

func (r *recorder) got() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.eventsAt, r.errs, r.messages = nil, nil, nil, nil
}

func (r *recorder) io() (bytes, pings int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes, r.pings
}

func (r *recorder) sequences(t *testing.T) []uint64 {
	t.Helper()
	var all []uint64
	for _, m := range r.got() {
		require.Len(t, m.frames, 3)
		all = append(all, binary.BigEndian.Uint64(m.frames[1]))
	}
	return all
}

// waitEvent and waitMessages are for tests with real sockets.
func (r *recorder) waitEvent(t *testing.T, what string) {
	t.Helper()
	require.Eventually(t, func() bool { return r.count(what) > 0 }, eventually, time.Millisecond, "no event %q", what)
}

func (r *recorder) waitMessages(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.got()) >= n }, eventually, time.Millisecond, "no %d messages", n)
}

// pipeNet stands for the network in a bubble: each dial gives the test the other
// end of a pipe. A dial that nobody accepts hangs as one into a black hole does.
type pipeNet struct {
	conns chan net.Conn

	mu    sync.Mutex
	err   error // each dial fails with it, when set
	dials []time.Time
}

func (n *pipeNet) dial(ctx context.Context, _ Endpoint) (net.Conn, error) {
	n.mu.Lock()
	n.dials = append(n.dials, time.Now())
	err := n.err
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *pipeNet) refuse(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

func (n *pipeNet) dialTimes() []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dials)
}

// bubble is a subscriber with one endpoint on a pipeNet, in a synctest bubble:
// time passes only when everything waits.
type bubble struct {
	*recorder
	t   *testing.T
	net *pipeNet
	sub *Subscriber
}

var testEndpoint = Endpoint{network: networkTCP, host: "engine", port: 20380}

func inBubble(t *testing.T, cfg Config, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{recorder: &recorder{}, t: t, net: &pipeNet{conns: make(chan net.Conn)}, sub: NewSubscriber(cfg)}
		b.sub.dial = b.net.dial
		t.Cleanup(func() { assert.NoError(t, b.sub.Close(context.Background())) })
		test(b)
	})
}

func (b *bubble) start() { require.NoError(b.t, b.sub.Add(testEndpoint, b)) }

// accept takes the next connection.
func (b *bubble) accept() *zmtptest.Peer { return zmtptest.NewPeer(b.t, <-b.net.conns) }

// connect starts and gives a peer that has shaken hands as a libzmq PUB.
func (b *bubble) connect() *zmtptest.Peer {
	b.t.Helper()
	b.start()
	p := b.accept()
	p.Handshake()
	synctest.Wait()
	return p
}

// connectOld is connect with a peer of version 3.0.
func (b *bubble) connectOld() *zmtptest.Peer {
	b.t.Helper()
	b.start()
	p := b.accept()
	p.HandshakeWith(zmtptest.Greeting(3, 0, "NULL"), zmtptest.ReadyAs("PUB"))
	synctest.Wait()
	return p
}

// requireEvents compares all events so far.
func (b *bubble) requireEvents(want ...string) {
	b.t.Helper()
	synctest.Wait()
	require.Equal(b.t, want, b.all())
}

// sendAll writes from a goroutine of its own, for peers whose writes may never
// be taken; the pipe is closed with the peer.
func sendAll(p *zmtptest.Peer, chunks ...[]byte) {
	go func() {
		for _, c := range chunks {
			if !p.TrySend(c) {
				return
			}
		}
	}()
}

// drip sends one byte per second, as long as the client takes them.
func drip(p *zmtptest.Peer, b []byte) {
	for i := range b {
		if !p.TrySend(b[i : i+1]) {
			return
		}
		time.Sleep(time.Second)
	}
}

// newSubscriber gives a subscriber on real sockets.
func newSubscriber(t *testing.T, cfg Config) *Subscriber {
	t.Helper()
	s := NewSubscriber(cfg)
	t.Cleanup(func() { requireClose(t, s) })
	return s
}

func requireClose(t *testing.T, s *Subscriber) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually)
	defer cancel()
	require.NoError(t, s.Close(ctx))
}

func add(t *testing.T, s *Subscriber, endpoint string) *recorder {
	t.Helper()
	r := &recorder{}
	require.NoError(t, s.Add(mustParse(t, endpoint), r))
	return r
}

func mustParse(tb testing.TB, endpoint string) Endpoint {
	tb.Helper()
	e, err := ParseEndpoint(endpoint)
	require.NoError(tb, err)
	return e
}

// fastConfig redials quickly, for tests on real sockets.
func fastConfig() Config {
	return Config{InitialBackoff: 2 * time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

// openFiles counts the file descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
