// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import "time"

// backoff gives growing pauses between attempts (FIL-46, FIL-54).
type backoff struct {
	least, most, last time.Duration
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.least), b.most)
	return b.last
}

func (b *backoff) reset() {
	b.last = 0
}
