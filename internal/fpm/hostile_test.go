// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// allocated gives the bytes that f allocates in all, which bounds what the heap can grow by.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// manyKeys is a valid payload with n different unknown keys.
func manyKeys(n int) []byte {
	return goldenPairs().with(manyPairs(n)).msgpack()
}

// hugeLengths are the markers of everything that declares a length, with 2^32-1 or the most that they can declare.
var hugeLengths = []string{
	"\xdb\xff\xff\xff\xff", "\xc6\xff\xff\xff\xff", "\xc9\xff\xff\xff\xff\x05", "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff",
	"\xda\xff\xff", "\xc5\xff\xff", "\xc8\xff\xff\x05", "\xdc\xff\xff", "\xde\xff\xff", "\xd9\xff", "\xc4\xff", "\xc7\xff\x05",
}

func TestHostileDeclaredLengths_STR82(t *testing.T) {
	type input struct {
		payload []byte
		want    Reason
	}
	var inputs []input
	for _, huge := range hugeLengths {
		atTop, asKey := ReasonNotAMap, ReasonBadKey
		if isMapMarker(huge[0]) {
			atTop = ReasonTruncated
		}
		if isString(huge[0]) {
			asKey = ReasonTruncated
		}
		inputs = append(inputs,
			input{[]byte(huge), atTop},
			input{[]byte("\x81" + huge), asKey},
			input{[]byte("\x81\xa1z" + huge), ReasonTruncated},
			input{[]byte("\x81\xa1z\x91" + huge), ReasonTruncated},
			input{[]byte("\x81\xa1z" + strings.Repeat("\xdc\x00\x01", 3) + huge), ReasonTruncated},
		)
		for _, f := range []string{"version", "worker_id", "dp_rank", "wall_time", "scheduled_requests", "queued_requests", "timing_scope"} {
			inputs = append(inputs, input{append(pairs{{f, nil}}.msgpack(), huge...), ReasonTruncated})
		}
	}
	var (
		d    Decoder
		into ForwardPass
	)
	for _, in := range inputs {
		require.Equal(t, in.want, d.Decode(in.payload, 0, &into), "%x", in.payload)
	}
	growth := allocated(func() {
		for i := range 10_000 {
			_ = d.Decode(inputs[i%len(inputs)].payload, 0, &into)
		}
	})
	require.Less(t, growth, uint64(1<<20))
}

func TestHostileRequestList_STR83(t *testing.T) {
	payload := setField("scheduled_requests.extend_lengths", []byte("\xdd\x3f\xff\xff\xff"))
	growth := allocated(func() { requireReason(t, ReasonTruncated, payload) })
	require.Less(t, growth, uint64(1<<20))
}

func TestHostileDepth_STR84(t *testing.T) {
	for _, n := range []int{10_000, 300_000} {
		requireReason(t, ReasonTooDeep, setField("z", nest(n, integer(1))))
		requireReason(t, ReasonTooDeep, setField("z", nestMaps(n, integer(1))))
		requireReason(t, ReasonTooDeep, setField("scheduled_requests.z", nest(n, integer(1))))
	}
	requireReason(t, ReasonTooDeep, []byte("\x81\xa1z"+strings.Repeat("\x91", 1_000_000)))
}

func TestHostileSize_STR85(t *testing.T) {
	wellFormed := setField("z", text(strings.Repeat("x", 2_000_000)))
	requireReason(t, ReasonOversize, wellFormed)
	requireReason(t, ReasonOversize, bytes.Repeat([]byte{0xc1}, 2_000_000))
}

// largePayloads are valid and just below 1 MiB, each large in a way of its own.
var largePayloads = sync.OnceValue(func() map[string][]byte {
	const room = defaultMaxSize - 600
	oneByteElements := append([]byte("\xdd"), binary.BigEndian.AppendUint32(nil, 500_000)...)
	nothing := append([]byte("\xdd"), binary.BigEndian.AppendUint32(nil, room)...)
	emptyKeys := append([]byte("\xdf"), binary.BigEndian.AppendUint32(nil, room/2)...)
	distinct := make(pairs, 0, room/8)
	for i := range room / 8 {
		distinct = append(distinct, pair{string([]rune{rune(0x80 + i%1024), rune(0x80 + i/1024)}), []byte{1}})
	}
	smallMaps := array(slices.Repeat([][]byte{ninePairs()}, room/64)...)
	return map[string][]byte{
		"one string":          setField("z", text(strings.Repeat("x", room))),
		"one-byte elements":   setField("z", append(oneByteElements, make([]byte, 500_000)...)),
		"empty arrays":        setField("z", append(nothing, bytes.Repeat([]byte{0x90}, room)...)),
		"empty maps":          setField("z", append(nothing, bytes.Repeat([]byte{0x80}, room)...)),
		"the same key":        setField("z", append(emptyKeys, bytes.Repeat([]byte("\xa0\x01"), room/2)...)),
		"different keys":      setField("z", distinct.msgpack()),
		"different, one bin":  goldenPairs().add("b", []byte("\xc4\x00")).add("z", distinct.msgpack()).msgpack(),
		"small maps":          setField("z", smallMaps),
		"small maps, one bin": goldenPairs().add("b", []byte("\xc4\x00")).add("z", smallMaps).msgpack(),
	}
})

