// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseFrames(t *testing.T) {
	const payload = "payload"
	number := func(s string) string {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return string(b)
	}
	tests := []struct {
		name   string
		frames []string
		seq    uint64
		err    error
	}{
		{"STR-3 golden message", []string{"", number("000000000000002a"), payload}, 42, nil},
		{"STR-2 any topic", []string{"fpm", number("000000000000002a"), payload}, 42, nil},
		{"STR-4 identity after the sequence", []string{"", number("000000000000002a") + string(bytes.Repeat([]byte{0xff}, 16)), payload}, 42, nil},
		{"STR-5 largest sequence", []string{"", number("7fffffffffffffff"), payload}, math.MaxInt64, nil},
		{"STR-5 sequence above 2^63-1", []string{"", number("8000000000000000"), payload}, 0, ReasonBadSequenceFrame},
		{"STR-5 with identity", []string{"", number("8000000000000000") + string(make([]byte, 16)), payload}, 0, ReasonBadSequenceFrame},
		{"STR-7 empty sequence before empty payload", []string{"", "", ""}, 0, ReasonBadSequenceFrame},
		{"STR-1 no frame", nil, 0, ReasonBadFrameCount},
		{"STR-1 payload alone", []string{payload}, 0, ReasonBadFrameCount},
		{"STR-1 no topic", []string{number("000000000000002a"), payload}, 0, ReasonBadFrameCount},
		{"STR-1 frame after the payload", []string{"", number("000000000000002a"), payload, ""}, 0, ReasonBadFrameCount},
		{"STR-7 frame count before sequence", []string{"", "2a", payload, ""}, 0, ReasonBadFrameCount},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var frames [][]byte
			for _, f := range tt.frames {
				frames = append(frames, []byte(f))
			}
			seq, got, err := ParseFrames(frames)
			require.Equal(t, tt.err, err)
			require.Equal(t, tt.seq, seq)
			if err == nil {
				require.Equal(t, payload, string(got))
			}
		})
	}
	for length := range 41 {
		_, _, err := ParseFrames([][]byte{nil, make([]byte, length), []byte(payload)})
		if length == 8 || length == 24 {
			require.NoError(t, err, "STR-4, %d bytes", length)
		} else {
			require.Equal(t, ReasonBadSequenceFrame, err, "STR-4, %d bytes", length)
		}
	}
}

func TestParseFramesLeavesPayloadToDecode_STR6(t *testing.T) {
	_, payload, err := ParseFrames([][]byte{{}, {0, 0, 0, 0, 0, 0, 0, 42}, {}})
	require.NoError(t, err)
	requireReason(t, ReasonTruncated, payload)
}
