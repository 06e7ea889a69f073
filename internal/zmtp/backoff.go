// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"math/rand/v2"
	"time"
)

// backoff gives the waits between attempts (ZMQ-47).
type backoff struct {
	initial, longest time.Duration
	// next is the upper bound of the next wait.
	next time.Duration
}

func newBackoff(initial, longest time.Duration) backoff {
	return backoff{initial: initial, longest: longest, next: min(initial, longest)}
}

// reset is for the first whole message of a connection, not for a handshake: a
// peer that only shakes hands is not to be hammered (ZMQ-48).
func (b *backoff) reset() { b.next = min(b.initial, b.longest) }

// exhaust makes the next wait the longest.
func (b *backoff) exhaust() { b.next = b.longest }

// wait gives the wait before the next attempt, uniform in the upper half of a
// bound that doubles up to the longest.
func (b *backoff) wait() time.Duration {
	d := b.next
	if b.next > b.longest/2 {
		b.next = b.longest
	} else {
		b.next *= 2
	}
	return d/2 + rand.N(d-d/2+1) //nolint:gosec // Jitter needs no secret.
}
