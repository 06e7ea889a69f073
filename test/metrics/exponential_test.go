// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

// durations of the passes, in seconds, far enough apart for buckets of their own,
// and how many take so long.
var exponentialPasses = map[float64]float64{0.001: 10, 0.01: 20, 0.1: 30, 1: 40}

const exponentialSum = 0.001*10 + 0.01*20 + 0.1*30 + 1*40

// openMetrics is how a scraper asks for that format.
const openMetrics = "application/openmetrics-text"

// TestExponentialHistogram_COL91 reads one receiver with exponential histograms in
// every way that docs/metrics.md lists. Both text formats have only +Inf, sum and count
// of them; a scrape by protobuf, and remote write, bring the buckets to Prometheus.
func TestExponentialHistogram_COL91(t *testing.T) {
	server := promtest.Start(t, promtest.Options{RemoteWrite: true, Features: []string{"native-histograms"}})
	s := newStage(t, setup{
		metrics: "histogram: exponential, stale_after: 5s",
		exporters: fmt.Sprintf(`
prometheus_remote_write:
  endpoint: %s/api/v1/write
  disable_scope_info: true
  remote_write_queue: {num_consumers: 1} # samples of one series stay in order
  max_batch_request_parallelism: 1`, server.URL()),
		into: "prometheus_remote_write",
	})
	for seconds, times := range exponentialPasses {
		for range int(times) {
			s.send(0, busy("w", seconds))
		}
	}
	alive := func() {
		s.send(0, heartbeat("w"))
		s.arrived()
	}
	of := harness.Labels{"fpm_pass_kind": "mixed"}
	s.waitAlive("w", "fpm_forward_pass_duration_seconds_count", of, 100)
	requireOnlyTotals(t, s.scrape(), of)
	requireOnlyTotals(t, harness.ScrapeAs(t, "http://"+s.exporter+"/metrics", openMetrics), of)

	// With this feature Prometheus asks for protobuf, as nothing else has such histograms.
	scraper := s.prometheus("native-histograms")
	requireNative(t, scraper, alive)
	require.Empty(t, scraper.Query("fpm_forward_pass_duration_seconds_bucket"))
	requireNative(t, server, alive)
	requireFromZero(t, server)
	// The end reaches Prometheus as a stale marker (COL-93).
	var left []promtest.Series
	harness.Eventually(t, func() bool {
		left = server.Query(`{instance="w",__name__!="target_info"}`)
		return len(left) == 0
	}, "the series do not end")
	requireMonotonic(t, server)
}

// requireNative waits until a server has all passes in one native histogram.
func requireNative(t *testing.T, server *promtest.Server, alive func()) {
	t.Helper()
	var got []promtest.Series
	harness.Eventually(t, func() bool {
		alive()
		got = server.Query(`fpm_forward_pass_duration_seconds{fpm_pass_kind="mixed"}`)
		return len(got) == 1 && got[0].Samples[0].Histogram != nil && got[0].Samples[0].Histogram.Count == 100
	}, "Prometheus does not get the histogram: %v", got)
	requireBuckets(t, got[0].Samples[0].Histogram)
	require.Len(t, server.Query("fpm_batch_tokens_bucket"), len(tokenBounds)+1, "fixed bounds stay classic")
}

func requireOnlyTotals(t *testing.T, samples harness.Samples, of harness.Labels) {
	t.Helper()
	requireValue(t, samples, "fpm_forward_pass_duration_seconds_bucket", of, 100)
	requireValue(t, samples, "fpm_forward_pass_duration_seconds_bucket", harness.Labels{"fpm_pass_kind": "mixed", "le": "+Inf"}, 100)
	sums := find(samples, "fpm_forward_pass_duration_seconds_sum", of)
	require.Len(t, sums, 1)
	require.InEpsilon(t, exponentialSum, sums[0], 1e-9)
	// The other histograms have fixed bounds all the same.
	require.Len(t, find(samples, "fpm_batch_tokens_bucket", nil), len(tokenBounds)+1)
}

// requireBuckets looks for each duration in the one bucket that must hold it.
func requireBuckets(t *testing.T, h *promtest.Histogram) {
	t.Helper()
	require.InEpsilon(t, exponentialSum, h.Sum, 1e-9)
	got := map[float64]float64{}
	for _, bucket := range h.Buckets {
		for seconds := range exponentialPasses {
			if bucket.Low < seconds && seconds <= bucket.High {
				got[seconds] += bucket.Count
				require.Less(t, bucket.High/bucket.Low, 1.1, "a bucket is that exact")
			}
		}
	}
	require.Equal(t, exponentialPasses, got)
}

// requireFromZero requires that every total that was written began at 0, so that
// Prometheus sees the first increase too (FR-18).
func requireFromZero(t *testing.T, server *promtest.Server) {
	t.Helper()
	totals := server.Query(`{__name__=~"fpm_.*(_total|_count|_sum|_bucket)",instance="w"}[1h]`)
	require.Greater(t, len(totals), 50)
	for _, series := range totals {
		require.Zero(t, series.Samples[0].Value, "%s %v", series.Name, series.Labels)
	}
	durations := server.Query(`fpm_forward_pass_duration_seconds[1h]`)
	require.NotEmpty(t, durations)
	for _, series := range durations {
		require.Zero(t, series.Samples[0].Histogram.Count, "%v", series.Labels)
	}
}
