// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import "sync"

// gate lets callers in until it is closed, and says when the last one has left. The zero value is open.
type gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // made by close, closed when nobody is inside any more
}

// enter is false when the gate is closed; else leave has to follow.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// close is false when the gate was closed before.
func (g *gate) close() (empty <-chan struct{}, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.empty, false
	}
	g.closed = true
	g.empty = make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	return g.empty, true
}
