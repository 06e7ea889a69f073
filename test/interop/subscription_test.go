// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually is the limit for what must happen. Nothing waits for all of it in a
// test that works.
const eventually = 60 * time.Second

// subscription is a Handler that checks and counts.
type subscription struct {
	t *testing.T
	// payloadSize is that of every message.
	payloadSize int

	mu       sync.Mutex
	events   []string
	messages int
	pings    int
	gaps     uint64
	last     uint64
}

// subscribe runs a subscriber until the end of the test.
func subscribe(t *testing.T, endpoint string, cfg zmtp.Config, s *subscription) *subscription {
	t.Helper()
	s.t = t
	e, err := zmtp.ParseEndpoint(endpoint)
	require.NoError(t, err)
	subscriber := zmtp.NewSubscriber(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually)
		defer cancel()
		assert.NoError(t, subscriber.Close(ctx))
	})
	require.NoError(t, subscriber.Add(e, s))
	return s
}

func (s *subscription) OnMessage(m *zmtp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !assert.Len(s.t, m.Frames, 3) || !assert.Len(s.t, m.Frames[1], 8) {
		return
	}
	assert.Equal(s.t, s.payloadSize, len(m.Frames[2])) //nolint:testifylint // A large payload is not to be printed.
	sequence := binary.BigEndian.Uint64(m.Frames[1])
	if s.messages > 0 && sequence > s.last {
		s.gaps += sequence - s.last - 1
	}
	s.last = sequence
	s.messages++
}

func (s *subscription) OnConnect(uint64)                {}
func (s *subscription) OnAttemptFailed(err *zmtp.Error) { s.event("failed " + err.Reason.String()) }
func (s *subscription) OnDisconnect(err *zmtp.Error)    { s.event("disconnect " + err.Reason.String()) }

func (s *subscription) OnStatus(up bool, err *zmtp.Error) {
	if up {
		s.event("up")
		return
	}
	s.event("down " + err.Reason.String())
}

func (s *subscription) OnIO(_, pings int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings += pings
}

func (s *subscription) event(e string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *subscription) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// counts gives messages, gaps and PINGs so far.
func (s *subscription) counts() (messages int, gaps uint64, pings int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages, s.gaps, s.pings
}

func (s *subscription) waitMessages(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { m, _, _ := s.counts(); return m >= n }, eventually, 5*time.Millisecond, "no %d messages: %v", n, s.all())
}

// waitMore waits for n messages more than there are now.
func (s *subscription) waitMore(n int) {
	s.t.Helper()
	now, _, _ := s.counts()
	s.waitMessages(now + n)
}

func (s *subscription) waitEvent(e string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return slices.Contains(s.all(), e) }, eventually, 5*time.Millisecond, "no event %q", e)
}
