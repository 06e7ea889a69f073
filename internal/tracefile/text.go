// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

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
	clean := 0 // s[clean:i] needs no escape
	for i := range len(s) {
		escape := escapes[s[i]]
		if escape == 0 {
			continue
		}
		dst = append(dst, s[clean:i]...)
		dst = append(dst, '\\', escape)
		if escape == 'u' {
			dst = append(dst, '0', '0', hexDigits[s[i]>>4], hexDigits[s[i]&0xf])
		}
		clean = i + 1
	}
	dst = append(dst, s[clean:]...)
	return append(dst, '"')
}
