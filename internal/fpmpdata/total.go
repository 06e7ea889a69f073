// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import "math"

// floatSum adds up many small numbers without losing them to the size of the
// total (Neumaier), so that sums stay exact over months of passes.
type floatSum struct{ sum, lost float64 }

func (s *floatSum) add(value float64) {
	sum := s.sum + value
	if math.Abs(s.sum) >= math.Abs(value) {
		s.lost += (s.sum - sum) + value
	} else {
		s.lost += (value - sum) + s.sum
	}
	s.sum = sum
}

func (s *floatSum) value() float64 { return s.sum + s.lost }
