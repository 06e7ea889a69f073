// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"slices"
	"time"
)

// limit says how much a value may grow from the second quarter of a run to its
// last one. The first quarter is warm-up: connections, pools, the first windows.
type limit struct {
	name     string
	of       func(*sample) *float64
	share    float64 // of the earlier value
	absolute float64 // on top
	unit     float64 // for the report
}

const mebibyte = 1 << 20

var limits = []limit{
	{"resident memory (MiB)", func(s *sample) *float64 { return &s.RSS }, 0.10, 0, mebibyte},
	{"live heap (MiB)", func(s *sample) *float64 { return &s.LiveHeap }, 0.10, 0, mebibyte},
	{"goroutines", func(s *sample) *float64 { return &s.Goroutines }, 0.02, 10, 1},
	{"file descriptors", func(s *sample) *float64 { return &s.FDs }, 0.02, 10, 1},
	{"streams", func(s *sample) *float64 { return &s.Streams }, 0.10, 0, 1},
	{"trace files", func(s *sample) *float64 { return &s.Files }, 0.10, 0, 1},
	{"trace files (MiB)", func(s *sample) *float64 { return &s.FileBytes }, 0.10, 0, mebibyte},
}

// finding compares one value over a run.
type finding struct {
	limit
	before, after, highest float64 // medians of the quarters, and the peak
}

func (f *finding) flat() bool {
	return f.after <= f.before*(1+f.share)+f.absolute
}

// judge compares the second quarter with the last one by their medians.
func judge(samples []sample, length time.Duration) (findings []finding) {
	for _, l := range limits {
		f := finding{limit: l}
		f.before = median(valuesBetween(samples, l.of, length/4, length/2))
		f.after = median(valuesBetween(samples, l.of, length*3/4, length))
		if all := valuesBetween(samples, l.of, 0, length); len(all) > 0 {
			f.highest = slices.Max(all)
		}
		findings = append(findings, f)
	}
	return findings
}

// valuesBetween leaves out zeros: moments at which a value was not read.
func valuesBetween(samples []sample, of func(*sample) *float64, from, to time.Duration) (values []float64) {
	for i := range samples {
		s := &samples[i]
		if value := *of(s); s.At >= from && s.At <= to && value != 0 {
			values = append(values, value)
		}
	}
	return values
}

// median of nothing is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
