// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import "math"

// AddSaturating adds two totals that are not negative and stops at 2^63-1
// instead of wrapping (STR-71).
func AddSaturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
