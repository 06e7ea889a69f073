// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Stream is the state of one (endpoint, worker_id, dp_rank). It lives from the
// stream's first record until it is forgotten (STR-99).
type Stream struct {
	// State belongs to the caller: set it at the first record, it goes with
	// the stream.
	State any

	key      fpm.StreamKey
	endpoint *Endpoint
	identity string

	firstSeen, lastSeen time.Time

	last       position
	inRegistry links
	inEndpoint links
}

// position is the last forwarded message of a stream.
type position struct {
	sequence   int64
	generation uint64
	length     int
	hash       uint64
}

// Key is what the stream is known by.
func (s *Stream) Key() fpm.StreamKey { return s.key }

// Identity is the service.instance.id of the stream: its worker_id, or the
// endpoint (STR-73, STR-102), or both where the endpoint has two such streams of a
// rank.
func (s *Stream) Identity() string { return s.identity }

// FirstSeen is the receive time of the stream's first record.
func (s *Stream) FirstSeen() time.Time { return s.firstSeen }

// LastSeen is the receive time of the stream's last record.
func (s *Stream) LastSeen() time.Time { return s.lastSeen }

// advance judges a message by its number alone (STR-66) and makes it the last
// one, unless it is a duplicate.
func (s *Stream) advance(at position, invalid *invalidSequences) (v Verdict) {
	previous := s.last
	switch difference := at.sequence - previous.sequence; {
	case difference > 1:
		v.Missing = difference - 1 - invalid.between(previous.sequence, at.sequence)
		v.Gap = v.Missing > 0
	case difference == 0 && !isNewLife(previous, at):
		v.Duplicate = true
		return v
	case difference <= 0:
		v.Restart = true
	}
	s.last = at
	return v
}

// isNewLife tells a restarted publisher that happens to send the number of the
// last message from a message that came twice: only a newer connection and
// other bytes make it a restart.
func isNewLife(previous, at position) bool {
	return at.generation > previous.generation &&
		(at.length != previous.length || at.hash != previous.hash)
}
