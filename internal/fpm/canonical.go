// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import "encoding/binary"

// canonicalizer rewrites a valid payload by the rules of fpm-stream.md 7. Duplicates are resolved first, then entries are
// left out (STR-56). It takes time linear in the payload: below maxLevel every byte is looked at once a level.
type canonicalizer struct {
	src     []byte
	keys    *keySet
	skipped int // entries left out of what was written
}

// appendPayload writes the canonical form of src to dst.
func (c *canonicalizer) appendPayload(dst []byte) []byte {
	c.keys.reset(c.src)
	at := NewCursor(c.src)
	dst, _ = c.appendValue(dst, &at)
	return dst
}

// appendValue writes the value that at stands before. keep is false when it can't be written, because it is a bin or an
// ext or an array that has one as an element; dst and at are then without meaning.
func (c *canonicalizer) appendValue(dst []byte, at *Cursor) (out []byte, keep bool) {
	start := at.pos
	switch t := at.Next(); {
	case t.Kind == TokenMap:
		return c.appendMap(dst, at, t.Len), true
	case t.Kind == TokenArray:
		return c.appendArray(dst, at, t.Len)
	case t.Kind == TokenBinary:
		return dst, false
	case t.Kind == TokenFloat && !finite(t.Float):
		return AppendNil(dst), true
	default:
		return append(dst, c.src[start:at.pos]...), true
	}
}

func (c *canonicalizer) appendArray(dst []byte, at *Cursor, n int) (out []byte, keep bool) {
	dst = AppendArrayHeader(dst, n)
	for range n {
		if dst, keep = c.appendValue(dst, at); !keep {
			return dst, false // an array never loses single elements (STR-54)
		}
	}
	return dst, true
}

// appendMap writes the map of n pairs whose first entry at stands before, and moves at behind it.
func (c *canonicalizer) appendMap(dst []byte, at *Cursor, n int) []byte {
	m := c.keys.open()
	c.resolve(&m, at, n)
	distinct := len(c.keys.entries) - m.base
	header := len(dst)
	dst = AppendMapHeader(dst, distinct)
	kept := 0
	for i := m.base; i < m.base+distinct; i++ {
		var keep bool
		if dst, keep = c.appendEntry(dst, c.keys.entries[i]); keep {
			kept++
		}
	}
	c.keys.close(m)
	setMapLength(dst[header:], kept)
	return dst
}

// resolve gathers the distinct keys of a map, each at its first position with its last value (STR-49).
func (c *canonicalizer) resolve(m *openMap, at *Cursor, n int) {
	for range n {
		key := at.Next().Str
		value := at.pos
		i, _ := c.keys.add(m, value-len(key), value)
		c.keys.entries[i].value = uint32(value) //nolint:gosec // Decode bounds the payload
		at.Skip()
	}
}

// appendEntry writes one entry, or leaves it out and counts it when its value can't be written. An entry that goes takes
// along what was left out inside of it: it counts once.
func (c *canonicalizer) appendEntry(dst []byte, e entry) (out []byte, keep bool) {
	length, skipped := len(dst), c.skipped
	at := Cursor{src: c.src, pos: int(e.value)}
	dst, keep = c.appendValue(appendStringBytes(dst, c.keys.key(e)), &at)
	if !keep {
		c.skipped = skipped + 1
		return dst[:length], false
	}
	return dst, true
}

// setMapLength lowers the length in a map header in place. Its form stays, even if a shorter one would do.
func setMapLength(header []byte, n int) {
	switch header[0] {
	case markMap16:
		binary.BigEndian.PutUint16(header[1:], uint16(n)) //nolint:gosec // lower than what was there
	case markMap32:
		binary.BigEndian.PutUint32(header[1:], uint32(n)) //nolint:gosec // lower than what was there
	default:
		header[0] = markFixMap | byte(n) //nolint:gosec // lower than what was there
	}
}
