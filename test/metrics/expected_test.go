// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

// expected is what Prometheus must have stored, by series: the sums over what was
// sent, added up one record at a time by the words of the specification.
type expected map[string]float64

// labels without those that all series of a worker share.
type labels map[string]string

func (e expected) add(name string, of labels, value float64) { e[seriesKey(name, of)] += value }

func (e expected) set(name string, of labels, value float64) { e[seriesKey(name, of)] = value }

// seriesKey is the series in the text format, its labels in order, le in the
// shortest form.
func seriesKey(name string, of labels) string {
	var parts []string
	for _, label := range slices.Sorted(maps.Keys(of)) {
		value := of[label]
		if bound, err := strconv.ParseFloat(value, 64); label == "le" && err == nil {
			value = strconv.FormatFloat(bound, 'g', -1, 64)
		}
		parts = append(parts, fmt.Sprintf("%s=%q", label, value))
	}
	return name + "{" + strings.Join(parts, ",") + "}"
}

// with is a copy of labels and one more; an empty value adds none.
func (l labels) with(label, value string) labels {
	extended := maps.Clone(l)
	if value != "" {
		extended[label] = value
	}
	return extended
}

var (
	durationBounds = []float64{
		.0005, .001, .002, .003, .005, .0075, .01, .0125, .015, .02, .025, .03, .04, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2, 5, 10, 30,
	}
	requestBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	tokenBounds   = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	recordKinds   = []string{"pass", "untimed", "heartbeat", "queue_only"}
	passKinds     = []string{"prefill", "decode", "mixed", "empty"}
	phases        = []string{"prefill", "decode"}
)

// emptyHistogram begins a histogram at 0.
func (e expected) emptyHistogram(name string, of labels, bounds []float64) {
	for _, bound := range append(slices.Clone(bounds), math.Inf(1)) {
		e.set(name+"_bucket", of.with("le", strconv.FormatFloat(bound, 'g', -1, 64)), 0)
	}
	e.set(name+"_sum", of, 0)
	e.set(name+"_count", of, 0)
}

func (e expected) observe(name string, of labels, bounds []float64, value float64) {
	for _, bound := range append(slices.Clone(bounds), math.Inf(1)) {
		if value <= bound {
			e.add(name+"_bucket", of.with("le", strconv.FormatFloat(bound, 'g', -1, 64)), 1)
		}
	}
	e.add(name+"_sum", of, value)
	e.add(name+"_count", of, 1)
}

// begin adds the series that a stream has from its first emission on.
func (e expected) begin(of labels) {
	for _, kind := range recordKinds {
		e.set("fpm_records_total", of.with("fpm_record_kind", kind), 0)
	}
	for _, kind := range passKinds {
		e.set("fpm_forward_passes_total", of.with("fpm_pass_kind", kind), 0)
		e.set("fpm_forward_passes_untimed_total", of.with("fpm_pass_kind", kind), 0)
	}
	for _, phase := range phases {
		e.set("fpm_request_steps_total", of.with("fpm_phase", phase), 0)
		e.set("fpm_kv_read_tokens_total", of.with("fpm_phase", phase), 0)
		e.emptyHistogram("fpm_batch_requests", of.with("fpm_phase", phase), requestBounds)
		e.set("fpm_batch_kv_tokens", of.with("fpm_phase", phase), 0)
		e.set("fpm_queue_requests", of.with("fpm_phase", phase), 0)
	}
	e.emptyHistogram("fpm_batch_tokens", of, tokenBounds)
	for _, name := range []string{
		"fpm_records_missing_total", "fpm_prefill_tokens_total", "fpm_queue_prefill_tokens", "fpm_queue_decode_kv_tokens",
	} {
		e.set(name, of, 0)
	}
}

// scope adds the series of a timing scope, once.
func (e expected) scope(of labels, scope string) {
	of = of.with("fpm_timing_scope", scope)
	if _, known := e[seriesKey("fpm_forward_pass_time_seconds_total", of.with("fpm_pass_kind", "empty"))]; known {
		return
	}
	for _, kind := range passKinds {
		e.set("fpm_forward_pass_time_seconds_total", of.with("fpm_pass_kind", kind), 0)
		e.emptyHistogram("fpm_forward_pass_duration_seconds", of.with("fpm_pass_kind", kind), durationBounds)
	}
}

