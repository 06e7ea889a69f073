// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

func TestLegacy(t *testing.T) {
	t.Run("STR-79 refused by default", func(t *testing.T) {
		requireReason(t, ReasonMissingField, legacyPairs().msgpack())
	})
	t.Run("STR-80 version and counter_id are filled in", func(t *testing.T) {
		payload := legacyPairs().msgpack()
		d := Decoder{AcceptLegacy: true}
		var p ForwardPass
		require.NoError(t, d.Decode(payload, 42, &p))
		require.True(t, p.Legacy)
		require.EqualValues(t, 42, p.CounterID)
		require.Equal(t, goldenPayload(t), d.Raw(&p))
		require.Equal(t, goldenPayload(t), d.Canonical(&p))
	})
	t.Run("STR-80 all else keeps its order and value", func(t *testing.T) {
		p := pairs{{"z", binary3()}, {"z", []byte("\xca\x7f\x80\x00\x00")}, {"dp_rank", text("bad")}}
		p = append(p, legacyPairs()...).add("tail", binary3())
		raw := append(pairs{{"version", integer(1)}}, p[:3]...).add("counter_id", integer(300))
		raw = append(raw, p[3:]...)
		d := Decoder{AcceptLegacy: true}
		var into ForwardPass
		require.NoError(t, d.Decode(p.msgpack(), 300, &into))
		require.Equal(t, raw.msgpack(), d.Raw(&into))
		want := goldenPairs().remove("dp_rank", "counter_id", "version")
		want = append(pairs{{"version", integer(1)}, {"z", AppendNil(nil)}, {"dp_rank", integer(0)}, {"counter_id", integer(300)}}, want...)
		require.Equal(t, want.msgpack(), d.Canonical(&into))
		require.Equal(t, 1, into.SkippedFields)
	})
	t.Run("STR-80 header grows to the next width", func(t *testing.T) {
		for _, extra := range []int{7, 8, 9, 10} {
			p := legacyPairs()
			for i := range extra {
				p = p.add(string(rune('a'+i)), integer(1))
			}
			d := Decoder{AcceptLegacy: true}
			requireAgreesWithReference(t, &d, p.msgpack())
		}
	})
	t.Run("STR-80 heartbeats", func(t *testing.T) {
		d := Decoder{AcceptLegacy: true}
		for _, v := range fpmtest.Vectors(t) {
			if v.Name == "legacy_heartbeat" || v.Name == "legacy_no_version_no_counter" {
				requireAgreesWithReference(t, &d, v.Payload)
			}
		}
	})
	t.Run("STR-81 only one of the two", func(t *testing.T) {
		for _, key := range []string{"version", "counter_id"} {
			var p ForwardPass
			d := Decoder{AcceptLegacy: true}
			require.Equal(t, ReasonMissingField, d.Decode(removeField(key), 1, &p))
		}
	})
	t.Run("all other rules hold", func(t *testing.T) {
		d := Decoder{AcceptLegacy: true}
		var p ForwardPass
		require.Equal(t, ReasonMissingField, d.Decode(legacyPairs().remove("dp_rank").msgpack(), 1, &p))
		require.Equal(t, ReasonWrongType, d.Decode(legacyPairs().set("worker_id", AppendNil(nil)).msgpack(), 1, &p))
		require.Equal(t, ReasonBadSequenceFrame, d.Decode(legacyPairs().msgpack(), math.MaxInt64+1, &p))
		require.NoError(t, d.Decode(goldenPayload(t), 1, &p))
		require.False(t, p.Legacy)
		require.EqualValues(t, 42, p.CounterID)
	})
}
