// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package fpm is the domain of forward pass metrics: what one forward pass of an engine is, which messages describe one
// (fpm-stream.md sections 2, 6, 11 and 12), and the canonical form in which a payload travels (section 7).
//
// It is written by hand because it stands between the network and everything else: input is hostile until judged here, a
// message must not cost an allocation, and no msgpack library does either.
package fpm

// ForwardPass is the typed view of one valid payload. Its byte slices are views into the payload that was given to
// [Decoder.Decode] and live as long as that buffer.
type ForwardPass struct {
	WorkerID    []byte  // untrusted text, may be empty (STR-73, STR-74)
	DPRank      int64   // data-parallel rank, >= 0
	CounterID   int64   // the publisher's message number, >= 0
	WallTime    float64 // seconds, finite and >= 0; 0 means none was measured
	TimingScope []byte  // nil unless the payload has a string timing_scope (STR-75)
	Scheduled   Scheduled
	Queued      Queued

	SkippedFields int  // entries left out of the canonical payload because msgpack bytes have no place in it (STR-54)
	BigInt        bool // an integer above 2^63-1 somewhere in the payload: carry it as bytes (STR-57)
	Legacy        bool // version and counter_id were filled in (STR-80)

	payload []byte // as given to Decode
	plain   bool   // the canonical payload is the raw one
}

// Scheduled is what the pass ran. Counts are >= 0, variances finite and >= 0; an absent variance is 0 with its Has flag off.
type Scheduled struct {
	PrefillRequests       int64   // new prefills and chunk continuations
	PrefillTokens         int64   // prompt tokens computed in this pass
	PrefillLengthVariance float64 // tokens², of the full prompt lengths
	PrefillKVTokens       int64   // KV read by prefills: prefix hits and earlier chunks
	DecodeRequests        int64
	DecodeKVTokens        int64   // KV context of the decodes
	DecodeKVVariance      float64 // tokens², of those contexts

	HasPrefillLengthVariance bool
	HasDecodeKVVariance      bool
}

// Queued is what waited when the record was sent. Ranges as in [Scheduled].
type Queued struct {
	PrefillRequests       int64
	PrefillTokens         int64   // raw prompt lengths of the waiting prefills
	PrefillLengthVariance float64 // tokens²
	DecodeRequests        int64   // preempted decodes, or such as wait for remote KV
	DecodeKVTokens        int64
	DecodeKVVariance      float64 // tokens²

	HasPrefillLengthVariance bool
	HasDecodeKVVariance      bool
}
