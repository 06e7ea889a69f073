// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"encoding/binary"
	"math"
)

// TokenKind is the type of a msgpack value as far as anybody after the decoder needs it.
type TokenKind uint8

// The kinds of token. TokenEnd, the zero value, says that nothing is left.
const (
	TokenEnd    TokenKind = iota
	TokenNil              // no field set
	TokenBool             // Bool
	TokenInt              // Int: every integer that fits an int64
	TokenUint             // Uint: the others, above 2^63-1
	TokenFloat            // Float; a float32 is widened exactly
	TokenString           // Str
	TokenBinary           // Str: the bytes of a bin, or of an ext without its type; never in a canonical payload
	TokenArray            // Len elements follow
	TokenMap              // Len pairs of a string and a value follow
)

// Token is one scalar, or the start of an array or a map. Str is a view into the bytes the cursor walks. Kind says which of
// the other fields means something.
type Token struct {
	Kind  TokenKind
	Bool  bool
	Int   int64
	Uint  uint64
	Float float64
	Str   []byte
	Len   int
}

// Cursor walks a validated payload (canonical or raw) token by token, without recursion and without allocation. Over
// bytes that were not validated its tokens mean nothing, but it never reads out of bounds and always comes to an end.
type Cursor struct {
	src []byte
	pos int
}

// NewCursor stands before the first token of src.
func NewCursor(src []byte) Cursor {
	return Cursor{src: src}
}

// Next gives one token, with the fields that mean nothing zero.
func (c *Cursor) Next() (t Token) {
	c.Read(&t)
	return t
}

// Read is Next into a token of the caller's, of which only Kind and the field that belongs to it are set: a token that is used
// again is what makes a walk cheap.
func (c *Cursor) Read(t *Token) {
	if c.pos >= len(c.src) {
		t.Kind = TokenEnd
		return
	}
	m := c.src[c.pos]
	c.pos++
	switch {
	case m <= markFixIntMax:
		t.Kind, t.Int = TokenInt, int64(m)
	case m <= markFixMapMax:
		t.Kind, t.Len = TokenMap, int(m&fixLengthBits)
	case m <= markFixArrayMax:
		t.Kind, t.Len = TokenArray, int(m&fixLengthBits)
	case m <= markFixStrMax:
		c.bytes(t, TokenString, uint64(m&fixStrLengthBits))
	case m >= markNegFixInt:
		t.Kind, t.Int = TokenInt, int64(int8(m)) //nolint:gosec // two's complement
	default:
		c.marked(t, m)
	}
}

// Skip goes past one whole value, with everything that it contains.
func (c *Cursor) Skip() {
	var t Token
	for left := 1; left > 0; left-- {
		switch c.Read(&t); t.Kind {
		case TokenEnd:
			return
		case TokenArray:
			left += t.Len
		case TokenMap:
			left += 2 * t.Len
		}
	}
}

// marked reads what follows a marker that has no value in itself.
func (c *Cursor) marked(t *Token, m byte) {
	switch m {
	case markNil:
		t.Kind = TokenNil
	case markFalse, markTrue:
		t.Kind, t.Bool = TokenBool, m == markTrue
	case markFloat32:
		c.float32(t)
	case markFloat64:
		c.float64(t)
	case markUint8, markUint16, markUint32, markUint64:
		c.unsigned(t, 1<<(m-markUint8))
	case markInt8, markInt16, markInt32, markInt64:
		c.signed(t, 1<<(m-markInt8))
	case markStr8, markStr16, markStr32:
		c.sized(t, TokenString, 1<<(m-markStr8))
	case markBin8, markBin16, markBin32:
		c.sized(t, TokenBinary, 1<<(m-markBin8))
	case markExt8, markExt16, markExt32:
		c.sizedExt(t, 1<<(m-markExt8))
	case markFixExt1, markFixExt2, markFixExt4, markFixExt8, markFixExt16:
		c.ext(t, 1<<(m-markFixExt1))
	case markArray16, markArray32:
		c.container(t, TokenArray, 2<<(m-markArray16))
	case markMap16, markMap32:
		c.container(t, TokenMap, 2<<(m-markMap16))
	default:
		c.end(t)
	}
}

func (c *Cursor) float32(t *Token) {
	if bits, ok := c.number(t, 4); ok {
		t.Kind, t.Float = TokenFloat, float64(math.Float32frombits(uint32(bits))) //nolint:gosec // 4 bytes
	}
}

func (c *Cursor) float64(t *Token) {
	if bits, ok := c.number(t, 8); ok {
		t.Kind, t.Float = TokenFloat, math.Float64frombits(bits)
	}
}

func (c *Cursor) unsigned(t *Token, width int) {
	v, ok := c.number(t, width)
	switch {
	case !ok:
	case v > math.MaxInt64:
		t.Kind, t.Uint = TokenUint, v
	default:
		t.Kind, t.Int = TokenInt, int64(v)
	}
}

func (c *Cursor) signed(t *Token, width int) {
	if v, ok := c.number(t, width); ok {
		shift := 64 - 8*width
		t.Kind, t.Int = TokenInt, int64(v<<shift)>>shift //nolint:gosec // sign extension
	}
}

func (c *Cursor) sized(t *Token, kind TokenKind, width int) {
	if n, ok := c.number(t, width); ok {
		c.bytes(t, kind, n)
	}
}

func (c *Cursor) sizedExt(t *Token, width int) {
	if n, ok := c.number(t, width); ok {
		c.ext(t, n)
	}
}

func (c *Cursor) ext(t *Token, n uint64) {
	if c.bytes(t, TokenBinary, n+1); t.Kind == TokenBinary {
		t.Str = t.Str[1:]
	}
}

func (c *Cursor) container(t *Token, kind TokenKind, width int) {
	n, ok := c.number(t, width)
	switch {
	case !ok:
	case n > uint64(len(c.src)-c.pos): //nolint:gosec // never negative
		c.end(t)
	default:
		t.Kind, t.Len = kind, int(n) //nolint:gosec // at most len(c.src)
	}
}

func (c *Cursor) bytes(t *Token, kind TokenKind, n uint64) {
	if n > uint64(len(c.src)-c.pos) { //nolint:gosec // never negative
		c.end(t)
		return
	}
	start := c.pos
	c.pos += int(n) //nolint:gosec // at most len(c.src)
	t.Kind, t.Str = kind, c.src[start:c.pos:c.pos]
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes. Where it is cut, t is the end.
func (c *Cursor) number(t *Token, width int) (v uint64, ok bool) {
	if width > len(c.src)-c.pos {
		c.end(t)
		return 0, false
	}
	b := c.src[c.pos:]
	c.pos += width
	switch width {
	case 1:
		return uint64(b[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), true
	default:
		return binary.BigEndian.Uint64(b), true
	}
}

// end gives up: nothing that follows could be told from garbage.
func (c *Cursor) end(t *Token) {
	c.pos = len(c.src)
	t.Kind = TokenEnd
}
