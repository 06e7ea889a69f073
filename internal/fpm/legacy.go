// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// appendLegacy re-encodes a valid legacy payload with the two keys that it lacks: version as the first, counter_id right
// after dp_rank. All else keeps its order and value, byte for byte (STR-80).
func appendLegacy(dst, payload []byte, counterID int64) []byte {
	c := NewCursor(payload)
	pairs := c.Next().Len
	dst = AppendMapHeader(dst, pairs+2)
	dst = AppendInt(AppendString(dst, keyVersion), payloadVersion)
	afterRank := skipThroughKey(c, keyDPRank)
	dst = append(dst, payload[c.pos:afterRank]...)
	dst = AppendInt(AppendString(dst, keyCounterID), counterID)
	return append(dst, payload[afterRank:]...)
}

// skipThroughKey finds the end of the first entry with that key, in the map whose first entry c stands at.
func skipThroughKey(c Cursor, key string) int {
	for {
		t := c.Next()
		c.Skip()
		if t.Kind == TokenEnd || string(t.Str) == key {
			return c.pos
		}
	}
}
