// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	countFields = []string{
		"dp_rank", "counter_id",
		"scheduled_requests.num_prefill_requests", "scheduled_requests.sum_prefill_tokens", "scheduled_requests.sum_prefill_kv_tokens",
		"scheduled_requests.num_decode_requests", "scheduled_requests.sum_decode_kv_tokens",
		"queued_requests.num_prefill_requests", "queued_requests.sum_prefill_tokens",
		"queued_requests.num_decode_requests", "queued_requests.sum_decode_kv_tokens",
	}
	varianceFields = []string{
		"scheduled_requests.var_prefill_length", "scheduled_requests.var_decode_kv_tokens",
		"queued_requests.var_prefill_length", "queued_requests.var_decode_kv_tokens",
	}
	measureFields = append([]string{"wall_time"}, varianceFields...)
)

// notNumbers has every type that is no number.
func notNumbers() map[string][]byte {
	return map[string][]byte{
		"nil": AppendNil(nil), "false": AppendBool(nil, false), "true": AppendBool(nil, true), "str": text("1"),
		"bin": binary3(), "ext": []byte("\xd4\x05x"), "timestamp": []byte("\xd6\xff\x00\x00\x00\x00"), "map": {0x80}, "array": {0x90},
		"array of one": array(integer(1)),
	}
}

func TestFields(t *testing.T) {
	t.Run("STR-43 version", func(t *testing.T) {
		requireReason(t, ReasonMissingField, removeField("version"))
		for _, v := range []int64{0, 2, 257, -1, math.MaxInt64, math.MinInt64, 1<<32 + 1} {
			requireReason(t, ReasonUnsupportedVersion, setField("version", integer(v)))
		}
		requireReason(t, ReasonUnsupportedVersion, setField("version", unsigned(math.MaxUint64)))
		requireReason(t, ReasonUnsupportedVersion, pairs{{"version", integer(2)}}.msgpack())
		requireReason(t, ReasonWrongType, setField("version", float(1)))
		for name, value := range notNumbers() {
			require.Equal(t, ReasonWrongType, verdict(setField("version", value)), name)
		}
	})
	t.Run("STR-44 absent", func(t *testing.T) {
		for _, f := range append([]string{"worker_id", "wall_time", "scheduled_requests", "queued_requests"}, countFields...) {
			require.Equal(t, ReasonMissingField, verdict(removeField(f)), f)
			require.Equal(t, ReasonWrongType, verdict(setField(f, AppendNil(nil))), f)
		}
	})
	t.Run("STR-45 integers", func(t *testing.T) {
		for _, f := range countFields {
			for _, v := range []int64{0, 1, 127, 128, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, math.MaxInt64} {
				require.NoError(t, verdict(setField(f, integer(v))), f)
			}
			for _, v := range []int64{-1, -32, -33, -128, -129, -32768, -32769, math.MinInt32, math.MinInt64} {
				require.Equal(t, ReasonOutOfRange, verdict(setField(f, integer(v))), f)
			}
			require.Equal(t, ReasonOutOfRange, verdict(setField(f, unsigned(1<<63))), f)
			require.Equal(t, ReasonOutOfRange, verdict(setField(f, unsigned(math.MaxUint64))), f)
			for _, v := range []float64{256, 0, 1e300, math.NaN(), -1} {
				require.Equal(t, ReasonWrongType, verdict(setField(f, float(v))), f)
			}
			for name, value := range notNumbers() {
				require.Equal(t, ReasonWrongType, verdict(setField(f, value)), "%s as %s", f, name)
			}
		}
	})
	t.Run("STR-46 measures", func(t *testing.T) {
		for _, f := range measureFields {
			for _, v := range []float64{0, math.Copysign(0, -1), 5e-324, 1, 1e100, math.MaxFloat64} {
				require.NoError(t, verdict(setField(f, float(v))), f)
			}
			require.NoError(t, verdict(setField(f, integer(0))), f)
			require.NoError(t, verdict(setField(f, integer(5))), f)
			require.NoError(t, verdict(setField(f, unsigned(math.MaxUint64))), f)
			for _, v := range []float64{-5e-324, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
				require.Equal(t, ReasonOutOfRange, verdict(setField(f, float(v))), f)
			}
			require.Equal(t, ReasonOutOfRange, verdict(setField(f, integer(-1))), f)
			require.Equal(t, ReasonOutOfRange, verdict(setField(f, integer(math.MinInt64))), f)
			require.Equal(t, ReasonOutOfRange, verdict(setField(f, []byte("\xca\x7f\xc0\x00\x00"))), "float32 NaN")
			require.Equal(t, ReasonOutOfRange, verdict(setField(f, []byte("\xca\xff\x80\x00\x00"))), "float32 -Inf")
			for name, value := range notNumbers() {
				require.Equal(t, ReasonWrongType, verdict(setField(f, value)), "%s as %s", f, name)
			}
		}
	})
	t.Run("STR-47 inner maps", func(t *testing.T) {
		for _, f := range []string{"scheduled_requests", "queued_requests"} {
			requireReason(t, ReasonMissingField, setField(f, []byte{0x80}))
			for name, value := range notNumbers() {
				if name != "map" {
					require.Equal(t, ReasonWrongType, verdict(setField(f, value)), "%s as %s", f, name)
				}
			}
			requireReason(t, ReasonWrongType, setField(f, integer(1)))
			requireReason(t, ReasonWrongType, setField(f, float(1)))
		}
	})
	t.Run("STR-48 bytes at a known field", func(t *testing.T) {
		for _, f := range append(append([]string{"version", "worker_id", "scheduled_requests"}, countFields...), measureFields...) {
			require.Equal(t, ReasonWrongType, verdict(setField(f, binary3())), f)
		}
	})
	t.Run("STR-49 the last duplicate decides", func(t *testing.T) {
		for _, f := range []string{"version", "worker_id", "dp_rank", "counter_id", "wall_time", "scheduled_requests", "queued_requests"} {
			var good []byte
			for _, p := range goldenPairs() {
				if p.key == f {
					good = p.value
				}
			}
			for name, bad := range notNumbers() {
				if f == "worker_id" && name == "str" {
					continue
				}
				want := ReasonWrongType
				if name == "map" && (f == "scheduled_requests" || f == "queued_requests") {
					want = ReasonMissingField // replaced, not merged
				}
				require.Equal(t, want, verdict(goldenPairs().add(f, bad).msgpack()), "%s last %s", f, name)
				require.NoError(t, verdict(goldenPairs().set(f, bad).add(f, good).msgpack()), "%s first %s", f, name)
			}
		}
		inner := scheduledPairs().add("num_decode_requests", text("bad"))
		requireReason(t, ReasonWrongType, setField("scheduled_requests", inner.msgpack()))
		requireValid(t, setField("scheduled_requests", inner.add("num_decode_requests", integer(9)).msgpack()))
	})
	t.Run("STR-49 an earlier map leaves nothing behind", func(t *testing.T) {
		bare := scheduledPairs().remove("var_prefill_length", "var_decode_kv_tokens")
		got, p := canonicalJSON(t, goldenPairs().add("scheduled_requests", bare.msgpack()).msgpack())
		require.False(t, p.Scheduled.HasPrefillLengthVariance)
		require.False(t, p.Scheduled.HasDecodeKVVariance)
		require.Zero(t, p.Scheduled.PrefillLengthVariance)
		require.NotContains(t, got, `"var_prefill_length":100.0`)
	})
}

