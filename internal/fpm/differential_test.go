// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// requireAgreesWithReference compares everything that Decode gives with what the reference says.
func requireAgreesWithReference(tb testing.TB, d *Decoder, payload []byte) {
	tb.Helper()
	const seq = 99
	want := refDecode(payload, d.maxSize(), d.AcceptLegacy, seq)
	var got ForwardPass
	err := d.Decode(payload, seq, &got)
	if want.reason != 0 {
		require.Equal(tb, want.reason, err, "payload %x", payload)
		return
	}
	require.NoError(tb, err, "payload %x", payload)
	requireSameView(tb, &want.view, &got)
	canonical := d.Canonical(&got)
	require.Equal(tb, want.canonical, cursorJSON(canonical), "payload %x", payload)
	requireCanonicalIsFinal(tb, canonical, &got)
}

// requireSameView compares what is exported, with the sign of zero.
func requireSameView(tb testing.TB, want, got *ForwardPass) {
	tb.Helper()
	exported := *got
	exported.payload, exported.plain = nil, false
	require.Equal(tb, *want, exported)
	require.Equal(tb, math.Signbit(want.WallTime), math.Signbit(got.WallTime))
	require.NotNil(tb, got.WorkerID)
	require.Equal(tb, want.TimingScope == nil, got.TimingScope == nil)
}

// requireCanonicalIsFinal decodes a canonical payload again: it is valid, says the same and doesn't change any more.
func requireCanonicalIsFinal(tb testing.TB, canonical []byte, first *ForwardPass) {
	tb.Helper()
	d := Decoder{MaxSize: maxMaxSize}
	var again ForwardPass
	require.NoError(tb, d.Decode(canonical, 0, &again))
	require.Equal(tb, canonical, d.Canonical(&again))
	require.Zero(tb, again.SkippedFields)
	want := *first
	want.payload, want.plain = nil, false
	want.SkippedFields, want.Legacy = 0, false
	want.BigInt = again.BigInt // the integer may have been in what was left out
	requireSameView(tb, &want, &again)
}

// mutate hands every single-byte change, deletion and insertion of payload to visit, which must not keep it.
func mutate(payload []byte, visit func([]byte)) {
	changed := make([]byte, len(payload), len(payload)+1)
	for i := range payload {
		copy(changed, payload)
		for v := range 256 {
			changed[i] = byte(v)
			visit(changed)
		}
	}
	for i := range payload {
		visit(append(append(changed[:0], payload[:i]...), payload[i+1:]...))
	}
	for i := range len(payload) + 1 {
		for v := range 256 {
			visit(append(append(append(changed[:0], payload[:i]...), byte(v)), payload[i:]...))
		}
	}
}

// verdictAgrees is the cheap half of requireAgreesWithReference.
func verdictAgrees(d *Decoder, payload []byte) bool {
	var got ForwardPass
	err := d.Decode(payload, 99, &got)
	want := refDecode(payload, d.maxSize(), d.AcceptLegacy, 99)
	if want.reason != 0 {
		return err == want.reason //nolint:errorlint // identity is what is promised
	}
	return err == nil && cursorJSON(d.Canonical(&got)) == want.canonical
}

func TestSingleByteMutations_STR92(t *testing.T) {
	var d Decoder
	mutate(goldenPayload(t), func(payload []byte) {
		if !verdictAgrees(&d, payload) {
			requireAgreesWithReference(t, &d, payload)
			require.Fail(t, "verdicts differ", "payload %x", payload)
		}
	})
}

func TestRandomMutations_STR92(t *testing.T) {
	var (
		seeds [][]byte
		rng   = rand.New(rand.NewPCG(1, 2))
	)
	for _, v := range fpmtest.Vectors(t) {
		if p := v.Payload; len(p) > 0 && len(p) < 4096 {
			seeds = append(seeds, p)
		}
	}
	for _, legacy := range []bool{false, true} {
		d := Decoder{AcceptLegacy: legacy}
		for range 10_000 {
			payload := splice(rng, seeds)
			if !verdictAgrees(&d, payload) {
				requireAgreesWithReference(t, &d, payload)
				require.Fail(t, "verdicts differ", "payload %x", payload)
			}
		}
	}
}

