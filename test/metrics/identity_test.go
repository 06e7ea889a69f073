// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestTwoWorkersNeverShareASeries_FR14: workers without a name on two endpoints,
// and two live endpoints with the same name and rank, are two series each.
func TestTwoWorkersNeverShareASeries_FR14(t *testing.T) {
	s := newStage(t, setup{endpoints: 4})
	server := s.prometheus()
	s.sendTimes(0, 3, busy("", 0.5))
	s.sendTimes(1, 4, busy("", 0.5))
	s.sendTimes(2, 5, busy("same", 0.5))
	s.arrived() // it was there first, so it keeps the name (STR-102)
	s.sendTimes(3, 6, busy("same", 0.5))
	other := busy("same", 0.5) // another rank of that worker shares nothing
	other.DPRank = 1
	s.sendTimes(3, 7, other)

	want := map[string]float64{
		s.endpoint(0) + " 0": 3, s.endpoint(1) + " 0": 4, "same 0": 5, s.endpoint(3) + " 0": 6, "same 1": 7,
	}
	var got map[string]float64
	harness.Eventually(t, func() bool {
		got = map[string]float64{}
		for _, series := range server.Query(`fpm_records_total{fpm_record_kind="pass"}`) {
			got[series.Labels["instance"]+" "+series.Labels["fpm_dp_rank"]] += series.Last()
		}
		sum := 0.0
		for _, n := range got {
			sum += n
		}
		return sum == 3+4+5+6+7
	}, "not all records arrive")
	require.Equal(t, want, got)
	samples := s.collector.Metrics()
	require.NotZero(t, samples.Sum("otelcol_fpm_receiver_empty_worker_ids", nil))
	require.NotZero(t, samples.Sum("otelcol_fpm_receiver_shared_worker_ids", nil))
}

// sendTimes publishes the same record under consecutive sequences.
func (s *stage) sendTimes(i, times int, r record) {
	s.t.Helper()
	for range times {
		s.send(i, r)
	}
}

// TestWorkerNamesAreLabels_STR74: any text that a worker calls itself comes back
// from Prometheus as it was.
func TestWorkerNamesAreLabels_STR74(t *testing.T) {
	names := []string{
		"line\nbreak", `quote " and \ and \n`, "日本語 wörker \U0001f680", "tab\t<&>{a=\"b\"} #", "\u2028\ufeff", "\x1b[31mred\x1b[0m", " padded ",
	}
	s := newStage(t, setup{})
	server := s.prometheus()
	want := map[string]float64{}
	for i, name := range names {
		s.sendTimes(0, i+1, busy(name, 0.5))
		want[name] = float64(i + 1)
	}
	var got map[string]float64
	harness.Eventually(t, func() bool {
		got = map[string]float64{}
		sum := 0.0
		for _, series := range server.Query(`fpm_records_total{fpm_record_kind="pass"}`) {
			got[series.Labels["instance"]] = series.Last()
			sum += series.Last()
		}
		return sum == float64(s.sent)
	}, "not all records arrive")
	require.Equal(t, want, got)
	for i, name := range names {
		require.Len(t, find(s.scrape(), "fpm_records_missing", harness.Labels{"instance": name}), 1, "worker %d", i)
	}
}
