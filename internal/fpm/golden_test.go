// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// goldenPayload is the payload that the documents and the trace file tests use too.
func goldenPayload(tb testing.TB) []byte {
	tb.Helper()
	return fpmtest.Golden()
}

// goldenView is what the golden payload says.
func goldenView() ForwardPass {
	return ForwardPass{
		WorkerID:  []byte("4192"),
		CounterID: 42,
		WallTime:  0.025,
		Scheduled: Scheduled{
			PrefillRequests: 2, PrefillTokens: 256, PrefillLengthVariance: 100, PrefillKVTokens: 64,
			DecodeRequests: 3, DecodeKVTokens: 1024, DecodeKVVariance: 50,
			HasPrefillLengthVariance: true, HasDecodeKVVariance: true,
		},
		Queued: Queued{
			PrefillRequests: 1, PrefillTokens: 128,
			HasPrefillLengthVariance: true, HasDecodeKVVariance: true,
		},
	}
}

func TestGoldenPayload(t *testing.T) {
	payload := goldenPayload(t)
	sum := sha256.Sum256(payload)
	require.Equal(t, "f9723f6be211bbeebf5fb3a28e259737d04843cfd50eed6bc738835692b0dead", hex.EncodeToString(sum[:]))

	var (
		d   Decoder
		got ForwardPass
	)
	require.NoError(t, d.Decode(payload, 42, &got))
	want := goldenView()
	want.payload, want.plain = payload, true
	require.Equal(t, want, got)
	require.Equal(t, payload, d.Raw(&got))
	require.Equal(t, payload, d.Canonical(&got))
	require.Same(t, &payload[0], &d.Canonical(&got)[0], "the canonical payload is no copy when nothing changes")
}

func TestAppendPayloadGivesGoldenBytes(t *testing.T) {
	view := goldenView()
	require.Equal(t, goldenPayload(t), AppendPayload(nil, &view))
}
