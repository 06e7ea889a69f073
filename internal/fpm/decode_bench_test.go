// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

// libraryPass is the payload as one decodes it with the msgpack library.
type libraryPass struct {
	Version     int64            `msgpack:"version"`
	WorkerID    string           `msgpack:"worker_id"`
	DPRank      int64            `msgpack:"dp_rank"`
	CounterID   int64            `msgpack:"counter_id"`
	TimingScope string           `msgpack:"timing_scope"`
	WallTime    float64          `msgpack:"wall_time"`
	Scheduled   libraryScheduled `msgpack:"scheduled_requests"`
	Queued      libraryQueued    `msgpack:"queued_requests"`
}

type libraryScheduled struct {
	PrefillRequests       int64    `msgpack:"num_prefill_requests"`
	PrefillTokens         int64    `msgpack:"sum_prefill_tokens"`
	PrefillLengthVariance *float64 `msgpack:"var_prefill_length"`
	PrefillKVTokens       int64    `msgpack:"sum_prefill_kv_tokens"`
	DecodeRequests        int64    `msgpack:"num_decode_requests"`
	DecodeKVTokens        int64    `msgpack:"sum_decode_kv_tokens"`
	DecodeKVVariance      *float64 `msgpack:"var_decode_kv_tokens"`
}

type libraryQueued struct {
	PrefillRequests       int64    `msgpack:"num_prefill_requests"`
	PrefillTokens         int64    `msgpack:"sum_prefill_tokens"`
	PrefillLengthVariance *float64 `msgpack:"var_prefill_length"`
	DecodeRequests        int64    `msgpack:"num_decode_requests"`
	DecodeKVTokens        int64    `msgpack:"sum_decode_kv_tokens"`
	DecodeKVVariance      *float64 `msgpack:"var_decode_kv_tokens"`
}

// busyPass is a pass of a loaded engine, 440 bytes on the wire: the upper end of what producers send (STR-32).
func busyPass() ForwardPass {
	return ForwardPass{
		WorkerID: []byte("75878901541234567"), DPRank: 3, CounterID: 1_234_567, WallTime: 0.0237189,
		Scheduled: Scheduled{
			PrefillRequests: 2, PrefillTokens: 3072, PrefillLengthVariance: 1048576.25, PrefillKVTokens: 8192,
			DecodeRequests: 96, DecodeKVTokens: 412_345, DecodeKVVariance: 2345678.75,
			HasPrefillLengthVariance: true, HasDecodeKVVariance: true,
		},
		Queued: Queued{
			PrefillRequests: 5, PrefillTokens: 20_480, PrefillLengthVariance: 4194304.5, DecodeRequests: 1, DecodeKVTokens: 3000,
			HasPrefillLengthVariance: true, HasDecodeKVVariance: true,
		},
	}
}

// withRequestLists adds what extended producers send: a timing scope, and two lists with an entry per request (STR-76).
func withRequestLists(tb testing.TB, requests int) []byte {
	tb.Helper()
	pass := busyPass()
	pass.TimingScope = []byte("execute_model_cuda")
	payload := AppendPayload(nil, &pass)
	header := append(AppendString(nil, keyScheduledRequests), markFixMap|7)
	at := bytes.Index(payload, header)
	require.Positive(tb, at)
	at += len(header)
	extended := append([]byte{}, payload[:at]...)
	extended[at-1] = markFixMap | 9
	for _, key := range []string{"extend_lengths", "past_kv_lengths"} {
		extended = AppendArrayHeader(AppendString(extended, key), requests)
		for i := range requests {
			extended = AppendInt(extended, int64(1+i*i*7%9000))
		}
	}
	return append(extended, payload[at:]...)
}

func BenchmarkDecode(b *testing.B) {
	pass := busyPass()
	benchmarkDecode(b, AppendPayload(nil, &pass))
}

func BenchmarkDecodeRequestLists(b *testing.B) {
	benchmarkDecode(b, withRequestLists(b, 98))
}

// benchmarkDecode runs ours beside the library, so that only ratios within one run are ever compared (PERF-49).
func benchmarkDecode(b *testing.B, payload []byte) {
	b.Helper()
	b.Run("ours", func(b *testing.B) {
		var (
			d    Decoder
			into ForwardPass
		)
		measure(b, payload, func() error { return d.Decode(payload, 0, &into) })
	})
	b.Run("msgpack_v5_struct", func(b *testing.B) {
		r, d := bytes.NewReader(nil), msgpack.NewDecoder(nil)
		var into libraryPass
		measure(b, payload, func() error {
			r.Reset(payload)
			d.Reset(r)
			return d.Decode(&into)
		})
	})
	b.Run("msgpack_v5_map", func(b *testing.B) {
		r, d := bytes.NewReader(nil), msgpack.NewDecoder(nil)
		measure(b, payload, func() error {
			r.Reset(payload)
			d.Reset(r)
			_, err := d.DecodeMap()
			return err
		})
	})
}

func measure(b *testing.B, payload []byte, decode func() error) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if err := decode(); err != nil {
			b.Fatal(err)
		}
	}
}

// A guard against decay, not a measurement: ours is several times as fast as the library (PERF-49).
func TestDecodeIsFasterThanLibrary(t *testing.T) {
	pass := busyPass()
	payload := AppendPayload(nil, &pass)
	var (
		ours    Decoder
		view    ForwardPass
		library libraryPass
	)
	r, d := bytes.NewReader(nil), msgpack.NewDecoder(nil)
	var ratio float64
	for range 10 {
		oursTakes := fastest(20, func() {
			for range 200 {
				require.NoError(t, ours.Decode(payload, 0, &view))
			}
		})
		libraryTakes := fastest(20, func() {
			for range 200 {
				r.Reset(payload)
				d.Reset(r)
				require.NoError(t, d.Decode(&library))
			}
		})
		if ratio = float64(libraryTakes) / float64(oursTakes); ratio > 2 {
			return
		}
	}
	require.Greater(t, ratio, 2.0)
}