// The order of the wire table decides, whatever the order of the keys.
func TestFirstFaultOfWireTableIsReason(t *testing.T) {
	wrong := map[string][]byte{}
	order := []string{"version", "worker_id", "dp_rank", "counter_id", "wall_time", "scheduled_requests", "queued_requests"}
	for _, f := range order {
		wrong[f] = AppendNil(nil)
	}
	for i, first := range order {
		for _, second := range order[i+1:] {
			p := goldenPairs().remove(first).set(second, wrong[second])
			require.Equal(t, ReasonMissingField, verdict(p.msgpack()), "%s before %s", first, second)
			p = goldenPairs().set(first, wrong[first]).remove(second)
			require.Equal(t, ReasonWrongType, verdict(p.msgpack()), "%s before %s", first, second)
		}
	}
	inner := []string{
		"num_prefill_requests", "sum_prefill_tokens", "var_prefill_length", "sum_prefill_kv_tokens",
		"num_decode_requests", "sum_decode_kv_tokens", "var_decode_kv_tokens",
	}
	for i, first := range inner {
		for _, second := range inner[i+1:] {
			p := scheduledPairs().remove(second).add(second, integer(-1)).set(first, AppendNil(nil))
			require.Equal(t, ReasonWrongType, verdict(setField("scheduled_requests", p.msgpack())), "%s before %s", first, second)
			p = pairs{{second, AppendNil(nil)}}
			p = append(p, scheduledPairs().remove(second).set(first, integer(-1))...)
			require.Equal(t, ReasonOutOfRange, verdict(setField("scheduled_requests", p.msgpack())), "%s before %s", first, second)
		}
	}
	both := goldenPairs().set("queued_requests", AppendNil(nil)).set("scheduled_requests", scheduledPairs().set("var_decode_kv_tokens", float(-1)).msgpack())
	requireReason(t, ReasonOutOfRange, both.msgpack())
}

