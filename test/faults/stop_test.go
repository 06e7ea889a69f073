// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestSIGTERMUnderLoad_FR24_FR31 stops the collector while records stream in. All
// that it had received is in whole files, without a hole; what was sent later it
// never saw. The publisher lives on, and the next collector goes on behind.
func TestSIGTERMUnderLoad_FR24_FR31(t *testing.T) {
	for name, exporter := range map[string]string{
		"buffered": "flush_interval: 1h", // nothing but the shutdown writes
		"flushed":  "durability: flushed",
		"synced":   "durability: synced",
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := address(t)
			p := Engine{Bind: endpoint, WorkerID: "w", Rate: pick(500.0, 1000), Wait: true, InvalidEvery: 100}.start(t)
			s := prepare(t, setting{endpoints: []string{endpoint}, exporter: exporter})
			var ends []time.Time
			received := 0
			for range brief(1, pick(2, 5)) {
				s.run()
				s.waitReceived(500)
				received += int(s.Metrics().Sum(metricRecords, nil))
				start := time.Now()
				s.Stop()
				require.Less(t, time.Since(start), 15*time.Second)
				ends = append(ends, time.Now())
				s.RequireNoPanic()
			}
			p.stop()
			account := requireClosed(t, accounting.Evidence{Sent: p.sent(), Arrived: s.rows(), Ends: ends})
			require.GreaterOrEqual(t, account.Fates[accounting.Written], received)
		})
	}
}

// TestSIGKILLUnderLoad_FR24 kills the collector again and again while it writes
// what it receives. The rows of members that were flushed are there afterwards, no
// file that a dead collector left is touched again, and within a life nothing is
// missing before the last row.
func TestSIGKILLUnderLoad_FR24(t *testing.T) {
	endpoint := address(t)
	p := Engine{Bind: endpoint, WorkerID: "w", Rate: 300, Wait: true, InvalidEvery: 100}.start(t)
	s := prepare(t, setting{endpoints: []string{endpoint}, exporter: "flush_interval: 50ms"})
	random := rand.New(rand.NewPCG(24, 24))
	var ends []time.Time
	left := map[string][32]byte{} // files of dead collectors
	rows := 0
	for range brief(1, pick(5, 50)) {
		s.run()
		harness.Eventually(t, func() bool { return s.Metrics().Sum(metricRows, nil) > 0 }, "no row is written")
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		flushed := int(s.Metrics().Sum(metricRows, nil))
		s.Kill()
		ends = append(ends, time.Now())

		now := len(s.wholeRows())
		require.GreaterOrEqual(t, now, rows+flushed, "flushed rows are lost")
		rows = now
		for path, hash := range left {
			require.Equal(t, hash, hashOf(t, path), "%s has changed", path)
		}
		for _, path := range harness.Segments(t, s.base) {
			left[path] = hashOf(t, path)
		}
		s.RequireNoPanic()
	}
	p.stop()
	requireClosed(t, accounting.Evidence{Sent: p.sent(), Arrived: s.wholeRows(), Ends: ends})
}

func hashOf(t *testing.T, path string) [32]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return sha256.Sum256(data)
}
