// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// moments accumulates count, sum and population variance (Welford) of lengths.
type moments struct {
	count int64
	sum   int64
	mean  float64
	m2    float64
}

func (m *moments) add(length int64) {
	m.count++
	m.sum += length
	x := float64(length)
	delta := x - m.mean
	m.mean += delta / float64(m.count)
	m.m2 += float64(delta * (x - m.mean)) // the conversion forbids a fused multiply-add
}

// variance is the population variance in tokens²; 0 of nothing.
func (m *moments) variance() float64 {
	if m.count == 0 {
		return 0
	}
	return m.m2 / float64(m.count)
}
