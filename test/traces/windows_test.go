// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestWindowsEndByTime_FR33 publishes for several windows, and then nothing: the
// last root comes all the same.
func TestWindowsEndByTime_FR33(t *testing.T) {
	const window, passes = 400 * time.Millisecond, 60
	b, e := startBackend(t), startEngine(t)
	collector := harness.Start(t, logsAndTraces(e.receiver(fmt.Sprintf("{window: %v}", window)), b))
	e.waitSubscribers()
	for i := range passes {
		for id, socket := range e.sockets {
			e.Record(socket, uint64(i), "", id.worker, id.rank, int64(i), 0.005)
		}
		time.Sleep(20 * time.Millisecond)
	}
	total := passes * len(e.sockets)
	harness.Eventually(t, func() bool {
		counted := 0
		for _, root := range b.windows() {
			counted += int(integer(root.Attributes(), "fpm.window.passes"))
		}
		return counted == total
	}, "not all of %d passes are in windows with a root, though the engine is silent", total)
	idle := b.all()
	collector.Stop()
	require.Len(t, b.all(), len(idle), "nothing was left for the end")

	traces := tracesOf(t, idle)
	for _, of := range traces {
		of.requireBounded(t, 1000, window)
	}
	payloads := published(t, e.Publisher)
	for id, windows := range byStream(b.windows()) {
		require.Greater(t, len(windows), 2, "%v", id) // 60 pauses of 20 ms
		requireChain(t, windows)
		left := payloads[id]
		for i, root := range windows {
			of := traces[root.TraceID()]
			of.requireTotals(t, int64(i+1), left[:len(of.passes)])
			left = left[len(of.passes):]
		}
	}
}

// TestLivesShareNoTrace_FR33: a restart of the engine, another worker_id, the first
// one again, and a restart of the collector all begin new traces, though counters
// and sequences repeat.
func TestLivesShareNoTrace_FR33(t *testing.T) {
	const each = 5
	b, e := startBackend(t), startEngine(t)
	config := logsAndTraces(e.receiver("{window: 1h}"), b)
	spans := 0
	live := func(worker string) {
		t.Helper()
		for id, socket := range e.sockets {
			name := worker
			if id.worker == "v" {
				name = "v"
			}
			for i := range each {
				e.Record(socket, uint64(i), "", name, id.rank, int64(i), 0.001)
			}
		}
		spans += each * len(e.sockets)
		harness.Eventually(t, func() bool { return len(b.passes()) == spans }, "not all of %d passes are here", spans)
	}
	collector := harness.Start(t, config)
	e.waitSubscribers()
	live("w")
	live("w")
	live("x")
	live("w")
	collector.WaitSum(metricRestarts, nil, float64(3*len(e.sockets)))
	collector.Stop()
	collector = harness.Start(t, config)
	e.probe(t, collector)
	live("w")
	collector.Stop()

	lives := map[stream]int{}
	for _, of := range tracesOf(t, b.all()) {
		lives[of.stream]++
		var counters []int64
		for _, s := range of.passes {
			counters = append(counters, integer(s.Attributes(), "fpm.counter_id"))
		}
		require.Equal(t, []int64{0, 1, 2, 3, 4}, counters)
	}
	require.Equal(t, map[stream]int{
		{"w", 0}: 4, {"w", 1}: 4, {"x", 0}: 1, {"x", 1}: 1, {"v", 0}: 5,
	}, lives)
}

// probe publishes heartbeats, which make no spans, until every endpoint is heard:
// the sockets have had subscribers before, so that their number tells nothing.
func (e *engine) probe(t *testing.T, collector *harness.Collector) {
	t.Helper()
	sequence := uint64(1000)
	harness.Eventually(t, func() bool {
		for id, socket := range e.sockets {
			e.Heartbeats(socket, 1, sequence, id.worker, id.rank, 0)
		}
		sequence++
		heard := 0
		for _, records := range collector.Metrics().By(metricRecords, "endpoint", nil) {
			if records > 0 {
				heard++
			}
		}
		return heard == len(e.sockets)
	}, "not every endpoint is heard")
}
