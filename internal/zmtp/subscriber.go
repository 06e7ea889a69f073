// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Subscriber keeps one connection to each of its endpoints alive until the
// endpoint is removed or the subscriber is closed. The set may change at any
// time. Its methods are safe for concurrent use.
type Subscriber struct {
	cfg  Config
	dial dialFunc

	// ctx ends with Close; every supervisor runs under it.
	ctx    context.Context //nolint:containedctx // The lifetime of the set, not of a call.
	cancel context.CancelFunc
	// all counts the supervisors that run.
	all sync.WaitGroup

	// mu guards the set only. It is never held while anything is dialed, read or
	// handed over (ZMQ-49).
	mu     sync.Mutex
	closed bool
	set    map[Endpoint]*member
}

// member is a running supervisor.
type member struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// NewSubscriber makes a subscriber without endpoints. It starts nothing.
func NewSubscriber(cfg Config) *Subscriber {
	ctx, cancel := context.WithCancel(context.Background())
	return &Subscriber{
		cfg:    cfg.withDefaults(),
		dial:   dialEndpoint,
		ctx:    ctx,
		cancel: cancel,
		set:    make(map[Endpoint]*member),
	}
}

// Add starts the supervisor of e and returns at once, whatever the network does
// (ZMQ-45). It is an error to add an endpoint twice, or to a closed subscriber.
func (s *Subscriber) Add(e Endpoint, h Handler) error {
	if e == (Endpoint{}) {
		return errors.New("no endpoint to subscribe to")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%s: the subscriber is closed", e)
	}
	if _, found := s.set[e]; found {
		return fmt.Errorf("%s: the endpoint is subscribed to already", e)
	}
	s.set[e] = s.start(e, h)
	return nil
}

func (s *Subscriber) start(e Endpoint, h Handler) *member {
	ctx, cancel := context.WithCancel(s.ctx)
	m := &member{cancel: cancel, done: make(chan struct{})}
	sup := newSupervisor(e, h, &s.cfg, s.dial)
	s.all.Go(func() {
		defer close(m.done)
		sup.run(ctx)
	})
	return m
}

// Remove ends the supervisor of e and waits for it: its connection is closed and
// its handler isn't called any more when Remove returns. The same endpoint may
// be added again then and starts anew (ZMQ-58).
func (s *Subscriber) Remove(e Endpoint) error {
	s.mu.Lock()
	m, found := s.set[e]
	delete(s.set, e)
	s.mu.Unlock()
	if !found {
		return fmt.Errorf("%s: the endpoint is not subscribed to", e)
	}
	m.cancel()
	<-m.done
	return nil
}

// Close ends all supervisors and waits until they have ended, or for ctx, whose
// error it returns then. Add fails from now on. Close may be called again, to go
// on waiting.
func (s *Subscriber) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	clear(s.set)
	s.mu.Unlock()
	s.cancel()
	return s.wait(ctx)
}

func (s *Subscriber) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		s.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a handler has not returned: %w", context.Cause(ctx))
	}
}
