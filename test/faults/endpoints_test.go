// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// adversary is a peer that is no publisher, and the reasons that its connections
// may end for.
type adversary struct {
	name    string
	script  func(net.Conn)
	reasons []string
}

func adversaries() []adversary {
	giant := func(size uint64) []byte {
		header := []byte{zmtptest.FlagLong}
		for shift := 56; shift >= 0; shift -= 8 {
			header = append(header, byte(size>>shift))
		}
		return header
	}
	return []adversary{
		{"garbage", endless(nil, bytes.Repeat([]byte("\x00garbage\xff"), 1000)), []string{"greeting", "reset"}},
		{"HTTP server", says([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request")), []string{"greeting"}},
		{"frame of 2^63-16", says(handshake(), giant(1<<63-16)), []string{"too_large"}},
		{"frame of 2^49, FR-5", says(handshake(), giant(1<<49)), []string{"too_large"}},
		{"frame of 2^34, FR-5", says(handshake(), giant(1<<34)), []string{"too_large"}},
		{"endless MORE, FR-6", endless(handshake(), bytes.Repeat([]byte("\x01\x00"), 4096)), []string{"too_many_frames"}},
		{"truncated READY", func(conn net.Conn) {
			whole := handshake()
			_, _ = conn.Write(whole[:len(whole)-3])
		}, []string{"truncated", "closed", "reset", "greeting", "protocol"}},
		{"silent after accept, FR-10", func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, []string{"timeout"}},
		{"dripping greeting", func(conn net.Conn) {
			for _, b := range handshake() {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, []string{"timeout"}},
		{"closes after the handshake", func(conn net.Conn) {
			_, _ = conn.Write(handshake())
			_, _ = io.ReadFull(conn, make([]byte, 64+len(zmtptest.ClientReady)+len(zmtptest.SubscribeCommand)))
		}, []string{"closed", "reset"}},
	}
}

// lateness measures how long the machine keeps this process waiting, so that its
// load is not taken for the collector's.
func lateness() (stop func() time.Duration) {
	end, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		const nap = 10 * time.Millisecond
		var worst time.Duration
		for {
			start := time.Now()
			select {
			case <-end:
				result <- worst
				return
			case <-time.After(nap):
				worst = max(worst, time.Since(start)-nap)
			}
		}
	}()
	return func() time.Duration {
		close(end)
		return <-result
	}
}

// TestManyEndpoints_FR5_FR6_FR10 has 512 endpoints: 100 are dead, ten hostile, and
// the other 402 lose nothing and see no delay. The subset of make test has fewer
// that are good or dead.
func TestManyEndpoints_FR5_FR6_FR10(t *testing.T) {
	good, dead := brief(22, 402), brief(10, 95)
	const unknown = 5
	var publishers fleet
	for i := range good {
		publishers = append(publishers, newLocal(t, fmt.Sprintf("w%d", i)))
	}
	var trouble []string
	for range dead {
		trouble = append(trouble, address(t))
	}
	for i := range unknown {
		trouble = append(trouble, fmt.Sprintf("tcp://engine-%d.invalid:20380", i))
	}
	hostiles := map[string]adversary{}
	for _, a := range adversaries() {
		endpoint := hostile(t, a.script)
		hostiles[endpoint] = a
		trouble = append(trouble, endpoint)
	}
	// The bad ones stand first.
	endpoints := append(slices.Clone(trouble), publishers.endpoints()...)
	require.Len(t, endpoints, brief(47, 512))
	s := newStage(t, setting{endpoints: endpoints, exporter: "flush_interval: 1s"})
	harness.Eventually(t, func() bool { return publishers.subscribers() == good }, "not all good publishers have their subscriber")

	// Warm up, so that every stream and every file exists.
	publishers.publish(2, time.Second)
	s.settled()
	before := s.usage()
	machine := lateness()
	publishers.publish(pick(15, 60), 500*time.Millisecond)
	late := machine()

	telemetry := s.settled()
	rows := s.rows()
	requireClosed(t, accounting.Evidence{Sent: publishers.sent(), Arrived: rows, Telemetry: telemetry, TraceFiles: true, Unbroken: true})
	worst := worstDelay(t, publishers.sent(), rows)
	t.Logf("longest delay %v, of the machine alone %v", worst, late)
	require.Less(t, worst, time.Second+late)
	requireTroubleIsNamed(t, telemetry, hostiles)
	s.requireNoGrowth(before)
	start := time.Now()
	s.Stop()
	require.Less(t, time.Since(start), 15*time.Second)
	s.RequireNoPanic()
}

// worstDelay is the longest time from the log line of a message to its receipt.
func worstDelay(t *testing.T, sent []accounting.Message, rows []accounting.Arrival) (worst time.Duration) {
	t.Helper()
	received := map[string]uint64{}
	for _, row := range rows {
		received[row.Text] = row.ObservedMS
	}
	for _, m := range sent {
		at, ok := received[m.Text]
		require.True(t, ok)
		worst = max(worst, time.UnixMilli(int64(at)).Sub(time.Unix(0, m.SentNS)))
	}
	return worst
}

// requireTroubleIsNamed wants each hostile peer under its own reason.
func requireTroubleIsNamed(t *testing.T, telemetry harness.Samples, hostiles map[string]adversary) {
	t.Helper()
	for endpoint, a := range hostiles {
		of := harness.Labels{"endpoint": endpoint}
		reasons := telemetry.By(metricConnects, "result", of)
		for reason, n := range telemetry.By(metricDisconnects, "reason", of) {
			reasons[reason] += n
		}
		seen := 0.0
		for reason, n := range reasons {
			if reason == "ok" || n == 0 {
				continue
			}
			require.Contains(t, a.reasons, reason, a.name)
			seen += n
		}
		require.Positive(t, seen, "%s: nothing is counted", a.name)
	}
}

// TestFileDescriptorsRunOut gives the collector fewer files than it has endpoints.
// It does not crash, and once some publishers are gone the others and the trace
// files get theirs.
func TestFileDescriptorsRunOut(t *testing.T) {
	harness.Long(t)
	const all, stay, limit = 60, 20, 48
	var publishers fleet
	for i := range all {
		publishers = append(publishers, newLocal(t, fmt.Sprintf("w%d", i)))
	}
	wrap(t, fmt.Sprintf("ulimit -n %d\nexec '%s' \"$@\"\n", limit, harness.Binary(t)))
	s := newStage(t, setting{
		endpoints:  publishers.endpoints(),
		connection: "    connection: {initial_backoff: 200ms, max_backoff: 2s}",
		// Each producer holds a lock file, and these would be too many for good.
		producer: "all",
	})
	s.WaitLog("too many open files")
	publishers.publish(5, 200*time.Millisecond) // its files can't be opened, either
	time.Sleep(pick(2*time.Second, 10*time.Second))
	require.True(t, s.Running())
	for _, l := range publishers[:all-stay] {
		require.NoError(t, l.Close())
	}
	remaining := publishers[all-stay:]
	start := time.Now()
	harness.Eventually(t, func() bool { return remaining.subscribers() == stay }, "not all publishers that are left have their subscriber")
	require.Less(t, time.Since(start), recovery)
	t.Logf("connected %v after there were files again", time.Since(start))
	remaining.publish(10, 200*time.Millisecond)
	account := s.close(publishers.sent(), false)
	require.Zero(t, account.Totals.Missing)
	require.Empty(t, account.Totals.Dropped)
	require.GreaterOrEqual(t, account.Fates[accounting.Written], 10*stay)
}
