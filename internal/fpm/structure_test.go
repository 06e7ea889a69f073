// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

func fromHex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(tb, err)
	return b
}

func TestReasonExamples(t *testing.T) {
	for example, want := range map[string]Reason{
		"90":                                  ReasonNotAMap,
		"c0":                                  ReasonNotAMap,
		"dd ff ff ff ff":                      ReasonNotAMap,
		"":                                    ReasonTruncated,
		"87":                                  ReasonTruncated,
		"df ff ff ff ff":                      ReasonTruncated,
		"81 a1 61 db ff ff ff ff":             ReasonTruncated,
		"81 01 01":                            ReasonBadKey,
		"81 a1 ff 01":                         ReasonInvalidUTF8,
		"80 00":                               ReasonTrailingBytes,
		"80":                                  ReasonMissingField,
		"81 a7 76 65 72 73 69 6f 6e 02":       ReasonUnsupportedVersion,
		"81 a7 76 65 72 73 69 6f 6e c0":       ReasonWrongType,
		"81 a1 61 c1":                         ReasonWrongType,
		"81 a1 7a" + strings.Repeat("91", 16): ReasonTooDeep,
	} {
		t.Run(example, func(t *testing.T) { requireReason(t, want, fromHex(t, example)) })
	}
}

func TestStructure(t *testing.T) {
	withExtra := func(value string) []byte {
		return goldenPairs().add("z", []byte(value)).msgpack()
	}
	t.Run("STR-35 first byte decides", func(t *testing.T) {
		requireReason(t, ReasonTruncated, nil)
		for m := range 256 {
			b := byte(m)
			isMap := b>>4 == 8 || b == 0xde || b == 0xdf
			for _, payload := range [][]byte{{b}, {b, 0xc1}, {b, 0xff, 0xff, 0xff, 0xff}} {
				if !isMap {
					requireReason(t, ReasonNotAMap, payload)
				} else {
					require.NotEqual(t, ReasonNotAMap, verdict(payload))
				}
			}
		}
	})
	t.Run("FR-2 STR-36 level 16 is the last", func(t *testing.T) {
		for shape, nested := range map[string]func(int, []byte) []byte{
			"arrays":                    nest,
			"maps":                      nestMaps,
			"mixed, an array outermost": nestMixed,
			"mixed, a map outermost":    func(n int, value []byte) []byte { return nestMaps(1, nestMixed(n-1, value)) },
		} {
			t.Run(shape, func(t *testing.T) {
				requireValid(t, withExtra(string(nested(15, integer(1)))))
				requireValid(t, withExtra(string(nested(14, []byte{0x90}))))
				requireValid(t, withExtra(string(nested(14, []byte{0x80}))))
				requireReason(t, ReasonTooDeep, withExtra(string(nested(16, integer(1)))))
				requireReason(t, ReasonTooDeep, withExtra(string(nested(15, []byte{0x90}))))
				requireReason(t, ReasonTooDeep, withExtra(string(nested(15, []byte{0x80}))))
				requireReason(t, ReasonTooDeep, withExtra(string(nested(300_000, integer(1)))))
			})
		}
	})
	t.Run("STR-36 a marker is enough, empty or cut", func(t *testing.T) {
		for _, marker := range []string{"\x90", "\x80", "\xdc", "\xdd\xff", "\xde", "\xdf\xff\xff\xff\xff"} {
			requireReason(t, ReasonTooDeep, []byte("\x81\xa1z"+strings.Repeat("\x91", 15)+marker))
		}
	})
	t.Run("STR-36 inner maps are level 2", func(t *testing.T) {
		inScheduled := func(n int) []byte { return setField("scheduled_requests.z", nest(n, integer(1))) }
		requireValid(t, inScheduled(14))
		requireReason(t, ReasonTooDeep, inScheduled(15))
	})
	t.Run("STR-36 fields of the wrong type are walked too", func(t *testing.T) {
		for _, field := range []string{"version", "worker_id", "wall_time", "scheduled_requests", "timing_scope"} {
			requireReason(t, ReasonTooDeep, setField(field, nest(16, integer(1))))
		}
		requireReason(t, ReasonTooDeep, setField("queued_requests.num_prefill_requests", nest(15, integer(1))))
	})
	t.Run("STR-37 declared lengths", func(t *testing.T) {
		for _, value := range []string{
			"\xa2x", "\xd9\x02x", "\xda\x00\x02x", "\xdb\x00\x00\x00\x02x", "\xc4\x02x", "\xc5\x00\x02x", "\xc6\x00\x00\x00\x02x",
			"\xc7\x01\x05", "\xc8\x00\x01\x05", "\xc9\x00\x00\x00\x01\x05", "\xd4\x05", "\xd8\x05" + strings.Repeat("x", 15),
			"\x92\x01", "\xdc\x00\x02\x01", "\xdd\x00\x00\x00\x02\x01", "\x81\xa0", "\xde\x00\x01\xa0", "\xdf\x00\x00\x00\x01\xa0",
			"\xcc", "\xcd\x00", "\xce\x00\x00\x00", "\xcf\x00\x00\x00\x00\x00\x00\x00", "\xd0", "\xd3\x00", "\xca\x00\x00\x00", "\xcb\x00",
			"\xd9", "\xda\x00", "\xdb\x00\x00\x00", "\xc4", "\xc5\x00", "\xc6\x00", "\xc7", "\xc8\x00", "\xc9\x00", "\xdc\x00", "\xdd\x00", "\xde\x00", "\xdf\x00",
		} {
			requireReason(t, ReasonTruncated, []byte("\x81\xa1z"+value))
			requireReason(t, ReasonTruncated, []byte("\x81\xa1z\x91"+value))
			requireReason(t, ReasonTruncated, []byte("\x81\xa7version"+value))
			requireReason(t, ReasonTruncated, []byte("\x81\xa9worker_id"+value))
		}
	})
	t.Run("STR-37 length before content", func(t *testing.T) {
		requireReason(t, ReasonTruncated, []byte("\x81\xa1z\xd9\x09\xff\xff"))
		requireReason(t, ReasonTruncated, []byte("\x81\xa1z\x93\xc1\xc1"))
		requireReason(t, ReasonTruncated, []byte("\x82\x01\x01"))
	})
	t.Run("STR-38 keys are strings at every level", func(t *testing.T) {
		for _, key := range []string{"\x01", "\xff", "\xc0", "\xc3", "\xcb\x00\x00\x00\x00\x00\x00\x00\x00", "\xc4\x01x", "\x91\x01", "\x80", "\xc1", "\xd4\x05x"} {
			requireReason(t, ReasonBadKey, []byte("\x81"+key+"\x01"))
			requireReason(t, ReasonBadKey, setField("scheduled_requests", []byte("\x81"+key+"\x01")))
			requireReason(t, ReasonBadKey, withExtra("\x81"+key+"\x01"))
			requireReason(t, ReasonBadKey, withExtra("\x91\x81"+key+"\x01"))
		}
	})
	t.Run("STR-39 UTF-8", func(t *testing.T) {
		for _, bad := range []string{"\xff\xfe", "\xed\xa0\x80", "\xc0\x80", "\xe0\x80\xaf", "\xf4\x90\x80\x80", "\xc3", "a\x80"} {
			requireReason(t, ReasonInvalidUTF8, setField("worker_id", text(bad)))
			requireReason(t, ReasonInvalidUTF8, setField("timing_scope", text(bad)))
			requireReason(t, ReasonInvalidUTF8, withExtra(string(text(bad))))
			requireReason(t, ReasonInvalidUTF8, withExtra("\x91\x91"+string(text(bad))))
			requireReason(t, ReasonInvalidUTF8, goldenPairs().add(bad, integer(1)).msgpack())
			requireReason(t, ReasonInvalidUTF8, setField("queued_requests."+bad, integer(1)))
			requireReason(t, ReasonInvalidUTF8, withExtra(string(pairs{{bad, integer(1)}}.msgpack())))
		}
		for _, good := range []string{"\x00", "\uffff\ufffe\ufdd0", "\U0010ffff", "wörker/é\u2028", ""} {
			requireValid(t, setField("worker_id", text(good)))
			requireValid(t, goldenPairs().add("k"+good, text(good)).msgpack())
		}
	})
	t.Run("STR-40 c1 is no value", func(t *testing.T) {
		requireReason(t, ReasonWrongType, withExtra("\xc1"))
		requireReason(t, ReasonWrongType, withExtra("\x92\x01\xc1"))
		requireReason(t, ReasonWrongType, goldenPairs().set("version", []byte("\xc1")).msgpack())
	})
	t.Run("STR-41 nothing after the map", func(t *testing.T) {
		for _, tail := range []string{"\xc0", "\xc1", "\x80", string(goldenPayload(t))} {
			requireReason(t, ReasonTrailingBytes, append(goldenPairs().msgpack(), tail...))
		}
	})
	t.Run("the first fault in byte order is the reason", func(t *testing.T) {
		requireReason(t, ReasonWrongType, []byte("\x83\xa1a\xc1\x01\x01\xa1\xff\x01"))
		requireReason(t, ReasonBadKey, []byte("\x83\x01\x01\xa1a\xc1\xa1\xff\x01"))
		requireReason(t, ReasonInvalidUTF8, []byte("\x83\xa1\xff\x01\xa1a\xc1\x01\x01"))
		requireReason(t, ReasonTrailingBytes, append(setField("version", integer(2)), 0))
		requireReason(t, ReasonWrongType, append(withExtra("\xc1"), 0))
	})
}

