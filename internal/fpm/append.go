// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"encoding/binary"
	"math"
)

// The Append functions add one msgpack value to dst, in the shortest form that holds it, and return the extended slice.
// Lengths above 2^32-1 can't be encoded; nothing here comes near them.

// AppendMapHeader starts a map of n pairs.
func AppendMapHeader(dst []byte, n int) []byte {
	return appendContainerHeader(dst, n, markFixMap, markMap16, markMap32)
}

// AppendArrayHeader starts an array of n elements.
func AppendArrayHeader(dst []byte, n int) []byte {
	return appendContainerHeader(dst, n, markFixArray, markArray16, markArray32)
}

func appendContainerHeader(dst []byte, n int, fix, mark16, mark32 byte) []byte {
	switch {
	case n <= fixLengthBits:
		return append(dst, fix|byte(n)) //nolint:gosec // at most 15
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, mark16), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(dst, mark32), uint32(n)) //nolint:gosec // see above
	}
}

// AppendString adds a string.
func AppendString(dst []byte, s string) []byte {
	return append(appendStringHeader(dst, len(s)), s...)
}

func appendStringBytes(dst, s []byte) []byte {
	return append(appendStringHeader(dst, len(s)), s...)
}

func appendStringHeader(dst []byte, n int) []byte {
	switch {
	case n <= fixStrLengthBits:
		return append(dst, markFixStr|byte(n)) //nolint:gosec // at most 31
	case n <= math.MaxUint8:
		return append(dst, markStr8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, markStr16), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(dst, markStr32), uint32(n)) //nolint:gosec // see above
	}
}

// AppendBinary adds raw bytes.
func AppendBinary(dst, b []byte) []byte {
	switch n := len(b); {
	case n <= math.MaxUint8:
		dst = append(dst, markBin8, byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, markBin16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, markBin32), uint32(n)) //nolint:gosec // see above
	}
	return append(dst, b...)
}

// AppendInt adds an integer; one that isn't negative takes an unsigned form, as producers write it (STR-29).
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v)) //nolint:gosec // two's complement
	case v >= math.MinInt8:
		return append(dst, markInt8, byte(v)) //nolint:gosec // two's complement
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, markInt16), uint16(v)) //nolint:gosec // two's complement
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, markInt32), uint32(v)) //nolint:gosec // two's complement
	default:
		return binary.BigEndian.AppendUint64(append(dst, markInt64), uint64(v)) //nolint:gosec // two's complement
	}
}

// AppendUint adds an unsigned integer.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v <= markFixIntMax:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, markUint8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, markUint16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, markUint32), uint32(v))
	default:
		return binary.BigEndian.AppendUint64(append(dst, markUint64), v)
	}
}

// AppendFloat adds a float64, which is the only width that producers write (STR-29).
func AppendFloat(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, markFloat64), math.Float64bits(v))
}

// AppendBool adds true or false.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, markTrue)
	}
	return append(dst, markFalse)
}

// AppendNil adds nil.
func AppendNil(dst []byte) []byte {
	return append(dst, markNil)
}
