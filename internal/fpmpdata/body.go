// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// maxBodyDepth is one more than any valid payload has (STR-36): deeper bodies
// are refused here, so that a hostile one can't exhaust the stack.
const maxBodyDepth = 17

// maxBodyPairs bounds a map of a map body: a pcommon.Map looks through all its
// keys at every insertion, so that a payload of a hundred thousand keys would
// cost minutes. Real payloads have fewer than thirty.
const maxBodyPairs = 256

// maxBodyValues bounds the values of a map body altogether: each takes some fifty
// bytes of memory, so that a payload of a million one-byte elements would take
// fifty times its size. Lists of an entry a request stay far below.
const maxBodyValues = 16384

// FitsMapBody tells whether a canonical payload can be a map body at a
// reasonable price in time and memory. One that can't is carried as bytes, like one
// with an integer above 2^63-1.
func FitsMapBody(canonical []byte) bool {
	if len(canonical) < 2*maxBodyPairs {
		return true
	}
	cursor := fpm.NewCursor(canonical)
	var token fpm.Token
	values := 0
	for left := 1; left > 0; left-- {
		if values++; values > maxBodyValues {
			return false
		}
		switch cursor.Read(&token); token.Kind {
		case fpm.TokenMap:
			if token.Len > maxBodyPairs {
				return false
			}
			left += 2 * token.Len
		case fpm.TokenArray:
			left += token.Len
		}
	}
	return true
}

// putBody fills a map body with a canonical payload, in payload order. The
// payload must hold no integer above 2^63-1 (STR-57).
func putBody(canonical []byte, body pcommon.Map) {
	f := filler{cursor: fpm.NewCursor(canonical)}
	f.cursor.Read(&f.token)
	f.putPairs(f.token.Len, body)
}

// filler walks a payload with one token, used again for every value.
type filler struct {
	cursor fpm.Cursor
	token  fpm.Token
}

func (f *filler) putPairs(n int, into pcommon.Map) {
	into.EnsureCapacity(n)
	for range n {
		f.cursor.Read(&f.token)
		key := string(f.token.Str)
		f.putValue(into.PutEmpty(key))
	}
}

func (f *filler) putValue(into pcommon.Value) {
	token := &f.token
	switch f.cursor.Read(token); token.Kind {
	case fpm.TokenBool:
		into.SetBool(token.Bool)
	case fpm.TokenInt:
		into.SetInt(token.Int)
	case fpm.TokenFloat:
		into.SetDouble(token.Float)
	case fpm.TokenString:
		into.SetStr(string(token.Str))
	case fpm.TokenMap:
		f.putPairs(token.Len, into.SetEmptyMap())
	case fpm.TokenArray:
		elements, n := into.SetEmptySlice(), token.Len
		elements.EnsureCapacity(n)
		for range n {
			f.putValue(elements.AppendEmpty())
		}
	}
}

// AppendBody gives the msgpack form of a log body: a map body is appended to
// dst, a bytes body is returned as it is, in memory of its own (pdata gives no
// view), with dst untouched. ok is false when the body is neither, or nested deeper than any payload.
// The result has yet to pass the decoder.
func AppendBody(dst []byte, body pcommon.Value) (payload []byte, ok bool) {
	switch body.Type() {
	case pcommon.ValueTypeBytes:
		return body.Bytes().AsRaw(), true
	case pcommon.ValueTypeMap:
		return appendMap(dst, body.Map(), 1)
	default:
		return dst, false
	}
}

func appendMap(dst []byte, m pcommon.Map, depth int) ([]byte, bool) {
	if depth > maxBodyDepth {
		return dst, false
	}
	dst = fpm.AppendMapHeader(dst, m.Len())
	ok := true
	m.Range(func(key string, value pcommon.Value) bool {
		dst = fpm.AppendString(dst, key)
		dst, ok = appendValue(dst, value, depth+1)
		return ok
	})
	return dst, ok
}

func appendValue(dst []byte, value pcommon.Value, depth int) ([]byte, bool) {
	switch value.Type() {
	case pcommon.ValueTypeMap:
		return appendMap(dst, value.Map(), depth)
	case pcommon.ValueTypeSlice:
		return appendSlice(dst, value.Slice(), depth)
	case pcommon.ValueTypeStr:
		return fpm.AppendString(dst, value.Str()), true
	case pcommon.ValueTypeInt:
		return fpm.AppendInt(dst, value.Int()), true
	case pcommon.ValueTypeDouble:
		return fpm.AppendFloat(dst, value.Double()), true
	case pcommon.ValueTypeBool:
		return fpm.AppendBool(dst, value.Bool()), true
	case pcommon.ValueTypeBytes:
		return fpm.AppendBinary(dst, value.Bytes().AsRaw()), true
	default:
		return fpm.AppendNil(dst), true
	}
}

func appendSlice(dst []byte, s pcommon.Slice, depth int) ([]byte, bool) {
	if depth > maxBodyDepth {
		return dst, false
	}
	dst = fpm.AppendArrayHeader(dst, s.Len())
	ok := true
	for i := 0; i < s.Len() && ok; i++ {
		dst, ok = appendValue(dst, s.At(i), depth+1)
	}
	return dst, ok
}
