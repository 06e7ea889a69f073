// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestHugeCountsSaturate_STR71: totals stop at 2^63-1, whatever is sent.
func TestHugeCountsSaturate_STR71(t *testing.T) {
	s := newStage(t, setup{})
	server := s.prometheus()
	huge := busy("w", 0.5)
	huge.Scheduled = scheduled{
		PrefillRequests: math.MaxInt64, PrefillTokens: math.MaxInt64, PrefillKVTokens: math.MaxInt64,
		DecodeRequests: math.MaxInt64, DecodeKVTokens: math.MaxInt64,
	}
	huge.Queued = queued{
		PrefillRequests: math.MaxInt64, PrefillTokens: math.MaxInt64, DecodeRequests: math.MaxInt64, DecodeKVTokens: math.MaxInt64,
	}
	s.sendAs(0, 0, huge)
	s.sendAs(0, 1<<63-1, huge) // 2^63-2 missing
	s.sendAs(0, 0, huge)
	s.sendAs(0, 1<<63-1, huge) // and again
	s.waitStored(server, `sum(fpm_forward_passes_total)`, 4)
	for _, expression := range []string{
		`fpm_prefill_tokens_total`, `fpm_records_missing_total`,
		`fpm_request_steps_total{fpm_phase="prefill"}`, `fpm_request_steps_total{fpm_phase="decode"}`,
		`fpm_kv_read_tokens_total{fpm_phase="prefill"}`, `fpm_kv_read_tokens_total{fpm_phase="decode"}`,
		`fpm_batch_kv_tokens{fpm_phase="prefill"}`, `fpm_queue_requests{fpm_phase="decode"}`, `fpm_queue_prefill_tokens`,
	} {
		s.waitStored(server, expression, math.MaxInt64)
	}
	// Prefill tokens and decode requests of one pass saturate too.
	s.waitStored(server, `fpm_batch_tokens_sum`, 4*math.MaxInt64)
	s.waitStored(server, `fpm_batch_tokens_bucket{le="+Inf"}`, 4)
	s.waitStored(server, `sum(fpm_batch_tokens_bucket{le!="+Inf"})`, 0)
	requireMonotonic(t, server)
}

// TestUntimedPasses_FR15: work without a time, and times over 24 h, are counted
// and never timed. 24 h exactly is a time.
func TestUntimedPasses_FR15(t *testing.T) {
	s := newStage(t, setup{})
	for _, wallTime := range []float64{86400, math.Nextafter(86400, math.Inf(1)), 1e300, 0} {
		s.send(0, busy("w", wallTime))
	}
	s.waitFor("fpm_forward_passes", harness.Labels{"fpm_pass_kind": "mixed"}, 4)
	samples := s.scrape()
	requireValue(t, samples, "fpm_forward_passes_untimed", harness.Labels{"fpm_pass_kind": "mixed"}, 3)
	requireValue(t, samples, "fpm_records", harness.Labels{"fpm_record_kind": "untimed"}, 3)
	requireValue(t, samples, "fpm_records", harness.Labels{"fpm_record_kind": "pass"}, 1)
	mixed := harness.Labels{"fpm_pass_kind": "mixed", "fpm_timing_scope": ""}
	requireValue(t, samples, "fpm_forward_pass_duration_seconds_count", mixed, 1)
	requireValue(t, samples, "fpm_forward_pass_duration_seconds_sum", mixed, 86400)
	requireValue(t, samples, "fpm_forward_pass_time_seconds", mixed, 86400)
	requireValue(t, samples, "fpm_request_steps", harness.Labels{"fpm_phase": "decode"}, 12)
}

// TestEndlessWorkers_FR19 lets 20,000 workers come and go while nobody scrapes.
// Memory follows those that live (max_streams), not those that lived; in the end
// none has a series.
func TestEndlessWorkers_FR19(t *testing.T) {
	const warmUp, all, perLook = 5000, 20_000, 500
	const allowed = 64 << 20 // one leaked label set and histogram of each would take more
	s := newStage(t, setup{metrics: "stale_after: 1s", receiver: "max_streams: 100"})
	settled, peak := int64(0), int64(0)
	for i := range all {
		s.send(0, busy(fmt.Sprintf("worker-with-quite-a-long-name-%d", i), 0.02))
		if i%perLook != perLook-1 {
			continue
		}
		s.arrived()
		if size := residentSize(t, s.collector.PID()); i < warmUp {
			settled = max(settled, size)
		} else {
			peak = max(peak, size)
		}
	}
	t.Logf("resident: %d MiB after %d workers, at most %d MiB up to %d", settled>>20, warmUp, peak>>20, all)
	require.Less(t, peak-settled, int64(allowed))
	require.GreaterOrEqual(t, s.collector.Metrics().Sum(metricOverflows, nil), 1.0)

	var samples harness.Samples
	harness.Eventually(t, func() bool {
		samples = s.scrape()
		return len(instances(samples)) == 0 && samples.Sum("fpm_endpoint_restarts", nil) == all-1
	}, "dead workers have series")
	for _, sample := range samples {
		require.Equal(t, s.instance(0), sample.Labels["instance"], "%s", sample.Name)
		for label := range sample.Labels {
			require.NotContains(t, []string{"fpm_counter_id", "fpm_sequence", "fpm_producer_id", "fpm_worker_id"}, label)
		}
	}
}

// residentSize is what a process takes of the memory, in bytes.
func residentSize(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			require.NoError(t, err)
			return kilobytes << 10
		}
	}
	t.Fatalf("no VmRSS of %d", pid)
	return 0
}
