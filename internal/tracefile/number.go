// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"math"
	"slices"
	"strconv"
)

// Powers of ten between which floats are written without an exponent (ROW-13), and the greatest magnitude below which
// every float64 without a fraction is exactly its integer digits.
const (
	minPlainFloat   = 1e-5
	maxPlainFloat   = 1e16
	maxIntegerFloat = 1 << 53
)

// appendFloat writes f as Dynamo's serde_json does (ROW-13, ROW-14): shortest digits that read back to the same float64,
// always with a point or an exponent. NaN and infinities, which JSON has no words for, become null (ROW-16).
func appendFloat(dst []byte, f float64) []byte {
	magnitude := math.Abs(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, "null"...)
	case magnitude < maxIntegerFloat && magnitude == math.Trunc(magnitude):
		return appendIntegerFloat(dst, f, magnitude)
	case magnitude >= minPlainFloat && magnitude < maxPlainFloat:
		return appendPlainFloat(dst, f)
	default:
		return appendExponentFloat(dst, f)
	}
}

func appendIntegerFloat(dst []byte, f, magnitude float64) []byte {
	if math.Signbit(f) {
		dst = append(dst, '-') // also of negative zero, which an integer can't carry
	}
	return append(strconv.AppendUint(dst, uint64(magnitude), 10), ".0"...)
}

func appendPlainFloat(dst []byte, f float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if slices.Contains(dst[start:], '.') {
		return dst
	}
	return append(dst, ".0"...)
}

// appendExponentFloat turns strconv's 1.25e-07 and 1e+21 into 1.25e-7 and 1e21.
func appendExponentFloat(dst []byte, f float64) []byte {
	var scratch [32]byte
	text := strconv.AppendFloat(scratch[:0], f, 'e', -1, 64)
	e := len(text) - 1
	for text[e] != 'e' {
		e--
	}
	dst = append(dst, text[:e+1]...)
	if text[e+1] == '-' {
		dst = append(dst, '-')
	}
	exponent := text[e+2:]
	if exponent[0] == '0' {
		exponent = exponent[1:]
	}
	return append(dst, exponent...)
}
