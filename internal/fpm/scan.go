// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// maxLevel is the deepest level of a map or array; the payload map is level 1 (STR-36).
const maxLevel = 16

// scan walks the payload once, in byte order, and stops at the first fault of its structure (STR-35 to STR-41).
//
// Its methods take a position and return the one after what they read, or a reason. No method reads or allocates on the
// word of a declared length before that length was compared with the bytes left (STR-37).
type scan struct {
	src  []byte
	keys keySet

	exotic bool // the canonical payload differs: a duplicate key, a bin or ext, an unknown NaN or infinity
	bigInt bool // an integer above 2^63-1
}

func (s *scan) reset(src []byte) {
	s.src = src
	s.keys.reset(src)
	s.exotic = false
	s.bigInt = false
}

// skip goes past one value of any type. level is that of the map or array which holds it.
func (s *scan) skip(pos, level int) (int, Reason) {
	if pos >= len(s.src) {
		return 0, ReasonTruncated
	}
	m := s.src[pos]
	pos++
	switch {
	case m <= markFixIntMax, m >= markNegFixInt:
		return pos, 0
	case m <= markFixMapMax:
		return s.skipMap(pos, m, level+1)
	case m <= markFixArrayMax:
		return s.skipArray(pos, m, level+1)
	case m <= markFixStrMax:
		return s.skipString(pos, m)
	}
	switch m {
	case markNil, markFalse, markTrue:
		return pos, 0
	case markNever:
		return 0, ReasonWrongType
	case markUint8, markUint16, markUint32, markUint64, markInt8, markInt16, markInt32, markInt64, markFloat32, markFloat64:
		return s.skipNumber(pos, m)
	case markStr8, markStr16, markStr32:
		return s.skipString(pos, m)
	case markArray16, markArray32:
		return s.skipArray(pos, m, level+1)
	case markMap16, markMap32:
		return s.skipMap(pos, m, level+1)
	default:
		return s.skipBytes(pos, m)
	}
}

// skipArray expects the position after the marker m. level is the array's own.
func (s *scan) skipArray(pos int, m byte, level int) (int, Reason) {
	n, pos, r := s.container(pos, m, level, 1)
	if r != 0 {
		return 0, r
	}
	for range n {
		if pos < len(s.src) {
			if width := int(integerBytes[s.src[pos]]); width != 0 && width <= len(s.src)-pos {
				pos += width // an element of a per-request list (STR-76)
				continue
			}
		}
		if pos, r = s.skip(pos, level); r != 0 {
			return 0, r
		}
	}
	return pos, 0
}

// integerBytes is the size, marker included, of an integer about which nothing has to be checked but its size; 0 for the rest.
var integerBytes = func() (size [256]uint8) {
	for m := range size {
		if m <= markFixIntMax || m >= markNegFixInt {
			size[m] = 1
		}
	}
	for m, n := range map[byte]uint8{
		markUint8: 2, markUint16: 3, markUint32: 5, markInt8: 2, markInt16: 3, markInt32: 5, markInt64: 9,
	} {
		size[m] = n
	}
	return size
}()

// skipMap expects the position after the marker m. level is the map's own.
func (s *scan) skipMap(pos int, m byte, level int) (int, Reason) {
	n, pos, r := s.container(pos, m, level, 2)
	if r != 0 {
		return 0, r
	}
	open := s.keys.open()
	for range n {
		if pos, r = s.unknownEntry(&open, pos, level); r != 0 {
			return 0, r
		}
	}
	s.keys.close(open)
	return pos, 0
}

// unknownEntry goes past a key that has no meaning here, and its value.
func (s *scan) unknownEntry(m *openMap, pos, level int) (int, Reason) {
	start, end, r := s.key(pos)
	if r != 0 {
		return 0, r
	}
	return s.unknownValue(m, start, end, level)
}

// unknownValue goes past the value at keyEnd, whose key is src[keyStart:keyEnd].
func (s *scan) unknownValue(m *openMap, keyStart, keyEnd, level int) (int, Reason) {
	if !utf8.Valid(s.src[keyStart:keyEnd]) {
		return 0, ReasonInvalidUTF8
	}
	if !s.exotic { // else the canonical payload is rewritten anyway
		_, s.exotic = s.keys.add(m, keyStart, keyEnd)
	}
	return s.skip(keyEnd, level)
}

// container reads the length of a map or array, whose elements have at least elementBytes bytes each. The level is judged
// before the length is read (STR-36).
func (s *scan) container(pos int, m byte, level, elementBytes int) (n, next int, r Reason) {
	if level > maxLevel {
		return 0, 0, ReasonTooDeep
	}
	var declared uint64
	switch m {
	case markMap16, markArray16:
		declared, pos, r = s.length(pos, 2)
	case markMap32, markArray32:
		declared, pos, r = s.length(pos, 4)
	default:
		declared = uint64(m & fixLengthBits)
	}
	if r != 0 {
		return 0, 0, r
	}
	if declared*uint64(elementBytes) > uint64(len(s.src)-pos) { //nolint:gosec // 1 or 2
		return 0, 0, ReasonTruncated
	}
	return int(declared), pos, 0
}

// key reads the string that a key has to be (STR-38). Its text is src[start:end]; whether it is UTF-8 is not looked at.
func (s *scan) key(pos int) (start, end int, r Reason) {
	if pos < len(s.src) && isFixStr(s.src[pos]) {
		if end = pos + 1 + int(s.src[pos]&fixStrLengthBits); end <= len(s.src) {
			return pos + 1, end, 0
		}
	}
	return s.otherKey(pos)
}