func TestEveryStrictPrefixIsTruncated_STR42(t *testing.T) {
	payloads := [][]byte{goldenPayload(t), withRequestLists(t, 40), legacyPairs().msgpack()}
	for _, v := range fpmtest.Vectors(t) {
		if p := v.Payload; v.Valid && len(p) < 1024 {
			payloads = append(payloads, p)
		}
	}
	var (
		d    Decoder
		into ForwardPass
	)
	for _, payload := range payloads {
		for n := range payload {
			require.Equal(t, ReasonTruncated, d.Decode(payload[:n:n], 0, &into), "%d bytes of %x", n, payload)
		}
	}
}

func TestOversizeIsJudgedFirst_STR8(t *testing.T) {
	payload := goldenPayload(t)
	var into ForwardPass
	require.NoError(t, (&Decoder{MaxSize: len(payload)}).Decode(payload, 0, &into))
	require.Equal(t, ReasonOversize, (&Decoder{MaxSize: len(payload) - 1}).Decode(payload, 0, &into))
	garbage := bytes.Repeat([]byte{0xc1}, defaultMaxSize+1)
	require.Equal(t, ReasonOversize, new(Decoder).Decode(garbage, 0, &into))
	require.Equal(t, ReasonNotAMap, new(Decoder).Decode(garbage[:defaultMaxSize], 0, &into))
	require.Equal(t, maxMaxSize, (&Decoder{MaxSize: math.MaxInt}).maxSize())
}

