// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// payload is a published record in the names of the wire table, read by the
// standard library from the JSON that Python computed.
type payload struct {
	WorkerID    string   `json:"worker_id"`
	DPRank      int64    `json:"dp_rank"`
	CounterID   int64    `json:"counter_id"`
	WallTime    float64  `json:"wall_time"`
	TimingScope *string  `json:"timing_scope"`
	Scheduled   requests `json:"scheduled_requests"`
	Queued      requests `json:"queued_requests"`
}

type requests struct {
	PrefillRequests       int64    `json:"num_prefill_requests"`
	PrefillTokens         int64    `json:"sum_prefill_tokens"`
	PrefillLengthVariance *float64 `json:"var_prefill_length"`
	PrefillKVTokens       int64    `json:"sum_prefill_kv_tokens"`
	DecodeRequests        int64    `json:"num_decode_requests"`
	DecodeKVTokens        int64    `json:"sum_decode_kv_tokens"`
	DecodeKVVariance      *float64 `json:"var_decode_kv_tokens"`
}

// stream tells the streams of one test apart.
type stream struct {
	worker string
	rank   int64
}

// published gives the payloads of each stream in the order of their sending.
func published(t *testing.T, publisher *harness.Publisher) map[stream][]payload {
	t.Helper()
	streams := map[stream][]payload{}
	for _, sent := range publisher.Sent() {
		var p payload
		require.NoError(t, json.NewDecoder(strings.NewReader(sent.FPM)).Decode(&p), sent.FPM)
		id := stream{p.WorkerID, p.DPRank}
		streams[id] = append(streams[id], p)
	}
	return streams
}

// timed tells whether the record becomes a span (STR-63a).
func (p *payload) timed() bool { return p.WallTime > 0 && p.WallTime <= 24*60*60 }

// kind is STR-96.
func (p *payload) kind() string {
	switch prefill, decode := p.Scheduled.PrefillRequests > 0, p.Scheduled.DecodeRequests > 0; {
	case prefill && decode:
		return "mixed"
	case prefill:
		return "prefill"
	case decode:
		return "decode"
	default:
		return "empty"
	}
}

// duration is wall_time to the nearest nanosecond, in exact arithmetic.
func (p *payload) duration() time.Duration {
	exact := new(big.Rat).SetFloat64(p.WallTime)
	exact.Mul(exact, big.NewRat(int64(time.Second), 1))
	exact.Add(exact, big.NewRat(1, 2))
	return time.Duration(new(big.Int).Quo(exact.Num(), exact.Denom()).Int64())
}

// attributes are those of the pass's span, without its place.
func (p *payload) attributes() map[string]any {
	attributes := map[string]any{
		"fpm.dp_rank": p.DPRank, "fpm.counter_id": p.CounterID, "fpm.pass.kind": p.kind(),
		"fpm.scheduled.prefill_requests":  p.Scheduled.PrefillRequests,
		"fpm.scheduled.prefill_tokens":    p.Scheduled.PrefillTokens,
		"fpm.scheduled.prefill_kv_tokens": p.Scheduled.PrefillKVTokens,
		"fpm.scheduled.decode_requests":   p.Scheduled.DecodeRequests,
		"fpm.scheduled.decode_kv_tokens":  p.Scheduled.DecodeKVTokens,
		"fpm.queued.prefill_requests":     p.Queued.PrefillRequests,
		"fpm.queued.prefill_tokens":       p.Queued.PrefillTokens,
		"fpm.queued.decode_requests":      p.Queued.DecodeRequests,
		"fpm.queued.decode_kv_tokens":     p.Queued.DecodeKVTokens,
	}
	for name, value := range map[string]*float64{
		"fpm.scheduled.prefill_length_variance":   p.Scheduled.PrefillLengthVariance,
		"fpm.scheduled.decode_kv_tokens_variance": p.Scheduled.DecodeKVVariance,
		"fpm.queued.prefill_length_variance":      p.Queued.PrefillLengthVariance,
		"fpm.queued.decode_kv_tokens_variance":    p.Queued.DecodeKVVariance,
	} {
		if value != nil {
			attributes[name] = *value
		}
	}
	if p.TimingScope != nil {
		attributes["fpm.timing_scope"] = *p.TimingScope
	}
	return attributes
}
