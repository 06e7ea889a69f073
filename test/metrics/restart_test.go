// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

// TestGap_FR12: the counter of missing records exists at 0 before the first one is
// missing, so that Prometheus sees the increase, and counts a hole once.
func TestGap_FR12(t *testing.T) {
	s := newStage(t, setup{})
	server := s.prometheus()
	s.sendAs(0, 10, busy("w", 0.02))
	s.waitStored(server, `fpm_records_missing_total{instance="w"}`, 0)
	s.sendAs(0, 15, busy("w", 0.02)) // 11 to 14
	s.waitStored(server, `fpm_records_missing_total{instance="w"}`, 4)
	s.send(0, busy("w", 0.02))
	s.waitStored(server, `sum(fpm_records_total{instance="w"})`, 3)
	samples := server.Query(`fpm_records_missing_total{instance="w"}[1h]`)[0].Samples
	require.Equal(t, []float64{0, 4}, distinct(samples))
}

// TestSequences_FR13: a number that falls back is a restart and no hole, one that
// comes twice a duplicate, one that can't be is invalid and moves nothing.
func TestSequences_FR13(t *testing.T) {
	s := newStage(t, setup{})
	endpoint := harness.Labels{"instance": s.instance(0)}
	for _, sequence := range []uint64{100, 0, 1} {
		s.sendAs(0, sequence, busy("w", 0.02))
	}
	s.waitFor("fpm_records", harness.Labels{"fpm_record_kind": "pass"}, 3)
	requireValue(t, s.scrape(), "fpm_endpoint_restarts", endpoint, 1)
	requireValue(t, s.scrape(), "fpm_records_missing", nil, 0)

	s.sendAs(0, 1, busy("w", 0.5))
	s.sendAs(0, 1<<64-1, busy("w", 0.5))
	s.sendAs(0, 2, busy("w", 0.02))
	s.waitFor("fpm_records", harness.Labels{"fpm_record_kind": "pass"}, 4)
	s.arrived()
	s.collector.WaitSum(metricDuplicates, nil, 1)
	s.collector.WaitSum(metricInvalid, harness.Labels{"reason": "bad_sequence_frame"}, 1)
	requireValue(t, s.scrape(), "fpm_records_missing", nil, 0)
	requireValue(t, s.scrape(), "fpm_endpoint_restarts", endpoint, 1)

	// The number of the last one on a new connection, with another payload (STR-E23).
	s.restart(0)
	s.sendAs(0, 2, busy("w", 0.04))
	s.waitFor("fpm_records", harness.Labels{"fpm_record_kind": "pass"}, 5)
	s.waitFor("fpm_endpoint_restarts", endpoint, 2)
	requireValue(t, s.scrape(), "fpm_records_missing", nil, 0)
}

// TestEngineRestart_FR18 restarts an engine under the same name and then under
// another one. No total is reset, none falls; the old worker's series end.
func TestEngineRestart_FR18(t *testing.T) {
	s := newStage(t, setup{metrics: "stale_after: 2s"})
	server := s.prometheus()
	restarts := `fpm_endpoint_restarts_total{instance="` + s.instance(0) + `"}`
	// Heartbeats, so that no worker is silent before a slow machine has looked.
	wait := func(worker, expression string, want float64) {
		t.Helper()
		s.waitStored(server, expression, want, func() { s.send(0, heartbeat(worker)) })
	}
	const passes = `sum(fpm_records_total{instance="w",fpm_record_kind="pass"})`
	const seconds = `sum(fpm_forward_pass_duration_seconds_sum{instance="w"})`
	for range 30 {
		s.send(0, busy("w", 0.5))
	}
	wait("w", restarts, 0)
	wait("w", passes, 30)
	wait("w", seconds, 15)

	s.restart(0)
	for range 10 {
		s.send(0, busy("w", 0.5))
	}
	wait("w", restarts, 1)
	wait("w", passes, 40)
	wait("w", seconds, 20)

	s.restart(0)
	s.send(0, busy("v", 0.5))
	wait("v", restarts, 2)
	wait("v", `sum(fpm_records_total{instance="v",fpm_record_kind="pass"})`, 1)
	wait("v", `count(count by (instance) (fpm_records_total))`, 1) // the old one's have ended
	requireMonotonic(t, server)
	wait("v", `fpm_records_missing_total{instance="v"}`, 0)
	wait("v", restarts, 2)
}

// waitStored waits until the expression has exactly one result, with this value,
// and does something between two looks.
func (s *stage) waitStored(server *promtest.Server, expression string, want float64, meanwhile ...func()) {
	s.t.Helper()
	var got []promtest.Series
	harness.Eventually(s.t, func() bool {
		for _, do := range meanwhile {
			do()
		}
		got = server.Query(expression)
		return len(got) == 1 && got[0].Last() == want
	}, "%s is not %v", expression, want)
}

// distinct drops repeated values.
func distinct(samples []promtest.Sample) (values []float64) {
	for _, sample := range samples {
		if len(values) == 0 || values[len(values)-1] != sample.Value {
			values = append(values, sample.Value)
		}
	}
	return values
}