// ninePairs is a map just large enough to be hashed.
func ninePairs() []byte {
	var p pairs
	for i := range linearKeys + 1 {
		p = p.add(string(rune('a'+i)), integer(1))
	}
	return p.msgpack()
}

func TestHostileLargePayloads_STR86(t *testing.T) {
	for name, payload := range largePayloads() {
		t.Run(name, func(t *testing.T) {
			var into ForwardPass
			growth := allocated(func() {
				require.NoError(t, new(Decoder).Decode(payload, 0, &into))
			})
			require.Less(t, growth, uint64(32*len(payload)))
		})
	}
}

func TestScratchIsGivenBack_STR86(t *testing.T) {
	var (
		d    Decoder
		into ForwardPass
	)
	for name, payload := range largePayloads() {
		require.NoError(t, d.Decode(payload, 0, &into), name)
		require.NoError(t, d.Decode(goldenPayload(t), 0, &into))
		kept := cap(d.scan.keys.entries)*16 + cap(d.scan.keys.slots)*4 + cap(d.canonical) + cap(d.legacy)
		require.LessOrEqual(t, kept, 4*keptScratch, name)
	}
}

func TestHostileNumbers_STR87_STR89(t *testing.T) {
	for _, f := range countFields {
		requireReason(t, ReasonOutOfRange, setField(f, unsigned(math.MaxUint64)))
		requireReason(t, ReasonOutOfRange, setField(f, integer(-1)))
	}
	for _, f := range measureFields {
		requireReason(t, ReasonOutOfRange, setField(f, float(math.NaN())))
		requireReason(t, ReasonOutOfRange, setField(f, float(math.Inf(1))))
		requireReason(t, ReasonOutOfRange, setField(f, float(math.Inf(-1))))
		requireReason(t, ReasonOutOfRange, setField(f, float(-1)))
	}
}

func TestHostileText_STR88(t *testing.T) {
	requireReason(t, ReasonTrailingBytes, append(goldenPayload(t), 0xc0))
	requireReason(t, ReasonInvalidUTF8, setField("worker_id", text("\xff\xfe")))
	got, _ := canonicalJSON(t, goldenPairs().add("counter_id", integer(43)).msgpack())
	require.Contains(t, got, `"counter_id":43`)
	require.NotContains(t, got, `"counter_id":42`)
}

// fastest gives the shortest of several runs, which other load on the machine disturbs least.
func fastest(runs int, f func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range runs {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

// requireLinear compares the times for two sizes, of which one is 16 times the other. Up to 6 is allowed for each factor of 4
// (STR-91), which leaves room for caches and for other load; a quadratic search would take 256 times as long.
func requireLinear(t *testing.T, payload func(n int) []byte, n int) {
	t.Helper()
	d := Decoder{MaxSize: maxMaxSize}
	var into ForwardPass
	takes := func(payload []byte) float64 {
		return float64(fastest(3, func() { require.NoError(t, d.Decode(payload, 0, &into)) }))
	}
	small, large := payload(n), payload(16*n)
	ratio := math.Inf(1)
	for attempt := 0; attempt < 5 && ratio > 6*6; attempt++ {
		ratio = takes(large) / takes(small)
	}
	require.LessOrEqual(t, ratio, 6.0*6.0)
}

// manyPairs has n different unknown keys.
func manyPairs(n int) pairs {
	p := make(pairs, n)
	for i := range p {
		p[i] = pair{fmt.Sprintf("k%07d", i), []byte{1}}
	}
	return p
}

func TestManyKeysTakeLinearTime_STR91(t *testing.T) {
	for name, payload := range map[string]func(n int) []byte{
		"different keys": manyKeys,
		"different keys, rewritten": func(n int) []byte {
			return pairs{{"b", binary3()}, {"z", manyPairs(n).msgpack()}}.with(goldenPairs()).msgpack()
		},
		"all twice": func(n int) []byte {
			return setField("z", manyPairs(n).with(manyPairs(n)).msgpack())
		},
		"small maps with the same keys beside a large one": func(n int) []byte {
			maps := array(slices.Repeat([][]byte{ninePairs()}, n)...)
			return setField("z", manyPairs(n).add("maps", maps).msgpack())
		},
		"rewritten at every level": func(n int) []byte {
			list := append([]byte("\xdd"), binary.BigEndian.AppendUint32(nil, uint32(8*n))...)
			return goldenPairs().add("b", binary3()).add("z", nestMaps(14, append(list, make([]byte, 8*n)...))).msgpack()
		},
	} {
		t.Run(name, func(t *testing.T) { requireLinear(t, payload, 1000) })
	}
}

func TestFloodOfInvalidPayloadsCostsNoMemory_STR94(t *testing.T) {
	var invalid [][]byte
	for _, v := range fpmtest.Vectors(t) {
		if p := v.Payload; !v.Valid && len(p) < 4096 {
			invalid = append(invalid, p)
		}
	}
	var (
		d    Decoder
		into ForwardPass
	)
	growth := allocated(func() {
		for i := range 30_000 {
			_ = d.Decode(invalid[i%len(invalid)], 0, &into)
		}
	})
	require.Less(t, growth, uint64(1<<20))
	require.NoError(t, d.Decode(goldenPayload(t), 0, &into), "the next valid one is taken (STR-53)")
}
