// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// floodGrowth is how much the process may grow under a flood (FR-1).
const floodGrowthKiB = 10 << 10

// flood is a kind of malformed message and the reason that counts it.
type flood struct {
	name, reason string
	frames       func(sequence uint64) [][]byte
}

// extended is a valid payload with one entry more, which may repeat a key: the
// last one counts (STR-49).
func extended(key string, value []byte) []byte {
	payload := fpm.AppendPayload(nil, &fpm.ForwardPass{WorkerID: []byte("w"), CounterID: 1, WallTime: 0.01})
	payload[0]++ // a fixmap has its size in the low bits
	return append(fpm.AppendString(payload, key), value...)
}

func floods() []flood {
	of := func(name, reason string, payload []byte) flood {
		return flood{name, reason, func(sequence uint64) [][]byte { return zmtptest.Numbered(sequence, payload) }}
	}
	valid := fpm.AppendPayload(nil, &fpm.ForwardPass{WorkerID: []byte("w"), CounterID: 1, WallTime: 0.01})
	return []flood{
		of("array of 2^32-1, FR-1", "not_a_map", []byte("\xdd\xff\xff\xff\xff")),
		of("map of 2^32-1, FR-1", "truncated", []byte("\xdf\xff\xff\xff\xff")),
		of("list of 2^30-1, FR-1", "truncated", extended("extend_lengths", []byte("\xdd\x3f\xff\xff\xff"))),
		of("nested arrays, FR-2", "too_deep", extended("zzz", append(bytes.Repeat([]byte("\x91"), 1_000_000), 0xc0))),
		of("nested maps, FR-2", "too_deep", extended("zzz", append(bytes.Repeat([]byte("\x81\xa0"), 500_000), 0xc0))),
		of("number 2^64-1, FR-3", "out_of_range", extended("counter_id", fpm.AppendUint(nil, 1<<64-1))),
		of("not UTF-8, FR-3", "invalid_utf8", extended("worker_id", []byte("\xa2\xff\xfe"))),
		of("trailing byte, FR-3", "trailing_bytes", append(bytes.Clone(valid), 0xc0)),
		of("wrong type", "wrong_type", extended("dp_rank", []byte("\xa1x"))),
		of("version 2", "unsupported_version", extended("version", []byte("\x02"))),
		of("missing field", "missing_field", []byte("\x80")),
		of("key that is no string", "bad_key", []byte("\x81\x01\x02")),
		{"two frames", "bad_frame_count", func(sequence uint64) [][]byte { return zmtptest.Numbered(sequence, valid)[1:] }},
		{"short sequence", "bad_sequence_frame", func(uint64) [][]byte { return [][]byte{nil, []byte("\x2a"), valid} }},
	}
}

// TestFloods_FR1_FR2_FR3 sends each kind of malformed message as fast as the
// loopback carries it. Each one is counted under its reason, memory stays where it
// was, the log stays quiet, and a record behind the flood is accepted.
func TestFloods_FR1_FR2_FR3(t *testing.T) {
	harness.Long(t)
	p, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{Block: true, HighWaterMark: 64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	s := newStage(t, setting{endpoints: []string{p.Endpoint()}})
	p.WaitSubscribers(1)
	sequence := uint64(0)
	send := func(f flood) {
		p.Publish(f.frames(sequence)...)
		sequence++
	}
	// Buffers reach their size with the first messages of each kind.
	for _, f := range floods() {
		for range 200 {
			send(f)
		}
	}
	harness.Eventually(t, func() bool { return s.received() == int(sequence) }, "the first messages do not arrive")
	held := s.usage()

	for _, f := range floods() {
		t.Run(f.name, func(t *testing.T) {
			count := func() int {
				return int(s.Metrics().Sum(metricInvalid, harness.Labels{"reason": f.reason}))
			}
			before, counted, lines := residentKiB(t, s.PID()), count(), warnings(s.Log())
			most, sent := before, 0
			start, looked := time.Now(), time.Now()
			for time.Since(start) < pick(time.Second, 10*time.Second) {
				send(f)
				sent++
				if time.Since(looked) > 100*time.Millisecond {
					most, looked = max(most, residentKiB(t, s.PID())), time.Now()
				}
			}
			harness.Eventually(t, func() bool { return count() >= counted+sent }, "%d of %d are counted", count()-counted, sent)
			took := time.Since(start)
			require.Equal(t, counted+sent, count())
			logged := warnings(s.Log()) - lines
			t.Logf("%d messages in %v, RSS %d KiB and at most %+d, %d log lines", sent, took.Round(time.Millisecond), before, most-before, logged)
			require.Less(t, most-before, floodGrowthKiB)
			require.LessOrEqual(t, logged, int(took.Seconds())+1)
		})
	}
	p.Publish(zmtptest.Numbered(sequence, fpm.AppendPayload(nil, &fpm.ForwardPass{
		WorkerID: []byte("w"), CounterID: int64(sequence), WallTime: 0.01, Scheduled: fpm.Scheduled{DecodeRequests: 1},
	}))...)
	s.waitRows(1)
	require.InDelta(t, sequence+1, s.received(), 0)
	s.requireNoGrowth(held)
	s.Stop()
	s.RequireNoPanic()
}

// warnings counts the lines that a peer can cause.
func warnings(log string) int {
	return strings.Count(log, "Invalid message") + strings.Count(log, "Endpoint down") + strings.Count(log, "\tConnected")
}

// TestConnectionFloods_FR5_FR6 lets peers break the protocol as fast as the
// collector connects again, with the shortest back-off.
func TestConnectionFloods_FR5_FR6(t *testing.T) {
	good := newLocal(t, "w")
	var endpoints []string
	scripts := []func(net.Conn){}
	for _, a := range adversaries() {
		scripts = append(scripts, a.script)
	}
	oversize := zmtptest.Message(zmtptest.Numbered(0, make([]byte, 1<<20+1))...)
	scripts = append(scripts, says(handshake(), oversize))
	for _, script := range scripts {
		endpoints = append(endpoints, hostile(t, script))
	}
	s := newStage(t, setting{
		endpoints:  append(endpoints, good.Endpoint()),
		connection: "    connection: {initial_backoff: 5ms, max_backoff: 5ms}",
	})
	good.WaitSubscribers(1)
	attempts := func() float64 { return s.Metrics().Sum(metricConnects, nil) }
	harness.Eventually(t, func() bool { return attempts() > 500 }, "too few attempts")
	before, held, lines, began := residentKiB(t, s.PID()), s.usage(), warnings(s.Log()), attempts()
	start := time.Now()
	for time.Since(start) < brief(time.Second, pick(5*time.Second, 20*time.Second)) {
		fleet{good}.publish(10, 10*time.Millisecond)
	}
	took := time.Since(start)
	made, growth, logged := attempts()-began, residentKiB(t, s.PID())-before, warnings(s.Log())-lines
	t.Logf("%v attempts in %v, RSS %d KiB and %+d, %d log lines", made, took.Round(time.Millisecond), before, growth, logged)
	require.Less(t, growth, floodGrowthKiB)
	require.Less(t, logged, len(scripts)*(int(took.Seconds())+1))
	s.requireNoGrowth(held)
	account := s.close(fleet{good}.sent(), true)
	require.Equal(t, len(good.log), account.Fates[accounting.Written], fmt.Sprint(account))
}