func TestEveryEncodingIsAccepted_STR29(t *testing.T) {
	ints := []string{"\x05", "\xcc\x05", "\xcd\x00\x05", "\xce\x00\x00\x00\x05", "\xcf\x00\x00\x00\x00\x00\x00\x00\x05", "\xd0\x05", "\xd1\x00\x05", "\xd2\x00\x00\x00\x05", "\xd3\x00\x00\x00\x00\x00\x00\x00\x05"}
	for _, five := range ints {
		var p ForwardPass
		require.NoError(t, new(Decoder).Decode(setField("scheduled_requests.num_decode_requests", []byte(five)), 0, &p))
		require.EqualValues(t, 5, p.Scheduled.DecodeRequests)
		require.NoError(t, new(Decoder).Decode(setField("wall_time", []byte(five)), 0, &p))
		require.InDelta(t, 5.0, p.WallTime, 0)
	}
	for _, id := range []string{"\xa21 ", "\xd9\x021 ", "\xda\x00\x021 ", "\xdb\x00\x00\x00\x021 "} {
		var p ForwardPass
		require.NoError(t, new(Decoder).Decode(setField("worker_id", []byte(id)), 0, &p))
		require.Equal(t, "1 ", string(p.WorkerID))
	}
	golden := goldenPairs().msgpack()
	for _, header := range []string{"\xde\x00\x07", "\xdf\x00\x00\x00\x07"} {
		requireValid(t, append([]byte(header), golden[1:]...))
	}
	scheduled := scheduledPairs().msgpack()
	for _, header := range []string{"\xde\x00\x07", "\xdf\x00\x00\x00\x07"} {
		requireValid(t, setField("scheduled_requests", append([]byte(header), scheduled[1:]...)))
	}
	for _, key := range []string{"\xd9\x07version", "\xda\x00\x07version", "\xdb\x00\x00\x00\x07version"} {
		requireValid(t, append([]byte("\x87"+key), golden[1+len("\xa7version"):]...))
	}
	var p ForwardPass
	require.NoError(t, new(Decoder).Decode(setField("wall_time", fromHex(t, "ca 3d cc cc cd")), 0, &p))
	require.InDelta(t, float64(float32(0.1)), p.WallTime, 0)
}
