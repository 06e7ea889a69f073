// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"slices"
	"time"

	"github.com/lightstep/go-expohisto/structure"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// DefaultDurationBuckets are the bounds of fpm.forward_pass.duration, in seconds.
func DefaultDurationBuckets() []float64 {
	return []float64{
		.0005, .001, .002, .003, .005, .0075, .01, .0125, .015, .02, .025, .03, .04, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2, 5, 10, 30,
	}
}

var (
	batchRequestBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	batchTokenBuckets   = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
)

// bucketHistogram has fixed bounds, of which each is the highest value of its
// bucket.
type bucketHistogram struct {
	bounds []float64
	counts []uint64 // one more than bounds
	count  uint64
	sum    floatSum
}

func newBucketHistogram(bounds []float64) bucketHistogram {
	return bucketHistogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *bucketHistogram) bucket(value float64) int {
	at, _ := slices.BinarySearch(h.bounds, value)
	return at
}

func (h *bucketHistogram) record(value float64) {
	h.counts[h.bucket(value)]++
	h.count++
	h.sum.add(value)
}

func (h *bucketHistogram) copyTo(point pmetric.HistogramDataPoint) {
	point.SetCount(h.count)
	point.SetSum(h.sum.value())
	point.ExplicitBounds().FromRaw(h.bounds)
	point.BucketCounts().FromRaw(h.counts)
}

// copyEndTo says that there is no value. The point keeps its shape: remote write
// ends the series of the sum and of a bucket only when the point has them (STR-98).
func (h *bucketHistogram) copyEndTo(point pmetric.HistogramDataPoint) {
	point.SetFlags(noValue)
	point.SetSum(0)
	point.ExplicitBounds().FromRaw(h.bounds)
	point.BucketCounts().FromRaw(make([]uint64, len(h.counts)))
}

// exemplar is a span that was really emitted, for a recorded duration.
type exemplar struct {
	seconds float64
	end     time.Time
	traceID pcommon.TraceID
	spanID  pcommon.SpanID
}

func (e *exemplar) copyTo(into pmetric.Exemplar) {
	into.SetTimestamp(pcommon.NewTimestampFromTime(e.end))
	into.SetDoubleValue(e.seconds)
	into.SetTraceID(e.traceID)
	into.SetSpanID(e.spanID)
}

// durationHistogram is the distribution of pass durations, with fixed bounds or
// exponential, and the last exemplar of each bucket since it was emitted.
type durationHistogram struct {
	buckets     bucketHistogram
	exponential *structure.Histogram[float64] // when set, buckets holds count and sum only
	exemplars   map[int]exemplar              // by bucket; 0 for exponential
}

func newDurationHistogram(cfg *MetricsConfig) durationHistogram {
	if !cfg.Exponential {
		return durationHistogram{buckets: newBucketHistogram(cfg.Buckets)}
	}
	return durationHistogram{
		buckets:     newBucketHistogram(nil),
		exponential: structure.NewFloat64(structure.NewConfig()),
	}
}

func (h *durationHistogram) record(seconds float64) {
	h.buckets.record(seconds)
	if h.exponential != nil {
		h.exponential.Update(seconds)
	}
}

func (h *durationHistogram) offer(e exemplar) {
	if h.exemplars == nil {
		h.exemplars = make(map[int]exemplar, 1)
	}
	h.exemplars[h.buckets.bucket(e.seconds)] = e
}

// takeExemplars moves the exemplars into a point: each is shown once.
func (h *durationHistogram) takeExemplars(into pmetric.ExemplarSlice) {
	for _, e := range h.exemplars {
		e.copyTo(into.AppendEmpty())
	}
	clear(h.exemplars)
}

func (h *durationHistogram) copyTo(point pmetric.HistogramDataPoint) {
	h.buckets.copyTo(point)
	h.takeExemplars(point.Exemplars())
}

func (h *durationHistogram) copyExponentialTo(point pmetric.ExponentialHistogramDataPoint) {
	point.SetCount(h.buckets.count)
	point.SetSum(h.buckets.sum.value())
	point.SetZeroCount(h.exponential.ZeroCount())
	point.SetScale(h.exponential.Scale())
	positive := h.exponential.Positive()
	point.Positive().SetOffset(positive.Offset())
	counts := point.Positive().BucketCounts()
	counts.EnsureCapacity(int(positive.Len()))
	for i := range positive.Len() {
		counts.Append(positive.At(i))
	}
	h.takeExemplars(point.Exemplars())
}
