// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"encoding/binary"
	"math"
)

const (
	frameCount = 3 // topic, sequence, payload (STR-1)

	sequenceBytes         = 8
	sequenceIdentityBytes = 24 // newer streams carry an identity after the sequence (STR-4)
)

// ParseFrames judges the frames of one message (STR-1 to STR-7) and gives its sequence, which fits an int64, and a view of
// its payload. The payload itself is judged by [Decoder.Decode], also when it is empty. The error is a [Reason].
func ParseFrames(frames [][]byte) (seq uint64, payload []byte, err error) {
	if len(frames) != frameCount {
		return 0, nil, ReasonBadFrameCount
	}
	sequence := frames[1]
	if len(sequence) != sequenceBytes && len(sequence) != sequenceIdentityBytes {
		return 0, nil, ReasonBadSequenceFrame
	}
	seq = binary.BigEndian.Uint64(sequence)
	if seq > math.MaxInt64 {
		return 0, nil, ReasonBadSequenceFrame
	}
	return seq, frames[2], nil
}
