// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonical(t *testing.T) {
	bin := binary3()
	tests := []struct {
		name    string
		extra   pairs
		want    string
		skipped int
	}{
		{"STR-54 unknown keys keep order and value", pairs{{"b", integer(1)}, {"a", array(text("x"), AppendNil(nil), AppendBool(nil, true))}, {"", pairs{}.msgpack()}}, `"b":1,"a":["x",null,true],"":{}`, 0},
		{"STR-54 bin", pairs{{"extra", bin}}, ``, 1},
		{"STR-54 fixext", pairs{{"extra", []byte("\xd4\x05x")}}, ``, 1},
		{"STR-54 ext8", pairs{{"extra", []byte("\xc7\x00\x05")}}, ``, 1},
		{"STR-54 timestamp", pairs{{"extra", []byte("\xd7\xff12345678")}}, ``, 1},
		{"STR-54 bin in map", pairs{{"extra", pairs{{"a", integer(1)}, {"b", bin}}.msgpack()}}, `"extra":{"a":1}`, 1},
		{"STR-54 only bin in map", pairs{{"extra", pairs{{"b", bin}}.msgpack()}}, `"extra":{}`, 1},
		{"STR-54 bin in array", pairs{{"extra", array(integer(1), bin)}}, ``, 1},
		{"STR-54 bin in array of arrays", pairs{{"extra", array(array(bin), integer(1))}}, ``, 1},
		{"STR-54 bin in map in array", pairs{{"extra", array(pairs{{"a", bin}}.msgpack())}}, `"extra":[{}]`, 1},
		{"STR-54 counted once with what is inside", pairs{{"extra", array(pairs{{"a", bin}}.msgpack(), bin, bin)}}, ``, 1},
		{"STR-54 two fields", pairs{{"a", bin}, {"k", integer(1)}, {"b", bin}}, `"k":1`, 2},
		{"STR-54 what follows in an array stays", pairs{{"extra", array(pairs{{"a", bin}, {"b", integer(1)}}.msgpack(), integer(2))}, {"k", integer(3)}}, `"extra":[{"b":1},2],"k":3`, 1},
		{"STR-55 NaN and infinities", pairs{{"a", float(math.NaN())}, {"b", float(math.Inf(1))}, {"c", array(float(math.Inf(-1)), float(1))}, {"d", []byte("\xca\x7f\x80\x00\x00")}}, `"a":null,"b":null,"c":[null,1.0],"d":null`, 0},
		{"STR-56 int then bin", pairs{{"x", integer(1)}, {"y", integer(2)}, {"x", bin}}, `"y":2`, 1},
		{"STR-56 bin then int", pairs{{"x", bin}, {"y", integer(2)}, {"x", integer(1)}}, `"x":1,"y":2`, 0},
		{"STR-56 bin in a duplicate map", pairs{{"x", pairs{{"a", bin}}.msgpack()}, {"x", pairs{{"a", integer(1)}, {"a", integer(2)}}.msgpack()}}, `"x":{"a":2}`, 0},
		{"STR-49 nested duplicates", pairs{{"x", array(pairs{{"a", integer(1)}, {"b", integer(2)}, {"a", integer(3)}}.msgpack())}}, `"x":[{"a":3,"b":2}]`, 0},
		{"STR-49 the same key in other forms", pairs{{"x", []byte("\x82\xa1a\x01\xd9\x01a\x02")}}, `"x":{"a":2}`, 0},
		{"STR-49 the same keys in other maps are none", pairs{{"x", pairs{{"x", integer(1)}}.msgpack()}, {"y", pairs{{"x", integer(2)}}.msgpack()}}, `"x":{"x":1},"y":{"x":2}`, 0},
		{"STR-57 kinds survive", pairs{{"i", integer(0)}, {"f", float(0)}, {"n", float(math.Copysign(0, -1))}, {"g", []byte("\xca\x3d\xcc\xcc\xcd")}, {"m", integer(math.MinInt64)}}, `"i":0,"f":0.0,"n":-0.0,"g":0.10000000149011612,"m":-9223372036854775808`, 0},
		{"known names deeper are unknown keys", pairs{{"x", pairs{{"version", bin}, {"wall_time", float(math.NaN())}}.msgpack()}}, `"x":{"wall_time":null}`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, p := extraJSON(t, tt.extra...)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.skipped, p.SkippedFields)
			requireAgreesWithReference(t, new(Decoder), append(goldenPairs(), tt.extra...).msgpack())
		})
	}
}

