// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"unicode/utf8"
)

const (
	topLevel     = 1
	requestLevel = 2 // of scheduled_requests and queued_requests
)

// readPayload walks the whole payload. It returns the first fault of the structure; faults of fields are noted, to be
// judged when the whole payload is known, because the last of several occurrences decides (STR-49).
func (d *Decoder) readPayload() Reason {
	s := &d.scan
	if len(s.src) == 0 {
		return ReasonTruncated
	}
	m := s.src[0]
	if !isMapMarker(m) {
		return ReasonNotAMap
	}
	n, pos, r := s.container(1, m, topLevel, 2)
	if r != 0 {
		return r
	}
	open := s.keys.open()
	seen := uint32(0)
	for range n {
		if pos, r = d.topEntry(&open, &seen, pos); r != 0 {
			return r
		}
	}
	s.keys.close(open)
	if pos != len(s.src) {
		return ReasonTrailingBytes
	}
	return 0
}

func isMapMarker(m byte) bool {
	return m >= markFixMap && m <= markFixMapMax || m == markMap16 || m == markMap32
}

// topEntry reads one entry of the payload map.
func (d *Decoder) topEntry(open *openMap, seen *uint32, pos int) (int, Reason) {
	start, pos, r := d.scan.key(pos)
	if r != 0 {
		return 0, r
	}
	f := topField(d.scan.src[start:pos])
	if f == fieldUnknown {
		return d.scan.unknownValue(open, start, pos, topLevel)
	}
	d.noteOccurrence(seen, uint8(f))
	switch f {
	case fieldVersion:
		return d.readVersion(pos)
	case fieldWorkerID:
		return d.readWorkerID(pos)
	case fieldTimingScope:
		return d.readTimingScope(pos)
	case fieldWallTime:
		return d.readMeasure(f, pos, topLevel)
	case fieldScheduled, fieldQueued:
		return d.readRequests(f, pos)
	default:
		return d.readCount(f, pos, topLevel)
	}
}

// noteOccurrence finds the second occurrence of a known key; seen has a bit for each key of the map.
func (d *Decoder) noteOccurrence(seen *uint32, key uint8) {
	bit := uint32(1) << key
	if *seen&bit != 0 {
		d.scan.exotic = true
	}
	*seen |= bit
}

// readRequests reads the value of scheduled_requests or queued_requests. It replaces an earlier one; they aren't merged.
func (d *Decoder) readRequests(f field, pos int) (int, Reason) {
	s := &d.scan
	if pos >= len(s.src) {
		return 0, ReasonTruncated
	}
	m := s.src[pos]
	if !isMapMarker(m) {
		d.faults[f] = ReasonWrongType
		return s.skip(pos, topLevel)
	}
	d.forgetRequests(f)
	n, pos, r := s.container(pos+1, m, requestLevel, 2)
	if r != 0 {
		return 0, r
	}
	open := s.keys.open()
	seen := uint32(0)
	for range n {
		if pos, r = d.requestEntry(f, &open, &seen, pos); r != 0 {
			return 0, r
		}
	}
	s.keys.close(open)
	return pos, 0
}

func (d *Decoder) forgetRequests(f field) {
	d.faults[f] = 0
	first := f + 1
	if f == fieldScheduled {
		copy(d.faults[first:], absentScheduled[:])
	} else {
		copy(d.faults[first:], absentQueued[:])
	}
	_, variances, has := d.values.requests(first)
	*variances = [requestFields]float64{}
	*has = [requestFields]bool{}
}

// requestEntry reads one entry of the map in field parent.
func (d *Decoder) requestEntry(parent field, open *openMap, seen *uint32, pos int) (int, Reason) {
	start, pos, r := d.scan.key(pos)
	if r != 0 {
		return 0, r
	}
	rf := findRequestField(d.scan.src[start:pos])
	if rf == requestUnknown || rf == sumPrefillKVTokens && parent == fieldQueued {
		return d.scan.unknownValue(open, start, pos, requestLevel)
	}
	d.noteOccurrence(seen, uint8(rf))
	f := parent + 1 + field(rf)
	if rf == varPrefillLength || rf == varDecodeKVTokens {
		return d.readMeasure(f, pos, requestLevel)
	}
	return d.readCount(f, pos, requestLevel)
}

