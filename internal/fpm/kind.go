// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// MaxTimedWallTime is the longest wall_time in seconds, 24 hours, that is believed to be the duration of a pass (STR-63).
const MaxTimedWallTime = 86400.0

// RecordKind says what a record tells about the engine (STR-63).
type RecordKind uint8

// The kinds of record.
const (
	RecordPass      RecordKind = iota // a timed forward pass
	RecordUntimed                     // work without a time, or with an incredible one
	RecordHeartbeat                   // nothing but a sign of life
	RecordQueueOnly                   // nothing ran, something waits
	RecordKinds                       // how many there are
)

// String gives the value of fpm.record.kind.
func (k RecordKind) String() string {
	switch k {
	case RecordPass:
		return "pass"
	case RecordUntimed:
		return "untimed"
	case RecordHeartbeat:
		return "heartbeat"
	case RecordQueueOnly:
		return "queue_only"
	default:
		return "unknown"
	}
}

// RecordKind tells the kind of the record. Variances and unknown keys play no part.
func (p *ForwardPass) RecordKind() RecordKind {
	switch {
	case p.WallTime > MaxTimedWallTime:
		return RecordUntimed
	case p.WallTime > 0:
		return RecordPass
	case !p.Scheduled.idle():
		return RecordUntimed
	case !p.Queued.idle():
		return RecordQueueOnly
	default:
		return RecordHeartbeat
	}
}

// PassKind says which phases a working record, a pass or an untimed one, ran (STR-96).
type PassKind uint8

// The kinds of pass.
const (
	PassPrefill PassKind = iota
	PassDecode
	PassMixed
	PassEmpty
	PassKinds // how many there are
)

// String gives the value of fpm.pass.kind.
func (k PassKind) String() string {
	switch k {
	case PassPrefill:
		return "prefill"
	case PassDecode:
		return "decode"
	case PassMixed:
		return "mixed"
	case PassEmpty:
		return "empty"
	default:
		return "unknown"
	}
}

// PassKind tells which phases the pass ran, by its two scheduled request counts alone, whatever the sums say.
func (p *ForwardPass) PassKind() PassKind {
	prefill, decode := p.Scheduled.PrefillRequests > 0, p.Scheduled.DecodeRequests > 0
	switch {
	case prefill && decode:
		return PassMixed
	case prefill:
		return PassPrefill
	case decode:
		return PassDecode
	default:
		return PassEmpty
	}
}

func (s *Scheduled) idle() bool {
	return s.PrefillRequests|s.PrefillTokens|s.PrefillKVTokens|s.DecodeRequests|s.DecodeKVTokens == 0
}

func (q *Queued) idle() bool {
	return q.PrefillRequests|q.PrefillTokens|q.DecodeRequests|q.DecodeKVTokens == 0
}
