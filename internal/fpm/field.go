// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// payloadVersion is the only schema version there is (STR-31).
const payloadVersion = 1

// The keys of the wire table (fpm-stream.md 5.2).
const (
	keyVersion           = "version"
	keyWorkerID          = "worker_id"
	keyDPRank            = "dp_rank"
	keyCounterID         = "counter_id"
	keyTimingScope       = "timing_scope"
	keyWallTime          = "wall_time"
	keyScheduledRequests = "scheduled_requests"
	keyQueuedRequests    = "queued_requests"

	keyNumPrefillRequests = "num_prefill_requests"
	keySumPrefillTokens   = "sum_prefill_tokens"
	keyVarPrefillLength   = "var_prefill_length"
	keySumPrefillKVTokens = "sum_prefill_kv_tokens"
	keyNumDecodeRequests  = "num_decode_requests"
	keySumDecodeKVTokens  = "sum_decode_kv_tokens"
	keyVarDecodeKVTokens  = "var_decode_kv_tokens"
)

// field is a known field, numbered in the order of the wire table, which is the order of judgment.
type field uint8

const (
	fieldVersion field = iota
	fieldWorkerID
	fieldDPRank
	fieldCounterID
	fieldTimingScope // any value is valid; known only to be seen (STR-75)
	fieldWallTime
	fieldScheduled
	fieldScheduledFirst // the seven of requestField follow
	fieldQueued         = fieldScheduledFirst + field(requestFields)
	fieldQueuedFirst    = fieldQueued + 1 // the same seven; the prefill KV tokens among them are never judged (STR-33)
	fields              = fieldQueuedFirst + field(requestFields)

	fieldUnknown field = 255
)

// requestField is a known field inside scheduled_requests or queued_requests.
type requestField uint8

const (
	numPrefillRequests requestField = iota
	sumPrefillTokens
	varPrefillLength
	sumPrefillKVTokens
	numDecodeRequests
	sumDecodeKVTokens
	varDecodeKVTokens
	requestFields

	requestUnknown requestField = 255
)

// topField finds a key of the payload map. It makes no string of the key.
func topField(key []byte) field {
	switch len(key) {
	case len(keyVersion):
		switch string(key) {
		case keyVersion:
			return fieldVersion
		case keyDPRank:
			return fieldDPRank
		}
	case len(keyWorkerID):
		switch string(key) {
		case keyWorkerID:
			return fieldWorkerID
		case keyWallTime:
			return fieldWallTime
		}
	case len(keyCounterID):
		if string(key) == keyCounterID {
			return fieldCounterID
		}
	case len(keyTimingScope):
		if string(key) == keyTimingScope {
			return fieldTimingScope
		}
	case len(keyScheduledRequests):
		if string(key) == keyScheduledRequests {
			return fieldScheduled
		}
	case len(keyQueuedRequests):
		if string(key) == keyQueuedRequests {
			return fieldQueued
		}
	}
	return fieldUnknown
}

// findRequestField finds a key of scheduled_requests; all but sum_prefill_kv_tokens are known in queued_requests too
// (STR-33). The keys are too long to be compared inline, so length and first letter leave one candidate to compare.
func findRequestField(key []byte) requestField {
	f, name := requestUnknown, ""
	switch len(key) {
	case len(keySumPrefillTokens):
		f, name = sumPrefillTokens, keySumPrefillTokens
		if key[0] == 'v' {
			f, name = varPrefillLength, keyVarPrefillLength
		}
	case len(keyNumDecodeRequests):
		f, name = numDecodeRequests, keyNumDecodeRequests
	case len(keyNumPrefillRequests):
		switch key[0] {
		case 'n':
			f, name = numPrefillRequests, keyNumPrefillRequests
		case 's':
			f, name = sumDecodeKVTokens, keySumDecodeKVTokens
		default:
			f, name = varDecodeKVTokens, keyVarDecodeKVTokens
		}
	case len(keySumPrefillKVTokens):
		f, name = sumPrefillKVTokens, keySumPrefillKVTokens
	}
	if string(key) != name {
		return requestUnknown
	}
	return f
}

// faults holds the reason against each known field, as its last occurrence in the payload left it (STR-49).
type faults [fields]Reason

// absent is the state of a payload in which no field was seen yet: optional fields may stay away.
var absent = func() faults {
	var f faults
	for _, required := range []field{
		fieldVersion, fieldWorkerID, fieldDPRank, fieldCounterID, fieldWallTime, fieldScheduled, fieldQueued,
	} {
		f[required] = ReasonMissingField
	}
	copy(f[fieldScheduledFirst:], absentScheduled[:])
	copy(f[fieldQueuedFirst:], absentQueued[:])
	return f
}()

var (
	absentScheduled = [requestFields]Reason{
		numPrefillRequests: ReasonMissingField,
		sumPrefillTokens:   ReasonMissingField,
		sumPrefillKVTokens: ReasonMissingField,
		numDecodeRequests:  ReasonMissingField,
		sumDecodeKVTokens:  ReasonMissingField,
	}
	absentQueued = [requestFields]Reason{
		numPrefillRequests: ReasonMissingField,
		sumPrefillTokens:   ReasonMissingField,
		numDecodeRequests:  ReasonMissingField,
		sumDecodeKVTokens:  ReasonMissingField,
	}
)

// first gives the fault to report: that of the first faulty field of the wire table.
func (f *faults) first() Reason {
	for _, r := range f {
		if r != 0 {
			return r
		}
	}
	return 0
}
