// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

// record is a payload of the wire table, encoded by a library: the tests share no
// code with the product.
type record struct {
	Version     int64     `msgpack:"version"`
	WorkerID    string    `msgpack:"worker_id"`
	DPRank      int64     `msgpack:"dp_rank"`
	CounterID   int64     `msgpack:"counter_id"`
	WallTime    float64   `msgpack:"wall_time"`
	Scheduled   scheduled `msgpack:"scheduled_requests"`
	Queued      queued    `msgpack:"queued_requests"`
	TimingScope string    `msgpack:"timing_scope,omitempty"`
}

type scheduled struct {
	PrefillRequests       int64   `msgpack:"num_prefill_requests"`
	PrefillTokens         int64   `msgpack:"sum_prefill_tokens"`
	PrefillLengthVariance float64 `msgpack:"var_prefill_length"`
	PrefillKVTokens       int64   `msgpack:"sum_prefill_kv_tokens"`
	DecodeRequests        int64   `msgpack:"num_decode_requests"`
	DecodeKVTokens        int64   `msgpack:"sum_decode_kv_tokens"`
	DecodeKVVariance      float64 `msgpack:"var_decode_kv_tokens"`
}

type queued struct {
	PrefillRequests       int64   `msgpack:"num_prefill_requests"`
	PrefillTokens         int64   `msgpack:"sum_prefill_tokens"`
	PrefillLengthVariance float64 `msgpack:"var_prefill_length"`
	DecodeRequests        int64   `msgpack:"num_decode_requests"`
	DecodeKVTokens        int64   `msgpack:"sum_decode_kv_tokens"`
	DecodeKVVariance      float64 `msgpack:"var_decode_kv_tokens"`
}

func (r *record) encode(t *testing.T) []byte {
	t.Helper()
	var payload bytes.Buffer
	encoder := msgpack.NewEncoder(&payload)
	encoder.UseCompactInts(true)
	require.NoError(t, encoder.Encode(r))
	return payload.Bytes()
}

// heartbeat is all zero.
func heartbeat(worker string) record { return record{Version: 1, WorkerID: worker} }

// busy is a mixed pass after which every gauge is greater than 0.
func busy(worker string, wallTime float64) record {
	r := heartbeat(worker)
	r.WallTime = wallTime
	r.Scheduled = scheduled{PrefillRequests: 1, PrefillTokens: 700, PrefillKVTokens: 800, DecodeRequests: 3, DecodeKVTokens: 4000}
	r.Queued = queued{PrefillRequests: 2, PrefillTokens: 900, DecodeRequests: 1, DecodeKVTokens: 500}
	return r
}

// gauges of a worker after busy.
var busyGauges = map[string]float64{
	`fpm_batch_kv_tokens{fpm_phase="prefill"}`: 800,
	`fpm_batch_kv_tokens{fpm_phase="decode"}`:  4000,
	`fpm_queue_requests{fpm_phase="prefill"}`:  2,
	`fpm_queue_requests{fpm_phase="decode"}`:   1,
	`fpm_queue_prefill_tokens{fpm_phase=""}`:   900,
	`fpm_queue_decode_kv_tokens{fpm_phase=""}`: 500,
}