// otherKey reads a key that isn't a short string in full.
func (s *scan) otherKey(pos int) (start, end int, r Reason) {
	if pos >= len(s.src) {
		return 0, 0, ReasonTruncated
	}
	m := s.src[pos]
	if !isString(m) {
		return 0, 0, ReasonBadKey
	}
	return s.text(pos+1, m)
}

func isFixStr(m byte) bool {
	return m >= markFixStr && m <= markFixStrMax
}

func isString(m byte) bool {
	return isFixStr(m) || m >= markStr8 && m <= markStr32
}

// text finds the bytes of a string, after its marker m.
func (s *scan) text(pos int, m byte) (start, end int, r Reason) {
	n := uint64(m & fixStrLengthBits)
	if m > markFixStrMax {
		if n, pos, r = s.length(pos, 1<<(m-markStr8)); r != 0 {
			return 0, 0, r
		}
	}
	if n > uint64(len(s.src)-pos) { //nolint:gosec // never negative
		return 0, 0, ReasonTruncated
	}
	return pos, pos + int(n), 0
}

func (s *scan) skipString(pos int, m byte) (int, Reason) {
	start, end, r := s.text(pos, m)
	if r == 0 && !utf8.Valid(s.src[start:end]) {
		r = ReasonInvalidUTF8
	}
	return end, r
}

// skipBytes goes past a bin, ext or timestamp, which has no place in a canonical payload (STR-54).
func (s *scan) skipBytes(pos int, m byte) (int, Reason) {
	s.exotic = true
	var (
		n uint64
		r Reason
	)
	switch m {
	case markBin8, markBin16, markBin32:
		n, pos, r = s.length(pos, 1<<(m-markBin8))
	case markExt8, markExt16, markExt32:
		n, pos, r = s.length(pos, 1<<(m-markExt8))
		n++ // the type
	default:
		n = 1<<(m-markFixExt1) + 1
	}
	if r != 0 {
		return 0, r
	}
	if n > uint64(len(s.src)-pos) { //nolint:gosec // never negative
		return 0, ReasonTruncated
	}
	return pos + int(n), 0 //nolint:gosec // at most len(s.src)
}

// length reads a declared length of 1, 2 or 4 bytes.
func (s *scan) length(pos, width int) (n uint64, next int, r Reason) {
	if width > len(s.src)-pos {
		return 0, 0, ReasonTruncated
	}
	switch b := s.src[pos:]; width {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b))
	default:
		n = uint64(binary.BigEndian.Uint32(b))
	}
	return n, pos + width, 0
}

// skipNumber goes past an integer or float that has no meaning here.
func (s *scan) skipNumber(pos int, m byte) (int, Reason) {
	n, pos, r := s.number(pos, m)
	if r == 0 && n.kind == numberFloat && !finite(n.float()) {
		s.exotic = true
	}
	return pos, r
}

// number is a msgpack integer or float.
type number struct {
	kind numberKind
	bits uint64 // of an int64 in two's complement, a uint64 or a float64, by kind
}

type numberKind uint8

const (
	notANumber    numberKind = iota
	numberInt                // fits an int64
	numberBigUint            // above 2^63-1
	numberFloat
)

func (n number) int() int64 {
	return int64(n.bits) //nolint:gosec // two's complement
}

// float gives the value of a number of any kind.
func (n number) float() float64 {
	switch n.kind {
	case numberFloat:
		return math.Float64frombits(n.bits)
	case numberBigUint:
		return float64(n.bits)
	default:
		return float64(n.int())
	}
}

// number reads the integer or float after its marker m, which is none of the fix forms.
func (s *scan) number(pos int, m byte) (n number, next int, r Reason) {
	next = pos + numberWidth(m)
	if next > len(s.src) {
		return number{}, 0, ReasonTruncated
	}
	b := s.src[pos:next]
	n.kind = numberInt
	switch m {
	case markUint8:
		n.bits = uint64(b[0])
	case markUint16:
		n.bits = uint64(binary.BigEndian.Uint16(b))
	case markUint32:
		n.bits = uint64(binary.BigEndian.Uint32(b))
	case markUint64:
		n.bits = binary.BigEndian.Uint64(b)
		if n.bits > math.MaxInt64 {
			n.kind = numberBigUint
			s.bigInt = true
		}
	case markInt8:
		n.bits = uint64(int8(b[0])) //nolint:gosec // sign extension
	case markInt16:
		n.bits = uint64(int16(binary.BigEndian.Uint16(b))) //nolint:gosec // sign extension
	case markInt32:
		n.bits = uint64(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // sign extension
	case markInt64:
		n.bits = binary.BigEndian.Uint64(b)
	case markFloat32:
		n.kind = numberFloat
		n.bits = math.Float64bits(float64(math.Float32frombits(binary.BigEndian.Uint32(b))))
	default:
		n.kind = numberFloat
		n.bits = binary.BigEndian.Uint64(b)
	}
	return n, next, 0
}

// numberWidth is how many bytes follow the marker of a number.
func numberWidth(m byte) int {
	switch {
	case m >= markInt8:
		return 1 << (m - markInt8)
	case m >= markUint8:
		return 1 << (m - markUint8)
	default:
		return 4 << (m - markFloat32)
	}
}

func finite(f float64) bool {
	return !math.IsNaN(f) && !math.IsInf(f, 0)
}
