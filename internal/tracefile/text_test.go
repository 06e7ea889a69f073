// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestROW_18_Escapes(t *testing.T) {
	t.Parallel()
	short := map[byte]string{
		'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`,
	}
	for c := range byte(0x80) {
		want := string(rune(c))
		if s, ok := short[c]; ok {
			want = s
		} else if c < 0x20 {
			want = fmt.Sprintf(`\u%04x`, c)
		}
		require.Equal(t, `"`+want+`"`, string(appendText(nil, string(rune(c)))))
		require.Equal(t, `"a`+want+want+`z"`, string(appendText(nil, []byte{'a', c, c, 'z'})))
	}
}

func TestROW_18_EverythingElseIsRaw(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "/<>&'", "\x7f", "\u2028\u2029", "wörk", "日本", "\U0001f600", "\ufeff\uffff"} {
		require.Equal(t, `"`+s+`"`, string(appendText(nil, s)))
	}
	require.Equal(t, "\"wörk/er:\\n\\\"x\xe2\x80\xa8\"", string(appendText(nil, "wörk/er:\n\"x\u2028")))
	require.Equal(t, `"\u001b"`, string(appendText(nil, "\x1b")))
}

// TestROW_18_EveryPosition: text is looked at eight bytes at a time.
func TestROW_18_EveryPosition(t *testing.T) {
	t.Parallel()
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				s := []byte(strings.Repeat("~", length))
				s[at] = byte(c)
				require.Equal(t, escapes[c] == 0, isPlain(s))
				if c < 0x80 {
					var back string
					require.NoError(t, json.Unmarshal(appendText(nil, s), &back))
					require.Equal(t, string(s), back)
				}
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("wörk/er:\n\"x\u2028\x1b\x00\\")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		var back string
		require.NoError(t, json.Unmarshal(appendText(nil, s), &back))
		require.Equal(t, s, back)
	})
}