func TestCanonicalKeepsFirstPositionOfKnownKeys_STR49(t *testing.T) {
	payload := append(pairs{{"wall_time", text("bad")}}, goldenPairs()...).msgpack()
	got, _ := canonicalJSON(t, payload)
	require.True(t, strings.HasPrefix(got, `{"wall_time":0.025,"version":1,`), got)
	require.Equal(t, 1, strings.Count(got, "wall_time"))
}

func TestCanonicalIsPayloadWhenNothingChanges(t *testing.T) {
	payload := withRequestLists(t, 20)
	var (
		d Decoder
		p ForwardPass
	)
	require.NoError(t, d.Decode(payload, 0, &p))
	require.Same(t, &payload[0], &d.Canonical(&p)[0])
	require.Same(t, &payload[0], &d.Raw(&p)[0])
}

func TestRawIsAsReceived_STR104(t *testing.T) {
	payload := goldenPairs().add("x", binary3()).add("x", float(math.NaN())).add("b", binary3()).msgpack()
	var (
		d Decoder
		p ForwardPass
	)
	require.NoError(t, d.Decode(payload, 0, &p))
	require.Equal(t, payload, d.Raw(&p))
	require.NotEqual(t, payload, d.Canonical(&p))
}

func TestBigInt_STR57(t *testing.T) {
	for name, tt := range map[string]struct {
		payload []byte
		want    bool
	}{
		"largest int64":        {setField("x", unsigned(math.MaxInt64)), false},
		"2^63":                 {setField("x", unsigned(1<<63)), true},
		"nested":               {setField("scheduled_requests.x", array(pairs{{"a", unsigned(math.MaxUint64)}}.msgpack())), true},
		"among list elements":  {setField("scheduled_requests.x", array(integer(1), unsigned(math.MaxUint64), integer(1))), true},
		"wall_time":            {setField("wall_time", unsigned(math.MaxUint64)), true},
		"variance":             {setField("queued_requests.var_prefill_length", unsigned(math.MaxUint64)), true},
		"float of that size":   {setField("wall_time", float(1e100)), false},
		"smallest int64":       {setField("x", integer(math.MinInt64)), false},
		"replaced duplicate":   {goldenPairs().add("x", unsigned(math.MaxUint64)).add("x", integer(1)).msgpack(), true},
		"queued KV is unknown": {setField("queued_requests.sum_prefill_kv_tokens", unsigned(math.MaxUint64)), true},
	} {
		_, p := canonicalJSON(t, tt.payload)
		require.Equal(t, tt.want, p.BigInt, name)
	}
	got, _ := extraJSON(t, pair{"x", unsigned(math.MaxUint64)})
	require.Equal(t, `"x":18446744073709551615`, got)
}

// Map headers of each width are patched when entries are left out.
func TestCanonicalMapHeaders(t *testing.T) {
	d := Decoder{MaxSize: 1 << 24}
	for _, n := range []int{1, 15, 16, 17, 65_535, 65_536} {
		m := make(pairs, n)
		for i := range m {
			m[i] = pair{strconv.Itoa(i), []byte{1}}
		}
		m[n/2].value = binary3()
		var p ForwardPass
		require.NoError(t, d.Decode(pairs{{"z", m.msgpack()}}.with(goldenPairs()).msgpack(), 0, &p))
		require.Equal(t, 1, p.SkippedFields)
		c := NewCursor(d.Canonical(&p))
		c.Next()
		c.Next()
		require.Equal(t, Token{Kind: TokenMap, Len: n - 1}, c.Next())
		for range n - 1 {
			c.Skip()
			require.EqualValues(t, 1, c.Next().Int)
		}
		require.Equal(t, "version", string(c.Next().Str))
		requireCanonicalIsFinal(t, d.Canonical(&p), &p)
	}
}

// Keys of one map are searched one by one first and by hash later; duplicates are found on either side and across.
func TestDuplicatesAmongManyKeys(t *testing.T) {
	var d Decoder
	for _, n := range []int{linearKeys - 1, linearKeys, linearKeys + 1, 3 * linearKeys, 1000} {
		for _, first := range []int{0, n / 2, n - 1} {
			p := make(pairs, 0, n+1)
			for i := range n {
				p = p.add(fmt.Sprintf("key-%d", i), pairs{{"a", integer(int64(i))}, {"b", integer(0)}}.msgpack())
			}
			payload := setField("x", p.msgpack())
			var into ForwardPass
			require.NoError(t, d.Decode(payload, 0, &into))
			require.True(t, into.plain, "%d keys without a duplicate", n)
			p = p.add(p[first].key, text("last"))
			payload = setField("x", p.msgpack())
			require.NoError(t, d.Decode(payload, 0, &into))
			require.False(t, into.plain, "%d keys, duplicate of %d", n, first)
			requireAgreesWithReference(t, &d, payload)
		}
	}
}
