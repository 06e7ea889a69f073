// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

const (
	metricSamplerIn         = "otelcol_fpm_sampler_processor_records_in"
	metricSamplerOut        = "otelcol_fpm_sampler_processor_records_out"
	metricSamplerSuppressed = "otelcol_fpm_sampler_processor_suppressed"
	metricSamplerReplaced   = "otelcol_fpm_sampler_processor_replaced"
)

// sampleInterval leaves room for a burst between two ticks on a slow machine.
const sampleInterval = 2 * time.Second

// sampling is a collector that samples one publisher, and what its ticks are
// known to lie between.
type sampling struct {
	t         *testing.T
	collector *harness.Collector
	publisher *harness.Publisher
	socket    int
	base      string
	sequence  uint64
	taken     int       // records that the sampler took
	emitted   int       // records that ticks emitted
	noTickTo  time.Time // the next tick comes later than this
	bursts    []window
}

// window is when the records of a burst were received.
type window struct{ from, to time.Time }

// want is a row that a tick must yield.
type want struct {
	worker  string
	rank    int64
	counter int64
	burst   int
}

func newSampling(t *testing.T) *sampling {
	t.Helper()
	s := &sampling{t: t, publisher: harness.StartPublisher(t), base: filepath.Join(t.TempDir(), "sampled")}
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, 1))
	s.socket = s.publisher.Bind(endpoint)
	s.collector = harness.Start(t, fmt.Sprintf(`
receivers:
  fpm: {endpoint: '%s', batch: {timeout: 10ms}}
processors:
  fpm_sampler: {interval: %v}
exporters:
  fpm_trace: {path: %s, flush_interval: 20ms, max_segments: 1000}
service:
  pipelines:
    logs: {receivers: [fpm], processors: [fpm_sampler], exporters: [fpm_trace]}
`, endpoint, sampleInterval, s.base))
	s.publisher.WaitSubscribers(s.socket, 1)
	return s
}

// passes publishes records of one key, numbered by the counter, and returns the
// last counter.
func (s *sampling) passes(worker string, rank int64, count int) int64 {
	s.t.Helper()
	s.publisher.Passes(s.socket, harness.Passes{Count: count, First: s.sequence, Seed: int64(s.sequence), WorkerID: worker, DPRank: rank})
	s.sequence += uint64(count)
	s.taken += count
	return int64(s.sequence) - 1
}

// record publishes one record with a counter of its own choice.
func (s *sampling) record(worker string, rank, counter int64) {
	s.t.Helper()
	s.publisher.Record(s.socket, s.sequence, "", worker, rank, counter, 0.25)
	s.sequence++
	s.taken++
}

// tick waits for the tick that emits n records, and learns when the next one can
// come at the earliest.
func (s *sampling) tick(n int) {
	s.t.Helper()
	s.emitted += n
	before := time.Now()
	harness.Eventually(s.t, func() bool {
		looked := time.Now()
		out := int(s.collector.Metrics().Sum(metricSamplerOut, nil))
		if out == s.emitted {
			return true
		}
		require.Less(s.t, out, s.emitted, "a tick emits more than the newest of each key")
		before = looked
		return false
	}, "%d records have not been emitted", s.emitted)
	s.noTickTo = before.Add(sampleInterval)
}

// burst publishes between two ticks. false: the machine was too slow to be sure.
func (s *sampling) burst(publish func()) bool {
	s.t.Helper()
	from := time.Now()
	publish()
	s.collector.WaitSum(metricSamplerIn, nil, float64(s.taken))
	to := time.Now()
	s.bursts = append(s.bursts, window{from: from, to: to})
	return to.Before(s.noTickTo)
}

// TestSampledRows_SMP5 publishes bursts well inside the ticks and requires exactly
// the rows that the rules give. A machine too slow for that is asked again.
func TestSampledRows_SMP5(t *testing.T) {
	harness.Long(t)
	const attempts = 5
	for range attempts {
		s := newSampling(t)
		if rows, sure := s.scenario(); sure {
			s.requireRows(rows)
			return
		}
		s.collector.Stop()
		t.Log("a burst may have met a tick, once more")
	}
	t.Fatalf("the machine is too slow: no burst fits between two ticks in %d attempts", attempts)
}

