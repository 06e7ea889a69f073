// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import "math"

const (
	// defaultMaxSize is the default of max_message_size (STR-8).
	defaultMaxSize = 1 << 20

	// maxMaxSize keeps every position in a payload within 32 bits.
	maxMaxSize = math.MaxInt32

	// keptScratch is how much scratch memory in bytes a decoder keeps for the next payload; real ones need far less.
	keptScratch = 64 << 10
)

// Decoder judges payloads and gives typed views of the valid ones. It keeps scratch memory between payloads and is not
// safe for concurrent use. The zero value is ready.
type Decoder struct {
	// MaxSize is the largest payload in bytes; 0 means 1 MiB. More than 2 GiB can't be asked for.
	MaxSize int
	// AcceptLegacy takes a payload with neither version nor counter_id as version 1, numbered by its sequence (STR-80).
	AcceptLegacy bool

	scan      scan
	faults    faults
	values    values
	legacy    []byte // the last payload with the two keys filled in, when it was a legacy one
	canonical []byte // the last canonical payload, when it differs
}

// values holds what the last occurrence of each known field said; where that was at fault it means nothing. What wasn't
// seen is zero.
type values struct {
	ints   [fields]int64
	floats [fields]float64
	has    [fields]bool // of measures, which may be absent
	worker []byte
	scope  []byte
}

// Decode judges payload and, when it is valid, fills in every field of into. seq, the number of its sequence frame, is used
// for legacy payloads alone. The error is nil or a [Reason]; after an error into means nothing.
//
// Nothing is allocated unless the payload holds duplicate keys, values that the canonical payload can't hold, or a map with
// more than a handful of unknown keys. What is allocated is bounded by a small multiple of the payload's size.
func (d *Decoder) Decode(payload []byte, seq uint64, into *ForwardPass) error {
	if len(payload) > d.maxSize() {
		return ReasonOversize
	}
	d.reset(payload)
	if r := d.readPayload(); r != 0 {
		return r
	}
	isLegacy := d.AcceptLegacy && d.isLegacy()
	if isLegacy {
		if seq > math.MaxInt64 {
			return ReasonBadSequenceFrame
		}
		d.fillInLegacy(int64(seq))
	}
	if r := d.faults.first(); r != 0 {
		return r
	}
	d.fill(into)
	into.payload = payload
	into.Legacy = isLegacy
	if isLegacy {
		d.legacy = appendLegacy(d.legacy[:0], payload, into.CounterID)
	}
	d.canonicalize(into)
	return nil
}

// Raw is the payload to carry as bytes (STR-104): as received, or re-encoded with version and counter_id when it was a
// legacy one (STR-80). In that case the decoder owns it, until the next Decode. p is the result of the last Decode.
func (d *Decoder) Raw(p *ForwardPass) []byte {
	if p.Legacy {
		return d.legacy
	}
	return p.payload
}

// Canonical is the canonical payload in msgpack (fpm-stream.md 7): duplicates resolved, entries with bin and ext left out,
// unknown NaN and infinities nil, the keys of a legacy payload filled in. When nothing of that changes anything it is
// the raw payload itself, else the decoder owns it, until the next Decode. p is the result of the last Decode.
func (d *Decoder) Canonical(p *ForwardPass) []byte {
	if p.plain {
		return d.Raw(p)
	}
	return d.canonical
}

func (d *Decoder) maxSize() int {
	if d.MaxSize <= 0 {
		return defaultMaxSize
	}
	return min(d.MaxSize, maxMaxSize)
}

func (d *Decoder) reset(payload []byte) {
	d.scan.keys.trim(keptScratch)
	if cap(d.canonical) > keptScratch {
		d.canonical = nil
	}
	if cap(d.legacy) > keptScratch {
		d.legacy = nil
	}
	d.scan.reset(payload)
	d.faults = absent
	d.values = values{}
}

// isLegacy tells a payload that lacks both keys; one that lacks either is at fault as ever (STR-81).
func (d *Decoder) isLegacy() bool {
	return d.faults[fieldVersion] == ReasonMissingField && d.faults[fieldCounterID] == ReasonMissingField
}

func (d *Decoder) fillInLegacy(seq int64) {
	d.faults[fieldVersion] = 0
	d.faults[fieldCounterID] = 0
	d.values.ints[fieldCounterID] = seq
}

// canonicalize finds out what the canonical payload is, and how much of the raw one it leaves out.
func (d *Decoder) canonicalize(p *ForwardPass) {
	p.plain = !d.scan.exotic
	p.SkippedFields = 0
	if p.plain {
		return
	}
	c := canonicalizer{src: d.Raw(p), keys: &d.scan.keys}
	d.canonical = c.appendPayload(d.canonical[:0])
	p.SkippedFields = c.skipped
}

// fill makes the typed view of a payload without fault.
func (d *Decoder) fill(p *ForwardPass) {
	v := &d.values
	p.WorkerID = v.worker
	p.DPRank = v.ints[fieldDPRank]
	p.CounterID = v.ints[fieldCounterID]
	p.WallTime = v.floats[fieldWallTime]
	p.TimingScope = v.scope
	p.BigInt = d.scan.bigInt
	p.Scheduled = v.scheduled()
	p.Queued = v.queued()
}

func (v *values) scheduled() Scheduled {
	counts, variances, has := v.requests(fieldScheduledFirst)
	return Scheduled{
		PrefillRequests:          counts[numPrefillRequests],
		PrefillTokens:            counts[sumPrefillTokens],
		PrefillLengthVariance:    variances[varPrefillLength],
		PrefillKVTokens:          counts[sumPrefillKVTokens],
		DecodeRequests:           counts[numDecodeRequests],
		DecodeKVTokens:           counts[sumDecodeKVTokens],
		DecodeKVVariance:         variances[varDecodeKVTokens],
		HasPrefillLengthVariance: has[varPrefillLength],
		HasDecodeKVVariance:      has[varDecodeKVTokens],
	}
}

func (v *values) queued() Queued {
	counts, variances, has := v.requests(fieldQueuedFirst)
	return Queued{
		PrefillRequests:          counts[numPrefillRequests],
		PrefillTokens:            counts[sumPrefillTokens],
		PrefillLengthVariance:    variances[varPrefillLength],
		DecodeRequests:           counts[numDecodeRequests],
		DecodeKVTokens:           counts[sumDecodeKVTokens],
		DecodeKVVariance:         variances[varDecodeKVTokens],
		HasPrefillLengthVariance: has[varPrefillLength],
		HasDecodeKVVariance:      has[varDecodeKVTokens],
	}
}

// requests gives what was read for one of the two inner maps, to be indexed by requestField.
func (v *values) requests(first field) (counts *[requestFields]int64, variances *[requestFields]float64, has *[requestFields]bool) {
	return (*[requestFields]int64)(v.ints[first:]), (*[requestFields]float64)(v.floats[first:]), (*[requestFields]bool)(v.has[first:])
}