// fold adds one record that is no duplicate. No heartbeat finds the stream idle.
func (e expected) fold(of labels, r *record, missing uint64) {
	e.scope(of, r.TimingScope)
	kind := r.kind()
	e.add("fpm_records_total", of.with("fpm_record_kind", kind), 1)
	e.add("fpm_records_missing_total", of, float64(missing))
	switch kind {
	case "pass":
		timed := of.with("fpm_pass_kind", r.passKind()).with("fpm_timing_scope", r.TimingScope)
		e.add("fpm_forward_pass_time_seconds_total", timed, r.WallTime)
		e.observe("fpm_forward_pass_duration_seconds", timed, durationBounds, r.WallTime)
		e.foldWork(of, r)
	case "untimed":
		e.add("fpm_forward_passes_untimed_total", of.with("fpm_pass_kind", r.passKind()), 1)
		e.foldWork(of, r)
	case "queue_only":
		e.setQueue(of, &r.Queued)
	}
}

func (e expected) foldWork(of labels, r *record) {
	e.add("fpm_forward_passes_total", of.with("fpm_pass_kind", r.passKind()), 1)
	e.add("fpm_prefill_tokens_total", of, float64(r.Scheduled.PrefillTokens))
	e.foldPhase(of.with("fpm_phase", "prefill"), r.Scheduled.PrefillRequests, r.Scheduled.PrefillKVTokens)
	e.foldPhase(of.with("fpm_phase", "decode"), r.Scheduled.DecodeRequests, r.Scheduled.DecodeKVTokens)
	e.observe("fpm_batch_tokens", of, tokenBounds, float64(r.Scheduled.PrefillTokens+r.Scheduled.DecodeRequests))
	e.setQueue(of, &r.Queued)
}

func (e expected) foldPhase(of labels, requests, kv int64) {
	e.add("fpm_request_steps_total", of, float64(requests))
	e.add("fpm_kv_read_tokens_total", of, float64(kv))
	e.set("fpm_batch_kv_tokens", of, float64(kv))
	if requests > 0 {
		e.observe("fpm_batch_requests", of, requestBounds, float64(requests))
	}
}

func (e expected) setQueue(of labels, q *queued) {
	e.set("fpm_queue_requests", of.with("fpm_phase", "prefill"), float64(q.PrefillRequests))
	e.set("fpm_queue_requests", of.with("fpm_phase", "decode"), float64(q.DecodeRequests))
	e.set("fpm_queue_prefill_tokens", of, float64(q.PrefillTokens))
	e.set("fpm_queue_decode_kv_tokens", of, float64(q.DecodeKVTokens))
}

// kind is that of STR-63.
func (r *record) kind() string {
	s, q := r.Scheduled, r.Queued
	scheduled := s.PrefillRequests+s.PrefillTokens+s.PrefillKVTokens+s.DecodeRequests+s.DecodeKVTokens > 0
	waiting := q.PrefillRequests+q.PrefillTokens+q.DecodeRequests+q.DecodeKVTokens > 0
	switch {
	case r.WallTime > 86400 || (r.WallTime == 0 && scheduled):
		return "untimed"
	case r.WallTime > 0:
		return "pass"
	case waiting:
		return "queue_only"
	default:
		return "heartbeat"
	}
}

// passKind is that of STR-96.
func (r *record) passKind() string {
	prefill, decode := r.Scheduled.PrefillRequests > 0, r.Scheduled.DecodeRequests > 0
	switch {
	case prefill && decode:
		return "mixed"
	case prefill:
		return "prefill"
	case decode:
		return "decode"
	default:
		return "empty"
	}
}

// differences between what must be stored and what is. Sums of times are equal
// within 1e-9, everything else exactly.
func (e expected) differences(stored []promtest.Series) (all []string) {
	left := maps.Clone(e)
	for _, series := range stored {
		key := seriesKey(series.Name, series.Labels)
		want, known := left[key]
		switch {
		case !known:
			all = append(all, "not expected: "+key)
		case !equal(series.Name, want, series.Last()):
			all = append(all, fmt.Sprintf("%s is %v, not %v", key, series.Last(), want))
		}
		delete(left, key)
	}
	for key, want := range left {
		all = append(all, fmt.Sprintf("%s is absent, not %v", key, want))
	}
	slices.Sort(all)
	return all
}

func equal(name string, want, got float64) bool {
	if name == "fpm_forward_pass_time_seconds_total" || name == "fpm_forward_pass_duration_seconds_sum" {
		return math.Abs(want-got) <= 1e-9*math.Abs(want)
	}
	return want == got
}
