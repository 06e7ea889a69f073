// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import "encoding/binary"

const hexDigits = "0123456789abcdef"

// escapes holds what stands after the backslash of a byte that has to be escaped, 'u' for the long form (ROW-18).
var escapes = func() (table [256]byte) {
	for c := range 0x20 {
		table[c] = 'u'
	}
	table['\b'], table['\t'], table['\n'], table['\f'], table['\r'] = 'b', 't', 'n', 'f', 'r'
	table['"'], table['\\'] = '"', '\\'
	return table
}()

// appendText writes s as a JSON string. Only quotes, backslashes and control characters are escaped, all else goes through
// as it is, so s has to be valid UTF-8 for the row to be (the decoder sees to it).
func appendText[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := len(dst)
	dst = append(dst, s...)
	if !isPlain(dst[start:]) {
		dst = appendEscaped(dst[:start], s)
	}
	return append(dst, '"')
}

func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	plain := 0 // s[plain:i] needs no escape
	for i := range len(s) {
		escape := escapes[s[i]]
		if escape == 0 {
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = append(dst, '\\', escape)
		if escape == 'u' {
			dst = append(dst, '0', '0', hexDigits[s[i]>>4], hexDigits[s[i]&0xf])
		}
		plain = i + 1
	}
	return append(dst, s[plain:]...)
}

// Eight bytes at a time: the lowest bits, the highest bits, and the bytes to look for.
const (
	eachByte    = 0x0101010101010101
	highBits    = 0x80 * eachByte
	quotes      = '"' * eachByte
	backslashes = '\\' * eachByte
	spaces      = ' ' * eachByte
)

// isPlain says whether nothing in s has to be escaped. Keys and most values are, and this is most of the work of a row.
func isPlain(s []byte) bool {
	for len(s) >= 8 {
		x := binary.LittleEndian.Uint64(s)
		q, b := x^quotes, x^backslashes
		if ((x-spaces)&^x|(q-eachByte)&^q|(b-eachByte)&^b)&highBits != 0 {
			return false
		}
		s = s[8:]
	}
	for _, c := range s {
		if escapes[c] != 0 {
			return false
		}
	}
	return true
}
