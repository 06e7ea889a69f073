// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

func addSeeds(f *testing.F) {
	f.Helper()
	for _, v := range fpmtest.Vectors(f) {
		if p := v.Payload; len(p) < 4096 {
			f.Add(p)
		}
	}
	for _, huge := range hugeLengths {
		f.Add([]byte("\x81\xa1z" + huge))
	}
	f.Add(withRequestLists(f, 20))
	f.Add(legacyPairs().msgpack())
	f.Add(manyKeys(2 * linearKeys))
	f.Add(setField("z", array(ninePairs(), ninePairs())))
	f.Add(goldenPairs().add("z", ninePairs()).add("b", binary3()).add("z", array(pairs{{"a", binary3()}}.msgpack())).msgpack())
}

// FuzzDecode: whatever the bytes, the verdict, the view and the canonical payload are those of the reference (STR-92).
func FuzzDecode(f *testing.F) {
	addSeeds(f)
	var strict, legacy Decoder
	legacy.AcceptLegacy = true
	f.Fuzz(func(t *testing.T, payload []byte) {
		requireAgreesWithReference(t, &strict, payload)
		requireAgreesWithReference(t, &legacy, payload)
	})
}

// FuzzCanonical: a canonical payload is valid and doesn't change any more, and it says what the raw payload says.
func FuzzCanonical(f *testing.F) {
	addSeeds(f)
	var d Decoder
	f.Fuzz(func(t *testing.T, extra []byte) {
		if _, reason := refParse(append([]byte("\x81\xa1z"), extra...)); reason != 0 {
			return
		}
		for _, payload := range [][]byte{
			goldenPairs().add("z", extra).msgpack(),
			goldenPairs().add("z", binary3()).add("z", array(extra)).msgpack(),
			setField("scheduled_requests.z", extra),
		} {
			var p ForwardPass
			err := d.Decode(payload, 0, &p)
			if err == ReasonTooDeep { //nolint:errorlint // identity is what is promised
				continue
			}
			require.NoError(t, err)
			requireCanonicalIsFinal(t, d.Canonical(&p), &p)
		}
	})
}

// FuzzDecodeAgainstMsgpack: the library reads a payload that both accept as we do. It sees canonical payloads alone: raw
// bytes can kill it (fpm-stream.md 12), and it merges duplicate maps, which we replace.
func FuzzDecodeAgainstMsgpack(f *testing.F) {
	addSeeds(f)
	var d Decoder
	f.Fuzz(func(t *testing.T, payload []byte) {
		var p ForwardPass
		if d.Decode(payload, 0, &p) != nil {
			return
		}
		canonical := d.Canonical(&p)
		requireSameTreeAsLibrary(t, canonical)
		if !p.BigInt { // the library reads 2^64-1 as -1
			requireSameViewAsLibrary(t, canonical, &p)
		}
	})
}

func requireSameTreeAsLibrary(tb testing.TB, canonical []byte) {
	tb.Helper()
	tree, err := msgpack.NewDecoder(bytes.NewReader(canonical)).DecodeMap()
	require.NoError(tb, err)
	require.Equal(tb, sortedTree(tb, tree), sortKeys(refTree(tb, canonical)).json())
}

func refTree(tb testing.TB, payload []byte) refValue {
	tb.Helper()
	c := NewCursor(payload)
	tree := cursorTree(&c)
	require.Equal(tb, TokenEnd, c.Next().Kind)
	return tree
}

func sortKeys(v refValue) refValue {
	for i := range v.items {
		v.items[i] = sortKeys(v.items[i])
	}
	for i := range v.pairs {
		v.pairs[i].value = sortKeys(v.pairs[i].value)
	}
	slices.SortFunc(v.pairs, func(a, b refPair) int { return strings.Compare(a.key, b.key) })
	return v
}

// sortedTree prints what the library made of a payload.
func sortedTree(tb testing.TB, v any) string {
	tb.Helper()
	return sortKeys(libraryTree(tb, v)).json()
}

func libraryTree(tb testing.TB, v any) refValue {
	tb.Helper()
	switch v := v.(type) {
	case nil:
		return refValue{kind: refNil}
	case bool:
		return refValue{kind: refBool, truth: v}
	case float32:
		return refValue{kind: refFloat, float: float64(v)}
	case float64:
		return refValue{kind: refFloat, float: v}
	case string:
		return refValue{kind: refString, text: v}
	case []any:
		out := refValue{kind: refArray}
		for _, item := range v {
			out.items = append(out.items, libraryTree(tb, item))
		}
		return out
	case map[string]any:
		out := refValue{kind: refMap}
		for key, value := range v {
			out.pairs = append(out.pairs, refPair{key: key, value: libraryTree(tb, value)})
		}
		return out
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		digits, negative := strings.CutPrefix(fmt.Sprint(v), "-")
		magnitude, err := strconv.ParseUint(digits, 10, 64)
		require.NoError(tb, err)
		return refValue{kind: refInt, int: refInteger{negative: negative, magnitude: magnitude}}
	default:
		require.Fail(tb, "unexpected type", "%T", v)
		return refValue{}
	}
}

func requireSameViewAsLibrary(tb testing.TB, canonical []byte, p *ForwardPass) {
	tb.Helper()
	var l libraryPass
	d := msgpack.NewDecoder(bytes.NewReader(canonical))
	if err := d.Decode(&l); err != nil {
		require.Nil(tb, p.TimingScope, "%v", err) // only a timing_scope of another type stops the library
		return
	}
	require.EqualValues(tb, payloadVersion, l.Version)
	require.Equal(tb, string(p.WorkerID), l.WorkerID)
	require.Equal(tb, string(p.TimingScope), l.TimingScope)
	require.Equal(tb, []int64{p.DPRank, p.CounterID}, []int64{l.DPRank, l.CounterID})
	require.Equal(tb, p.WallTime, l.WallTime) //nolint:testifylint // the same bits, not about the same
	require.Equal(tb, p.Scheduled, l.Scheduled.view())
	require.Equal(tb, p.Queued, l.Queued.view())
}

func (s *libraryScheduled) view() Scheduled {
	v := Scheduled{
		PrefillRequests: s.PrefillRequests, PrefillTokens: s.PrefillTokens, PrefillKVTokens: s.PrefillKVTokens,
		DecodeRequests: s.DecodeRequests, DecodeKVTokens: s.DecodeKVTokens,
	}
	v.PrefillLengthVariance, v.HasPrefillLengthVariance = deref(s.PrefillLengthVariance)
	v.DecodeKVVariance, v.HasDecodeKVVariance = deref(s.DecodeKVVariance)
	return v
}

func (q *libraryQueued) view() Queued {
	v := Queued{
		PrefillRequests: q.PrefillRequests, PrefillTokens: q.PrefillTokens,
		DecodeRequests: q.DecodeRequests, DecodeKVTokens: q.DecodeKVTokens,
	}
	v.PrefillLengthVariance, v.HasPrefillLengthVariance = deref(q.PrefillLengthVariance)
	v.DecodeKVVariance, v.HasDecodeKVVariance = deref(q.DecodeKVVariance)
	return v
}

func deref(f *float64) (float64, bool) {
	if f == nil {
		return 0, false
	}
	return *f, true
}