// readVersion judges version (STR-43).
func (d *Decoder) readVersion(pos int) (int, Reason) {
	n, pos, r := d.readNumber(pos, topLevel)
	switch {
	case n.kind == numberInt && n.int() == payloadVersion:
		d.faults[fieldVersion] = 0
	case n.kind == numberInt, n.kind == numberBigUint:
		d.faults[fieldVersion] = ReasonUnsupportedVersion
	default:
		d.faults[fieldVersion] = ReasonWrongType
	}
	return pos, r
}

// readWorkerID judges worker_id, which may be any string.
func (d *Decoder) readWorkerID(pos int) (int, Reason) {
	text, pos, r := d.readString(pos)
	d.values.worker = text
	d.faults[fieldWorkerID] = 0
	if text == nil {
		d.faults[fieldWorkerID] = ReasonWrongType
	}
	return pos, r
}

// readTimingScope looks at timing_scope, an unknown key of which any value is valid (STR-75).
func (d *Decoder) readTimingScope(pos int) (int, Reason) {
	text, pos, r := d.readString(pos)
	d.values.scope = text
	return pos, r
}

// readString goes past one value of any type and gives its text when it is a string, else nil. Both are top-level fields.
func (d *Decoder) readString(pos int) (text []byte, next int, r Reason) {
	s := &d.scan
	if pos >= len(s.src) {
		return nil, 0, ReasonTruncated
	}
	m := s.src[pos]
	if !isString(m) {
		next, r = s.skip(pos, topLevel)
		return nil, next, r
	}
	start, end, r := s.text(pos+1, m)
	if r != 0 {
		return nil, 0, r
	}
	text = s.src[start:end:end]
	if !utf8.Valid(text) {
		return nil, 0, ReasonInvalidUTF8
	}
	return text, end, 0
}

// readCount judges an integer field (STR-45).
func (d *Decoder) readCount(f field, pos, level int) (int, Reason) {
	n, pos, r := d.readNumber(pos, level)
	switch {
	case n.kind == numberInt && n.int() >= 0:
		d.values.ints[f] = n.int()
		d.faults[f] = 0
	case n.kind == numberInt, n.kind == numberBigUint:
		d.faults[f] = ReasonOutOfRange
	default:
		d.faults[f] = ReasonWrongType
	}
	return pos, r
}

// readMeasure judges wall_time or a variance (STR-46).
func (d *Decoder) readMeasure(f field, pos, level int) (int, Reason) {
	n, pos, r := d.readNumber(pos, level)
	if n.kind == notANumber {
		d.faults[f] = ReasonWrongType
		return pos, r
	}
	v := n.float()
	if !(v >= 0 && v <= math.MaxFloat64) { // so is NaN
		d.faults[f] = ReasonOutOfRange
		return pos, r
	}
	d.values.floats[f] = v
	d.values.has[f] = true
	d.faults[f] = 0
	return pos, r
}

// readNumber goes past one value of any type and gives it when it is a number.
func (d *Decoder) readNumber(pos, level int) (n number, next int, r Reason) {
	s := &d.scan
	if pos >= len(s.src) {
		return number{}, 0, ReasonTruncated
	}
	switch m := s.src[pos]; {
	case m <= markFixIntMax:
		return number{kind: numberInt, bits: uint64(m)}, pos + 1, 0
	case m >= markNegFixInt:
		return number{kind: numberInt, bits: uint64(int8(m))}, pos + 1, 0 //nolint:gosec // sign extension
	case m >= markFloat32 && m <= markInt64:
		return s.number(pos+1, m)
	default:
		next, r = s.skip(pos, level)
		return number{}, next, r
	}
}
