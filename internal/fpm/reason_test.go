// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReasons(t *testing.T) {
	words := []string{
		"oversize", "bad_frame_count", "bad_sequence_frame", "not_a_map", "truncated", "too_deep", "bad_key", "invalid_utf8",
		"trailing_bytes", "missing_field", "unsupported_version", "wrong_type", "out_of_range",
	}
	all := Reasons()
	require.Len(t, all, len(words))
	for i, r := range all {
		require.Equal(t, words[i], r.String())
		require.ErrorContains(t, r, words[i])
		require.ErrorIs(t, error(r), r)
	}
	require.Equal(t, "unknown", Reason(0).String())
	require.Equal(t, "unknown", Reason(200).String())
	require.NoError(t, Reason(0).orNil())
	require.Equal(t, ReasonBadKey, ReasonBadKey.orNil())
}
