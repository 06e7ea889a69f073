// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

// maxPeerText is the longest text of a peer in an error, in bytes (ZMQ-63).
const maxPeerText = 255

// EscapePeerText makes bytes of a peer fit for a log line: printable ASCII stays,
// everything else, quotes and backslashes become \xNN. A logger's own escaping is not
// enough: zap's leaves DEL, the C1 controls and the bidirectional overrides as they
// are, and a terminal obeys them. The result is cut to 255 bytes, never inside an
// escape.
func EscapePeerText(b []byte) string {
	out := make([]byte, 0, min(len(b), maxPeerText))
	for _, c := range b {
		before := len(out)
		out = appendEscaped(out, c)
		if len(out) > maxPeerText {
			return string(out[:before])
		}
	}
	return string(out)
}

func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	if c < ' ' || c > '~' || c == '"' || c == '\\' {
		return append(dst, '\\', 'x', hex[c>>4], hex[c&15])
	}
	return append(dst, c)
}
