// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// totals count what a rank, or all of them, did. They are safe for concurrent
// use: the summary is due also while a rank waits for a subscriber.
type totals struct {
	mu       sync.Mutex
	kinds    map[string]uint64
	bytes    uint64 // of payloads that were sent
	missed   uint64 // messages that a full queue lost, once for each subscriber
	restarts uint64
}

func (t *totals) count(kind string, payload int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[string]uint64)
	}
	t.kinds[kind]++
	if kind != kindDropped {
		t.bytes += uint64(payload) //nolint:gosec // a length
	}
}

// retired adds what a socket that is closed now had lost.
func (t *totals) retired(missed uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed += missed
}

func (t *totals) restarted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restarts++
}

// add takes in another's counts. t must not be in use elsewhere.
func (t *totals) add(other *totals) {
	other.mu.Lock()
	defer other.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[string]uint64)
	}
	for kind, n := range other.kinds {
		t.kinds[kind] += n
	}
	t.bytes += other.bytes
	t.missed += other.missed
	t.restarts += other.restarts
}

func (t *totals) sent() (n uint64) {
	for kind, count := range t.kinds {
		if kind != kindDropped {
			n += count
		}
	}
	return n
}

// summary is the line at the end.
func (t *totals) summary(ranks int, took time.Duration) string {
	var b strings.Builder
	rate := float64(t.sent()) / max(took.Seconds(), 1e-9)
	fmt.Fprintf(&b, "fpmgen: sent %d messages, %d payload bytes, on %d ranks in %.2fs (%.0f/s):", t.sent(), t.bytes, ranks, took.Seconds(), rate)
	kinds := []string{
		fpm.RecordPass.String(), fpm.RecordUntimed.String(), fpm.RecordHeartbeat.String(), fpm.RecordQueueOnly.String(),
		kindMalformed, kindEnd, kindDropped,
	}
	for _, kind := range kinds {
		fmt.Fprintf(&b, " %s=%d", kind, t.kinds[kind])
	}
	fmt.Fprintf(&b, " missed=%d restarts=%d", t.missed, t.restarts)
	return b.String()
}
