// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pair is an entry of a map under construction: a key and the msgpack of its value.
type pair struct {
	key   string
	value []byte
}

type pairs []pair

func (p pairs) msgpack() []byte {
	dst := AppendMapHeader(nil, len(p))
	for _, e := range p {
		dst = append(AppendString(dst, e.key), e.value...)
	}
	return dst
}

// set replaces the value of a key in place, or adds the entry at the end.
func (p pairs) set(key string, value []byte) pairs {
	for i := range p {
		if p[i].key == key {
			out := slices.Clone(p)
			out[i].value = value
			return out
		}
	}
	return p.add(key, value)
}

// add adds an entry at the end, also if the key is there already.
func (p pairs) add(key string, value []byte) pairs {
	return append(slices.Clone(p), pair{key, value})
}

// with puts the entries of next behind those of p.
func (p pairs) with(next pairs) pairs {
	return append(slices.Clone(p), next...)
}

func (p pairs) remove(keys ...string) pairs {
	return slices.DeleteFunc(slices.Clone(p), func(e pair) bool { return slices.Contains(keys, e.key) })
}

func scheduledPairs() pairs {
	return pairs{
		{"num_prefill_requests", integer(2)},
		{"sum_prefill_tokens", integer(256)},
		{"var_prefill_length", float(100)},
		{"sum_prefill_kv_tokens", integer(64)},
		{"num_decode_requests", integer(3)},
		{"sum_decode_kv_tokens", integer(1024)},
		{"var_decode_kv_tokens", float(50)},
	}
}

func queuedPairs() pairs {
	return pairs{
		{"num_prefill_requests", integer(1)},
		{"sum_prefill_tokens", integer(128)},
		{"var_prefill_length", float(0)},
		{"num_decode_requests", integer(0)},
		{"sum_decode_kv_tokens", integer(0)},
		{"var_decode_kv_tokens", float(0)},
	}
}

// goldenPairs are the entries of the golden payload.
func goldenPairs() pairs {
	return pairs{
		{"version", integer(1)},
		{"worker_id", text("4192")},
		{"dp_rank", integer(0)},
		{"counter_id", integer(42)},
		{"wall_time", float(0.025)},
		{"scheduled_requests", scheduledPairs().msgpack()},
		{"queued_requests", queuedPairs().msgpack()},
	}
}

// setField changes a field of the golden payload; a dot leads into one of the inner maps.
func setField(path string, value []byte) []byte {
	outer, inner, nested := strings.Cut(path, ".")
	if !nested {
		return goldenPairs().set(path, value).msgpack()
	}
	return goldenPairs().set(outer, innerPairs(outer).set(inner, value).msgpack()).msgpack()
}

// removeField takes a field away from the golden payload.
func removeField(path string) []byte {
	outer, inner, nested := strings.Cut(path, ".")
	if !nested {
		return goldenPairs().remove(path).msgpack()
	}
	return goldenPairs().set(outer, innerPairs(outer).remove(inner).msgpack()).msgpack()
}

func innerPairs(outer string) pairs {
	if outer == "queued_requests" {
		return queuedPairs()
	}
	return scheduledPairs()
}

// legacyPairs are what the first SGLang release sends.
func legacyPairs() pairs {
	return goldenPairs().remove("version", "counter_id")
}

func integer(v int64) []byte   { return AppendInt(nil, v) }
func unsigned(v uint64) []byte { return AppendUint(nil, v) }
func float(v float64) []byte   { return AppendFloat(nil, v) }
func text(s string) []byte     { return AppendString(nil, s) }
func binary3() []byte          { return AppendBinary(nil, []byte{1, 2, 3}) }

func array(items ...[]byte) []byte {
	dst := AppendArrayHeader(nil, len(items))
	for _, item := range items {
		dst = append(dst, item...)
	}
	return dst
}

// nest wraps value into n one-element arrays.
func nest(n int, value []byte) []byte {
	return append([]byte(strings.Repeat("\x91", n)), value...)
}

// nestMaps wraps value into n maps with one entry.
func nestMaps(n int, value []byte) []byte {
	return append([]byte(strings.Repeat("\x81\xa1m", n)), value...)
}

// nestMixed wraps value into n arrays and maps by turns, an array outermost.
func nestMixed(n int, value []byte) []byte {
	return append([]byte(strings.Repeat("\x91\x81\xa1m", n/2)), nest(n%2, value)...)
}

// verdict decodes with default settings.
func verdict(payload []byte) error {
	var (
		d    Decoder
		into ForwardPass
	)
	return d.Decode(payload, 0, &into)
}

func requireReason(tb testing.TB, want Reason, payload []byte) {
	tb.Helper()
	require.Equal(tb, want, verdict(payload), "payload %x", payload[:min(len(payload), 600)])
}

func requireValid(tb testing.TB, payload []byte) {
	tb.Helper()
	require.NoError(tb, verdict(payload), "payload %x", payload[:min(len(payload), 600)])
}

// canonicalJSON gives the canonical payload as text, read with the cursor, and the view.
func canonicalJSON(tb testing.TB, payload []byte) (string, ForwardPass) {
	tb.Helper()
	var (
		d    Decoder
		into ForwardPass
	)
	require.NoError(tb, d.Decode(payload, 7, &into))
	return cursorJSON(d.Canonical(&into)), into
}

// extraJSON gives the canonical text of what follows the fields of the golden payload.
func extraJSON(tb testing.TB, extra ...pair) (string, ForwardPass) {
	tb.Helper()
	got, p := canonicalJSON(tb, append(goldenPairs(), extra...).msgpack())
	golden, _ := canonicalJSON(tb, goldenPairs().msgpack())
	rest, ok := strings.CutPrefix(got, strings.TrimSuffix(golden, "}"))
	require.True(tb, ok, got)
	return strings.TrimPrefix(strings.TrimSuffix(rest, "}"), ","), p
}

func cursorJSON(payload []byte) string {
	c := NewCursor(payload)
	return cursorTree(&c).json()
}

// cursorTree reads one value with the cursor.
func cursorTree(c *Cursor) refValue {
	t := c.Next()
	switch t.Kind {
	case TokenNil:
		return refValue{kind: refNil}
	case TokenBool:
		return refValue{kind: refBool, truth: t.Bool}
	case TokenInt:
		if t.Int < 0 {
			return refValue{kind: refInt, int: refInteger{negative: true, magnitude: -uint64(t.Int)}}
		}
		return refNonNegative(uint64(t.Int))
	case TokenUint:
		return refNonNegative(t.Uint)
	case TokenFloat:
		return refValue{kind: refFloat, float: t.Float}
	case TokenString:
		return refValue{kind: refString, text: string(t.Str)}
	case TokenArray:
		v := refValue{kind: refArray}
		for range t.Len {
			v.items = append(v.items, cursorTree(c))
		}
		return v
	case TokenMap:
		v := refValue{kind: refMap, pairs: make([]refPair, 0, t.Len)}
		for range t.Len {
			key := cursorTree(c).text
			v.pairs = append(v.pairs, refPair{key: key, value: cursorTree(c)})
		}
		return v
	default:
		return refValue{kind: refBytes, text: string(t.Str)}
	}
}
