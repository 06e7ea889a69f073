// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// The msgpack markers. A fix form holds its value or length in the low bits of the marker.
const (
	markFixIntMax   = 0x7f
	markFixMap      = 0x80 // 4 bits of length
	markFixMapMax   = 0x8f
	markFixArray    = 0x90 // 4 bits of length
	markFixArrayMax = 0x9f
	markFixStr      = 0xa0 // 5 bits of length
	markFixStrMax   = 0xbf
	markNil         = 0xc0
	markNever       = 0xc1 // starts no value
	markFalse       = 0xc2
	markTrue        = 0xc3
	markBin8        = 0xc4
	markBin16       = 0xc5
	markBin32       = 0xc6
	markExt8        = 0xc7
	markExt16       = 0xc8
	markExt32       = 0xc9
	markFloat32     = 0xca
	markFloat64     = 0xcb
	markUint8       = 0xcc
	markUint16      = 0xcd
	markUint32      = 0xce
	markUint64      = 0xcf
	markInt8        = 0xd0
	markInt16       = 0xd1
	markInt32       = 0xd2
	markInt64       = 0xd3
	markFixExt1     = 0xd4
	markFixExt2     = 0xd5
	markFixExt4     = 0xd6
	markFixExt8     = 0xd7
	markFixExt16    = 0xd8
	markStr8        = 0xd9
	markStr16       = 0xda
	markStr32       = 0xdb
	markArray16     = 0xdc
	markArray32     = 0xdd
	markMap16       = 0xde
	markMap32       = 0xdf
	markNegFixInt   = 0xe0 // and above

	fixLengthBits    = 0x0f // of a map or an array
	fixStrLengthBits = 0x1f
)