func (s *sampling) scenario() (rows []want, sure bool) {
	// Only to meet a tick.
	first := s.passes("w", 2, 1)
	s.tick(1)
	rows = append(rows, want{"w", 2, first, 0})
	s.bursts = []window{{time.Now().Add(-time.Minute), time.Now()}}

	// The newest of each key, in key order whatever the order of arrival; a
	// heartbeat is a record like any other (SMP-18).
	sure = s.burst(func() {
		rows = append(rows, want{}, want{}, want{}, want{}) // in key order
		rows[4] = want{"w", 10, s.passes("w", 10, 40), 1}
		rows[3] = want{"w", 2, s.passes("w", 2, 40), 1}
		rows[2] = want{"v", 7, s.passes("v", 7, 40), 1}
		s.publisher.Heartbeats(s.socket, 1, s.sequence, "h", 0, 0)
		rows[1] = want{"h", 0, int64(s.sequence), 1}
		s.sequence++
		s.taken++
	})
	if s.tick(4); !sure {
		return nil, false
	}

	// Newest is the last to arrive, whatever its counter (SMP-5); a lower one than
	// the last emitted is a restart (SMP-6).
	sure = s.burst(func() {
		s.record("w", 2, 900)
		s.record("w", 2, 3)
		rows = append(rows, want{"w", 2, 3, 2})
	})
	if s.tick(1); !sure {
		return nil, false
	}

	// The counter that was emitted last is suppressed (SMP-6).
	sure = s.burst(func() {
		s.record("w", 2, 3)
		s.record("w", 10, 901)
		rows = append(rows, want{"w", 10, 901, 3})
	})
	if s.tick(1); !sure {
		return nil, false
	}
	m := s.collector.Metrics()
	require.Equal(s.t, 1.0, m.Sum(metricSamplerSuppressed, nil))    //nolint:testifylint // counts
	require.Equal(s.t, 3*39+1.0, m.Sum(metricSamplerReplaced, nil)) //nolint:testifylint // counts

	// What is pending leaves at shutdown (SMP-15).
	sure = s.burst(func() {
		s.record("w", 10, 902)
		s.record("v", 7, 903)
		rows = append(rows, want{"v", 7, 903, 4}, want{"w", 10, 902, 4})
	})
	s.collector.Stop()
	return rows, sure
}

func (s *sampling) requireRows(rows []want) {
	s.t.Helper()
	got := harness.ByProducer(harness.Rows(s.t, s.base))
	byWorker := map[string][]want{}
	for _, row := range rows {
		byWorker[row.worker] = append(byWorker[row.worker], row)
	}
	texts := map[string]string{}
	for _, sent := range s.publisher.Sent() {
		texts[fmt.Sprintf("%s/%d/%d", sent.WorkerID, sent.DPRank, sent.CounterID)] = sent.FPM
	}
	require.Len(s.t, got, len(byWorker))
	for worker, rows := range byWorker {
		require.Len(s.t, got[worker], len(rows), "worker %s", worker)
		for i, row := range rows {
			actual := got[worker][i]
			id := identityOf(s.t, actual.FPM)
			require.Equal(s.t, identity{row.worker, row.rank, row.counter}, id, "row %d", i)
			require.Equal(s.t, texts[fmt.Sprintf("%s/%d/%d", row.worker, row.rank, row.counter)], actual.FPM)
			require.Equal(s.t, "sampled", actual.CaptureMode)
			// The receive time, not that of the tick (SMP-25).
			received := time.UnixMilli(int64(actual.ObservedMS))
			require.WithinRange(s.t, received, s.bursts[row.burst].from.Truncate(time.Millisecond), s.bursts[row.burst].to)
		}
	}
}