// splice changes a few places of a payload: to random bytes, to interesting ones, or to a piece of another payload.
func splice(rng *rand.Rand, seeds [][]byte) []byte {
	payload := append([]byte{}, seeds[rng.IntN(len(seeds))]...)
	markers := []byte{0x80, 0x81, 0x8f, 0x90, 0x91, 0xa0, 0xa1, 0xc0, 0xc1, 0xc4, 0xc7, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd9, 0xdc, 0xdd, 0xde, 0xdf, 0xff}
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(payload))
		switch rng.IntN(4) {
		case 0:
			payload[at] = byte(rng.Uint32())
		case 1:
			payload[at] = markers[rng.IntN(len(markers))]
		case 2:
			payload[0]++ // room for one more entry
			payload = append(payload, 0xa1, 'a'+byte(rng.IntN(3)), markers[rng.IntN(len(markers))])
		default:
			other := seeds[rng.IntN(len(seeds))]
			piece := other[rng.IntN(len(other)):]
			piece = piece[:min(len(piece), 1+rng.IntN(40))]
			payload = append(payload[:at:at], append(append([]byte{}, piece...), payload[at:]...)...)
		}
	}
	return payload
}

// Whole payloads made at random, full of what is rare: duplicates, bytes, NaN, big integers, deep values, many keys.
func TestRandomPayloads_STR92(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	d, legacy := Decoder{}, Decoder{AcceptLegacy: true}
	for range 2000 {
		payload := randomPayload(rng)
		requireAgreesWithReference(t, &d, payload)
		requireAgreesWithReference(t, &legacy, payload)
	}
}

func randomPayload(rng *rand.Rand) []byte {
	base := goldenPairs()
	if rng.IntN(4) == 0 {
		base = legacyPairs()
	}
	for range rng.IntN(4) {
		base = base.add(randomKey(rng), randomValue(rng, 2))
	}
	if rng.IntN(3) == 0 {
		outer := []string{"scheduled_requests", "queued_requests"}[rng.IntN(2)]
		inner := innerPairs(outer)
		for range 1 + rng.IntN(3) {
			inner = inner.add(randomKey(rng), randomValue(rng, 3))
		}
		rng.Shuffle(len(inner), func(i, j int) { inner[i], inner[j] = inner[j], inner[i] })
		base = base.add(outer, inner.msgpack())
	}
	rng.Shuffle(len(base), func(i, j int) { base[i], base[j] = base[j], base[i] })
	return base.msgpack()
}

func randomKey(rng *rand.Rand) string {
	if rng.IntN(8) == 0 {
		known := goldenPairs()
		return known[rng.IntN(len(known))].key
	}
	keys := []string{"", "x", "y", "timing_scope", "sum_prefill_kv_tokens", "num_decode_requests", "var_prefill_length", "extend_lengths"}
	return keys[rng.IntN(len(keys))]
}

func randomValue(rng *rand.Rand, level int) []byte {
	switch rng.IntN(10) {
	case 0:
		return binary3()
	case 1:
		return float([]float64{math.NaN(), math.Inf(1), 0.5, math.Copysign(0, -1)}[rng.IntN(4)])
	case 2:
		return AppendUint(nil, rng.Uint64())
	case 3:
		return text("näme")
	case 4, 5:
		items := make([][]byte, rng.IntN(4))
		for i := range items {
			items[i] = randomValue(rng, level+1)
		}
		return array(items...)
	case 6, 7:
		return randomMap(rng, level).msgpack()
	default:
		return AppendInt(nil, int64(rng.Uint64())>>rng.IntN(64))
	}
}

// randomMap makes maps on both sides of the size from which keys are hashed.
func randomMap(rng *rand.Rand, level int) pairs {
	n := rng.IntN(4)
	if rng.IntN(4) == 0 && level < 5 {
		n = rng.IntN(4 * linearKeys)
	}
	var p pairs
	for range n {
		key := string(rune('a' + rng.IntN(2*linearKeys)))
		p = p.add(key, randomValue(rng, level+1))
	}
	return p
}
