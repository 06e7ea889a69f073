// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordKind(t *testing.T) {
	work, waiting := Scheduled{DecodeKVTokens: 1}, Queued{PrefillTokens: 1}
	for name, tt := range map[string]struct {
		pass ForwardPass
		want RecordKind
	}{
		"STR-63a timed":                   {ForwardPass{WallTime: 0.02, Scheduled: work}, RecordPass},
		"STR-63a timed, nothing ran":      {ForwardPass{WallTime: 5e-324}, RecordPass},
		"STR-63a exactly a day":           {ForwardPass{WallTime: 86400}, RecordPass},
		"STR-63b heartbeat":               {ForwardPass{}, RecordHeartbeat},
		"STR-63b minus zero":              {ForwardPass{WallTime: math.Copysign(0, -1)}, RecordHeartbeat},
		"STR-63b variances play no part":  {ForwardPass{Scheduled: Scheduled{DecodeKVVariance: 1}, Queued: Queued{DecodeKVVariance: 1}}, RecordHeartbeat},
		"STR-63c work without time":       {ForwardPass{Scheduled: work, Queued: waiting}, RecordUntimed},
		"STR-63c over a day":              {ForwardPass{WallTime: 86400.001, Scheduled: work}, RecordUntimed},
		"STR-63c over a day, nothing ran": {ForwardPass{WallTime: 1e100}, RecordUntimed},
		"STR-63d queue only":              {ForwardPass{Queued: waiting}, RecordQueueOnly},
		"scheduled prefill requests":      {ForwardPass{Scheduled: Scheduled{PrefillRequests: 1}}, RecordUntimed},
		"scheduled prefill tokens":        {ForwardPass{Scheduled: Scheduled{PrefillTokens: 1}}, RecordUntimed},
		"scheduled prefill KV tokens":     {ForwardPass{Scheduled: Scheduled{PrefillKVTokens: 1}}, RecordUntimed},
		"scheduled decode requests":       {ForwardPass{Scheduled: Scheduled{DecodeRequests: 1}}, RecordUntimed},
		"queued prefill requests":         {ForwardPass{Queued: Queued{PrefillRequests: 1}}, RecordQueueOnly},
		"queued decode requests":          {ForwardPass{Queued: Queued{DecodeRequests: 1}}, RecordQueueOnly},
		"queued decode KV tokens":         {ForwardPass{Queued: Queued{DecodeKVTokens: 1}}, RecordQueueOnly},
	} {
		require.Equal(t, tt.want, tt.pass.RecordKind(), name)
	}
	for kind, word := range map[RecordKind]string{
		RecordPass: "pass", RecordUntimed: "untimed", RecordHeartbeat: "heartbeat", RecordQueueOnly: "queue_only", 99: "unknown",
	} {
		require.Equal(t, word, kind.String())
	}
}

func TestPassKind_STR96(t *testing.T) {
	for name, tt := range map[string]struct {
		scheduled Scheduled
		want      PassKind
	}{
		"prefill":             {Scheduled{PrefillRequests: 1}, PassPrefill},
		"decode":              {Scheduled{DecodeRequests: 1}, PassDecode},
		"mixed":               {Scheduled{PrefillRequests: 1, DecodeRequests: 2}, PassMixed},
		"empty":               {Scheduled{}, PassEmpty},
		"sums play no part":   {Scheduled{PrefillTokens: 5, DecodeKVTokens: 5, PrefillKVTokens: 5}, PassEmpty},
		"prefill, decode sum": {Scheduled{PrefillRequests: 1, DecodeKVTokens: 5}, PassPrefill},
	} {
		p := ForwardPass{Scheduled: tt.scheduled}
		require.Equal(t, tt.want, p.PassKind(), name)
	}
	for kind, word := range map[PassKind]string{
		PassPrefill: "prefill", PassDecode: "decode", PassMixed: "mixed", PassEmpty: "empty", 99: "unknown",
	} {
		require.Equal(t, word, kind.String())
	}
}
