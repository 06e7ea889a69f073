// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestIdle_STR97 publishes one working record of each of three workers and then
// heartbeats alone. The gauges of each go to 0 together, after idle_after or twice
// the pass, and never before: heartbeats also arrive during a long pass.
//
// All times are measured around the product's own, so a slow machine can only
// make them longer.
func TestIdle_STR97(t *testing.T) {
	const idleAfter = time.Second
	s := newStage(t, setup{metrics: "idle_after: " + idleAfter.String()})
	worked := map[string]time.Time{}
	for _, r := range []record{busy("short", 0.02), busy("long", 2.5), busy("untimed", 0)} {
		worked[r.WorkerID] = time.Now()
		s.send(0, r)
	}
	atLeast := map[string]time.Duration{"short": idleAfter, "untimed": idleAfter, "long": 5 * time.Second}
	idle := map[string]float64{}
	for series := range busyGauges {
		idle[series] = 0
	}

	harness.Eventually(t, func() bool {
		for worker := range atLeast {
			s.send(0, heartbeat(worker))
		}
		s.arrived()
		samples := s.scrape()
		for worker, least := range atLeast {
			gauges := gaugesOf(samples, worker)
			if len(gauges) == 0 || gauges[`fpm_queue_requests{fpm_phase="prefill"}`] > 0 {
				require.Subset(t, busyGauges, gauges, worker)
				continue
			}
			require.Equal(t, idle, gauges, worker)
			require.GreaterOrEqual(t, time.Since(worked[worker]), least, "%s is idle too early", worker)
			delete(atLeast, worker)
		}
		return len(atLeast) == 0
	}, "not idle: %v", atLeast)
}

// TestHeartbeatsDuringWork_STR97: with a long idle_after, no number of heartbeats
// touches a gauge, and a queue_only record only those of the queue.
func TestHeartbeatsDuringWork_STR97(t *testing.T) {
	s := newStage(t, setup{metrics: "idle_after: 1h"})
	s.send(0, busy("w", 0.02))
	for range 20 {
		s.send(0, heartbeat("w"))
	}
	s.waitFor("fpm_records", harness.Labels{"instance": "w", "fpm_record_kind": "heartbeat"}, 20)
	require.Equal(t, busyGauges, gaugesOf(s.scrape(), "w"))

	waiting := heartbeat("w")
	waiting.Queued.PrefillRequests = 7
	s.send(0, waiting)
	s.waitFor("fpm_records", harness.Labels{"instance": "w", "fpm_record_kind": "queue_only"}, 1)
	require.Equal(t, map[string]float64{
		`fpm_batch_kv_tokens{fpm_phase="prefill"}`: 800,
		`fpm_batch_kv_tokens{fpm_phase="decode"}`:  4000,
		`fpm_queue_requests{fpm_phase="prefill"}`:  7,
		`fpm_queue_requests{fpm_phase="decode"}`:   0,
		`fpm_queue_prefill_tokens{fpm_phase=""}`:   0,
		`fpm_queue_decode_kv_tokens{fpm_phase=""}`: 0,
	}, gaugesOf(s.scrape(), "w"))
}
