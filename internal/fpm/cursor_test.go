// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCursorTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		msgpack string
		want    Token
	}{
		"nil":          {"\xc0", Token{Kind: TokenNil}},
		"false":        {"\xc2", Token{Kind: TokenBool}},
		"true":         {"\xc3", Token{Kind: TokenBool, Bool: true}},
		"fixint":       {"\x7f", Token{Kind: TokenInt, Int: 127}},
		"neg fixint":   {"\xe0", Token{Kind: TokenInt, Int: -32}},
		"uint8":        {"\xcc\xff", Token{Kind: TokenInt, Int: 255}},
		"uint16":       {"\xcd\xff\xfe", Token{Kind: TokenInt, Int: 65534}},
		"uint32":       {"\xce\xff\xff\xff\xfe", Token{Kind: TokenInt, Int: math.MaxUint32 - 1}},
		"uint64":       {"\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", Token{Kind: TokenInt, Int: math.MaxInt64}},
		"uint64 large": {"\xcf\x80\x00\x00\x00\x00\x00\x00\x00", Token{Kind: TokenUint, Uint: 1 << 63}},
		"int8":         {"\xd0\x80", Token{Kind: TokenInt, Int: -128}},
		"int16":        {"\xd1\xff\xfe", Token{Kind: TokenInt, Int: -2}},
		"int32":        {"\xd2\x80\x00\x00\x00", Token{Kind: TokenInt, Int: math.MinInt32}},
		"int64":        {"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", Token{Kind: TokenInt, Int: math.MinInt64}},
		"float32":      {"\xca\x3d\xcc\xcc\xcd", Token{Kind: TokenFloat, Float: float64(float32(0.1))}},
		"float64":      {"\xcb\x3f\x99\x99\x99\x99\x99\x99\x9a", Token{Kind: TokenFloat, Float: 0.025}},
		"fixstr":       {"\xa2ab", Token{Kind: TokenString, Str: []byte("ab")}},
		"str8":         {"\xd9\x02ab", Token{Kind: TokenString, Str: []byte("ab")}},
		"str16":        {"\xda\x00\x02ab", Token{Kind: TokenString, Str: []byte("ab")}},
		"str32":        {"\xdb\x00\x00\x00\x02ab", Token{Kind: TokenString, Str: []byte("ab")}},
		"bin8":         {"\xc4\x02ab", Token{Kind: TokenBinary, Str: []byte("ab")}},
		"bin16":        {"\xc5\x00\x02ab", Token{Kind: TokenBinary, Str: []byte("ab")}},
		"bin32":        {"\xc6\x00\x00\x00\x02ab", Token{Kind: TokenBinary, Str: []byte("ab")}},
		"ext8":         {"\xc7\x02\x05ab", Token{Kind: TokenBinary, Str: []byte("ab")}},
		"ext16":        {"\xc8\x00\x02\x05ab", Token{Kind: TokenBinary, Str: []byte("ab")}},
		"ext32":        {"\xc9\x00\x00\x00\x02\x05ab", Token{Kind: TokenBinary, Str: []byte("ab")}},
		"fixext1":      {"\xd4\x05a", Token{Kind: TokenBinary, Str: []byte("a")}},
		"fixext16":     {"\xd8\x050123456789abcdef", Token{Kind: TokenBinary, Str: []byte("0123456789abcdef")}},
		"fixarray":     {"\x92\x01\x02", Token{Kind: TokenArray, Len: 2}},
		"array16":      {"\xdc\x00\x02\x01\x02", Token{Kind: TokenArray, Len: 2}},
		"array32":      {"\xdd\x00\x00\x00\x02\x01\x02", Token{Kind: TokenArray, Len: 2}},
		"fixmap":       {"\x81\xa0\x02", Token{Kind: TokenMap, Len: 1}},
		"map16":        {"\xde\x00\x01\xa0\x02", Token{Kind: TokenMap, Len: 1}},
		"map32":        {"\xdf\x00\x00\x00\x01\xa0\x02", Token{Kind: TokenMap, Len: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCursor([]byte(tt.msgpack))
			require.Equal(t, tt.want, c.Next())
			c = NewCursor([]byte(tt.msgpack + "\x05"))
			c.Skip()
			require.Equal(t, Token{Kind: TokenInt, Int: 5}, c.Next(), "after Skip")
			require.Equal(t, Token{}, c.Next(), "at the end")
			require.Equal(t, TokenEnd, c.Next().Kind)
		})
	}
}

func TestCursorSkipsWholeValues(t *testing.T) {
	value := pairs{{"a", nest(9, integer(1))}, {"b", pairs{{"c", text("x")}, {"d", array()}}.msgpack()}}.msgpack()
	c := NewCursor(append(value, 7))
	c.Skip()
	require.EqualValues(t, 7, c.Next().Int)
}

// Nobody should walk bytes that weren't validated, but if it happens it ends, within bounds.
func TestCursorOverGarbageEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	golden := goldenPayload(t)
	for range 20_000 {
		garbage := splice(rng, [][]byte{golden})
		garbage = garbage[:rng.IntN(len(garbage)+1)]
		c := NewCursor(garbage)
		tokens := 0
		for c.Next().Kind != TokenEnd {
			tokens++
		}
		require.LessOrEqual(t, tokens, len(garbage))
		c = NewCursor(garbage)
		c.Skip()
		require.LessOrEqual(t, c.pos, len(garbage))
	}
}
