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

// Token is one scalar, or the start of an array or a map. Str is a view into the bytes the cursor walks.
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

// Next reads one token.
func (c *Cursor) Next() Token {
	if c.pos >= len(c.src) {
		return Token{}
	}
	m := c.src[c.pos]
	c.pos++
	switch {
	case m <= markFixIntMax:
		return Token{Kind: TokenInt, Int: int64(m)}
	case m <= markFixMapMax:
		return Token{Kind: TokenMap, Len: int(m & fixLengthBits)}
	case m <= markFixArrayMax:
		return Token{Kind: TokenArray, Len: int(m & fixLengthBits)}
	case m <= markFixStrMax:
		return c.bytes(TokenString, uint64(m&fixStrLengthBits))
	case m >= markNegFixInt:
		return Token{Kind: TokenInt, Int: int64(int8(m))} //nolint:gosec // two's complement
	default:
		return c.marked(m)
	}
}

// Skip goes past one whole value, with everything that it contains.
func (c *Cursor) Skip() {
	for left := 1; left > 0; left-- {
		switch t := c.Next(); t.Kind {
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
func (c *Cursor) marked(m byte) Token {
	switch m {
	case markNil:
		return Token{Kind: TokenNil}
	case markFalse, markTrue:
		return Token{Kind: TokenBool, Bool: m == markTrue}
	case markFloat32:
		return c.float32()
	case markFloat64:
		return c.float64()
	case markUint8, markUint16, markUint32, markUint64:
		return c.unsigned(1 << (m - markUint8))
	case markInt8, markInt16, markInt32, markInt64:
		return c.signed(1 << (m - markInt8))
	case markStr8, markStr16, markStr32:
		return c.sized(TokenString, 1<<(m-markStr8))
	case markBin8, markBin16, markBin32:
		return c.sized(TokenBinary, 1<<(m-markBin8))
	case markExt8, markExt16, markExt32:
		return c.sizedExt(1 << (m - markExt8))
	case markFixExt1, markFixExt2, markFixExt4, markFixExt8, markFixExt16:
		return c.ext(1 << (m - markFixExt1))
	case markArray16, markArray32:
		return c.container(TokenArray, 2<<(m-markArray16))
	case markMap16, markMap32:
		return c.container(TokenMap, 2<<(m-markMap16))
	default:
		return c.end()
	}
}

func (c *Cursor) float32() Token {
	bits, ok := c.number(4)
	if !ok {
		return c.end()
	}
	return Token{Kind: TokenFloat, Float: float64(math.Float32frombits(uint32(bits)))} //nolint:gosec // 4 bytes
}

func (c *Cursor) float64() Token {
	bits, ok := c.number(8)
	if !ok {
		return c.end()
	}
	return Token{Kind: TokenFloat, Float: math.Float64frombits(bits)}
}

func (c *Cursor) unsigned(width int) Token {
	v, ok := c.number(width)
	switch {
	case !ok:
		return c.end()
	case v > math.MaxInt64:
		return Token{Kind: TokenUint, Uint: v}
	default:
		return Token{Kind: TokenInt, Int: int64(v)}
	}
}

func (c *Cursor) signed(width int) Token {
	v, ok := c.number(width)
	if !ok {
		return c.end()
	}
	shift := 64 - 8*width
	return Token{Kind: TokenInt, Int: int64(v<<shift) >> shift} //nolint:gosec // sign extension
}

func (c *Cursor) sized(kind TokenKind, width int) Token {
	n, ok := c.number(width)
	if !ok {
		return c.end()
	}
	return c.bytes(kind, n)
}

func (c *Cursor) sizedExt(width int) Token {
	n, ok := c.number(width)
	if !ok {
		return c.end()
	}
	return c.ext(n)
}

func (c *Cursor) ext(n uint64) Token {
	t := c.bytes(TokenBinary, n+1)
	if t.Kind == TokenBinary {
		t.Str = t.Str[1:]
	}
	return t
}

func (c *Cursor) container(kind TokenKind, width int) Token {
	n, ok := c.number(width)
	if !ok || n > uint64(len(c.src)-c.pos) { //nolint:gosec // never negative
		return c.end()
	}
	return Token{Kind: kind, Len: int(n)} //nolint:gosec // at most len(c.src)
}

func (c *Cursor) bytes(kind TokenKind, n uint64) Token {
	if n > uint64(len(c.src)-c.pos) { //nolint:gosec // never negative
		return c.end()
	}
	start := c.pos
	c.pos += int(n) //nolint:gosec // at most len(c.src)
	return Token{Kind: kind, Str: c.src[start:c.pos:c.pos]}
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (c *Cursor) number(width int) (v uint64, ok bool) {
	if width > len(c.src)-c.pos {
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
func (c *Cursor) end() Token {
	c.pos = len(c.src)
	return Token{}
}
