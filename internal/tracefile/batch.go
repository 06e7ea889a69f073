// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

// batch gathers rows that will be one member. Its buffer is taken with the first row and given back by reset.
type batch struct {
	rows       int
	duplicates int // rows that were left out and are settled together with the batch
	raw        []byte
}

func (b *batch) empty() bool {
	return b.rows == 0
}

func (b *batch) bytes() int64 {
	return int64(len(b.raw))
}

func (b *batch) add(head, tail []byte) {
	if b.raw == nil {
		b.raw = takeBuffer()
	}
	b.raw = append(append(b.raw, head...), tail...)
	b.rows++
}

func (b *batch) reset() {
	giveBuffer(b.raw)
	*b = batch{}
}

// mustRoll says whether a segment of so many rows and bytes can't take another row of rowBytes (FIL-21). A row that is
// larger than any segment gets one of its own (FIL-23).
func mustRoll(rows int, segmentBytes, rowBytes, rollBytes int64) bool {
	return rows > 0 && segmentBytes+rowBytes > rollBytes
}