func TestKeysAreCaseSensitive_STR30(t *testing.T) {
	p := goldenPairs()
	for i := range p {
		changed := append(pairs{}, p...)
		changed[i].key = string(p[i].key[0]-'a'+'A') + p[i].key[1:]
		require.Equal(t, ReasonMissingField, verdict(changed.msgpack()), changed[i].key)
	}
}

func TestOptionalFields(t *testing.T) {
	t.Run("STR-34 absent variances stay absent", func(t *testing.T) {
		for _, f := range varianceFields {
			got, _ := canonicalJSON(t, removeField(f))
			want := refDecode(removeField(f), defaultMaxSize, false, 0).canonical
			require.Equal(t, want, got)
		}
		var p ForwardPass
		require.NoError(t, new(Decoder).Decode(removeField("queued_requests.var_prefill_length"), 0, &p))
		require.False(t, p.Queued.HasPrefillLengthVariance)
		require.True(t, p.Queued.HasDecodeKVVariance)
		require.True(t, p.Scheduled.HasPrefillLengthVariance)
	})
	t.Run("STR-33 queued prefill KV tokens are unknown", func(t *testing.T) {
		for _, value := range [][]byte{text("x"), integer(-1), AppendNil(nil), unsigned(math.MaxUint64), float(0.5)} {
			requireValid(t, setField("queued_requests.sum_prefill_kv_tokens", value))
		}
		got, p := canonicalJSON(t, setField("queued_requests.sum_prefill_kv_tokens", text("x")))
		require.Contains(t, got, `"sum_prefill_kv_tokens":"x"`)
		require.Zero(t, p.SkippedFields)
		_, p = canonicalJSON(t, setField("queued_requests.sum_prefill_kv_tokens", binary3()))
		require.Equal(t, 1, p.SkippedFields)
	})
	t.Run("STR-75 timing scope", func(t *testing.T) {
		for name, tt := range map[string]struct {
			value []byte
			want  []byte
		}{
			"string": {text("execute_model_cuda"), []byte("execute_model_cuda")},
			"empty":  {text(""), []byte{}},
			"nil":    {AppendNil(nil), nil},
			"int":    {integer(1), nil},
			"map":    {pairs{{"a", integer(1)}}.msgpack(), nil},
			"bin":    {binary3(), nil},
		} {
			var p ForwardPass
			require.NoError(t, new(Decoder).Decode(setField("timing_scope", tt.value), 0, &p), name)
			require.Equal(t, tt.want, p.TimingScope, name)
		}
		_, p := canonicalJSON(t, goldenPairs().add("timing_scope", text("a")).add("timing_scope", integer(1)).msgpack())
		require.Nil(t, p.TimingScope, "the last duplicate decides")
	})
	t.Run("STR-76 per-request lists", func(t *testing.T) {
		got, p := canonicalJSON(t, setField("scheduled_requests.extend_lengths", array(integer(1), integer(300), integer(-5), unsigned(1<<40))))
		require.Contains(t, got, `"extend_lengths":[1,300,-5,1099511627776]`)
		require.False(t, p.BigInt)
	})
	t.Run("the view holds nothing of the payload before", func(t *testing.T) {
		var (
			d Decoder
			p ForwardPass
		)
		full := goldenPairs().set("timing_scope", text("s")).add("b", binary3()).add("u", unsigned(math.MaxUint64)).msgpack()
		require.NoError(t, d.Decode(full, 0, &p))
		require.Equal(t, 1, p.SkippedFields)
		require.True(t, p.BigInt)
		bare := goldenPairs().set("scheduled_requests", scheduledPairs().remove("var_prefill_length", "var_decode_kv_tokens").msgpack()).msgpack()
		require.NoError(t, d.Decode(bare, 0, &p))
		requireSameView(t, new(refDecode(bare, defaultMaxSize, false, 0).view), &p)
	})
}
