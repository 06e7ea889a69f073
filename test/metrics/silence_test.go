// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestSilence_FR16 lets a busy worker fall silent. Its gauges keep what they were
// until all of its series end, in Prometheus too; the endpoint stays up until the
// connection ends, and its last record where it was. When the worker speaks again
// its totals go on, and what was published meanwhile is missing.
func TestSilence_FR16(t *testing.T) {
	const staleAfter = 2 * time.Second
	s := newStage(t, setup{absent: 1, metrics: "stale_after: " + staleAfter.String()})
	server := s.prometheus()
	connected, absent := harness.Labels{"instance": s.instance(0)}, harness.Labels{"instance": s.instance(1)}
	s.waitFor("fpm_endpoint_up", connected, 1)
	first := s.scrape()
	requireValue(t, first, "fpm_endpoint_up", absent, 0)
	requireValue(t, first, "fpm_endpoint_restarts", absent, 0)
	require.Empty(t, find(first, "fpm_endpoint_last_record_time_seconds", nil), "no record yet")

	// Until Prometheus has stored it: then the silence begins.
	var before, after time.Time
	passes := 0.0
	harness.Eventually(t, func() bool {
		before = time.Now()
		s.send(0, busy("w", 0.02))
		s.arrived()
		after = time.Now()
		passes++
		time.Sleep(interval)
		return len(server.Query(`{instance="w"}`)) > 0
	}, "Prometheus does not get the worker")
	s.waitEnd("w", before.Add(staleAfter))
	harness.Eventually(t, func() bool {
		return len(server.Query(`{instance="w"}`)) == 0 // at once, not after its look-back
	}, "Prometheus keeps a dead worker")
	silent := s.scrape()
	requireValue(t, silent, "fpm_endpoint_up", connected, 1)
	lastRecord := find(silent, "fpm_endpoint_last_record_time_seconds", connected)
	require.Len(t, lastRecord, 1)
	require.GreaterOrEqual(t, lastRecord[0], float64(before.UnixNano())/1e9-1e-6)
	require.LessOrEqual(t, lastRecord[0], float64(after.UnixNano())/1e9+1e-6)

	s.sequences[0] += 10
	s.send(0, busy("w", 0.02))
	s.waitAlive("w", "fpm_records", harness.Labels{"instance": "w", "fpm_record_kind": "pass"}, passes+1)
	s.waitAlive("w", "fpm_records_missing", harness.Labels{"instance": "w"}, 10)
	requireMonotonic(t, server)

	s.end(0)
	s.waitFor("fpm_endpoint_up", connected, 0)
	last := find(s.scrape(), "fpm_endpoint_last_record_time_seconds", connected)
	require.Len(t, last, 1)
	require.Greater(t, last[0], lastRecord[0])
	requireValue(t, s.scrape(), "fpm_endpoint_up", absent, 0)
	requireValue(t, s.scrape(), "fpm_endpoint_last_record_time_seconds", connected, last[0])
	requireValue(t, s.scrape(), "fpm_endpoint_restarts", connected, 0)
}

// waitEnd waits until a busy worker that fell silent has no series, and requires
// that they were as the last record left them until then, and not gone before a
// time.
func (s *stage) waitEnd(worker string, earliest time.Time) {
	s.t.Helper()
	harness.Eventually(s.t, func() bool {
		samples := s.scrape()
		if gauges := gaugesOf(samples, worker); len(gauges) > 0 {
			require.Subset(s.t, busyGauges, gauges, "the end is no 0")
		}
		gone := !slices.ContainsFunc(samples, func(sample harness.Sample) bool {
			return sample.Labels["instance"] == worker
		})
		if gone {
			require.False(s.t, time.Now().Before(earliest), "%s ended too early", worker)
		}
		return gone
	}, "%s does not end", worker)
}

// waitAlive is waitFor while a worker sends heartbeats, so that it is not silent
// before a slow machine has looked.
func (s *stage) waitAlive(worker, name string, labels harness.Labels, want float64) {
	s.t.Helper()
	var got []float64
	harness.Eventually(s.t, func() bool {
		s.send(0, heartbeat(worker))
		s.arrived()
		got = find(s.scrape(), name, labels)
		return len(got) == 1 && got[0] == want
	}, "%s %v is not %v", name, labels, want)
}

// TestRollingRestart_FR17 replaces eight engines by eight with new names: after
// stale_after only the living have series.
func TestRollingRestart_FR17(t *testing.T) {
	const workers = 8
	s := newStage(t, setup{endpoints: workers, metrics: "stale_after: 3s"})
	server := s.prometheus()
	names := func(generation int) (all []string) {
		for i := range workers {
			all = append(all, fmt.Sprintf("worker-%d-%d", generation, i))
		}
		return all
	}
	alive := func(generation int) {
		t.Helper()
		var got, stored []string
		harness.Eventually(t, func() bool {
			for i, name := range names(generation) {
				s.send(i, heartbeat(name))
			}
			time.Sleep(interval / 2)
			got, stored = instances(s.scrape()), nil
			for _, series := range server.Query(`count by (instance) (fpm_records_total)`) {
				stored = append(stored, series.Labels["instance"])
			}
			slices.Sort(stored)
			return slices.Equal(got, names(generation)) && slices.Equal(stored, got)
		}, "generation %d does not live alone", generation)
	}
	alive(0)
	for i := range workers {
		s.restart(i)
		s.send(i, heartbeat(names(1)[i]))
	}
	alive(1)
	restarts := s.scrape().By("fpm_endpoint_restarts", "instance", nil)
	for i := range workers {
		require.Equal(t, 1.0, restarts[s.instance(i)], "endpoint %d", i) //nolint:testifylint // a count
	}
}
