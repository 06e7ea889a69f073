// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodeAllocatesNothing_STR58(t *testing.T) {
	lists := withRequestLists(t, 98)
	for name, payload := range map[string][]byte{
		"golden":                  goldenPayload(t),
		"heartbeat":               AppendPayload(nil, &ForwardPass{}),
		"timing scope":            setField("timing_scope", text("model_step_cuda")),
		"request lists":           lists,
		"unknown map":             setField("x", pairs{{"a", integer(1)}, {"b", array(pairs{{"a", float(1)}}.msgpack())}}.msgpack()),
		"integer above 2^63-1":    setField("x", unsigned(math.MaxUint64)),
		"queued KV":               setField("queued_requests.sum_prefill_kv_tokens", integer(1)),
		"truncated":               lists[:len(lists)-1],
		"missing field":           removeField("counter_id"),
		"wrong type":              setField("worker_id", AppendNil(nil)),
		"trailing bytes":          append(goldenPairs().msgpack(), 0),
		"invalid UTF-8":           setField("worker_id", text("\xff")),
		"bad key":                 []byte("\x81\x01\x01"),
		"too deep":                setField("x", nest(20, integer(1))),
		"duplicates, bin and NaN": goldenPairs().add("version", integer(1)).add("x", binary3()).add("y", float(math.NaN())).msgpack(),
		"many unknown keys":       manyKeys(40),
	} {
		var (
			d    Decoder
			into ForwardPass
		)
		allocs := testing.AllocsPerRun(100, func() { // its first run warms the scratch memory up
			_ = d.Decode(payload, 0, &into)
			_ = d.Canonical(&into)
		})
		require.Zero(t, allocs, name)
	}
	d := Decoder{AcceptLegacy: true}
	var into ForwardPass
	payload := legacyPairs().msgpack()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		require.NoError(t, d.Decode(payload, 5, &into))
	}), "legacy")
}

func TestCursorAllocatesNothing(t *testing.T) {
	payload := withRequestLists(t, 98)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c := NewCursor(payload)
		for c.Next().Kind != TokenEnd {
		}
	}))
}

func TestAppendPayloadAllocatesNothing(t *testing.T) {
	pass := busyPass()
	buffer := make([]byte, 0, 512)
	require.Zero(t, testing.AllocsPerRun(100, func() { buffer = AppendPayload(buffer[:0], &pass) }))
	require.Len(t, buffer, 440, "STR-32")
}
