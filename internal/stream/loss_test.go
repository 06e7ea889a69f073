// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// step is one arrival of a worked example of fpm-stream.md, section 9.
type step struct {
	endpoint   string // default "A"
	worker     string
	rank       int64
	sequence   int64
	counter    int64 // 0: the sequence
	payload    string
	generation uint64
	invalid    bool
}

// totals are the columns of the worked examples.
type totals struct {
	forwarded, missing, gaps, duplicates, restarts, invalid, mismatches int64
}

func n(sequence int64) step         { return step{sequence: sequence} }
func bad(sequence int64) step       { return step{sequence: sequence, invalid: true} }
func later(s step) step             { s.generation++; return s }
func other(s step) step             { s.payload = "other"; return s }
func by(worker string, s step) step { s.worker = worker; return s }
func rank(r int64, s step) step     { s.rank = r; return s }
func on(endpoint string, s step) step {
	s.endpoint = endpoint
	return s
}

func TestLossExamples(t *testing.T) {
	for _, tt := range []struct {
		id    string
		steps []step
		want  totals
	}{
		{"STR-E1", []step{n(5), n(6), n(7)}, totals{forwarded: 3}},
		{"STR-E2", []step{n(10), n(15)}, totals{forwarded: 2, missing: 4, gaps: 1}},
		{"STR-E3", []step{n(10), n(12), n(13), n(20)}, totals{forwarded: 4, missing: 7, gaps: 2}},
		{"STR-E4", []step{n(0), n(1), n(1), n(2)}, totals{forwarded: 3, duplicates: 1}},
		{"STR-E5", []step{n(100), n(0), n(1)}, totals{forwarded: 3, restarts: 1}},
		{"STR-E6", []step{n(100), n(3), n(5)}, totals{forwarded: 3, missing: 1, gaps: 1, restarts: 1}},
		{"STR-E7", []step{n(5), n(6), later(n(9))}, totals{forwarded: 3, missing: 2, gaps: 1}},
		{"STR-E8", []step{n(5), n(6), later(n(6)), later(n(7))}, totals{forwarded: 3, duplicates: 1}},
		{"STR-E9", []step{n(10), bad(11), n(12)}, totals{forwarded: 2, invalid: 1}},
		{"STR-E10", []step{n(10), bad(12), n(14)}, totals{forwarded: 2, missing: 2, gaps: 1, invalid: 1}},
		{"STR-E11", []step{n(10), bad(10), n(11)}, totals{forwarded: 2, invalid: 1}},
		{"STR-E12", []step{n(10), bad(4), n(11)}, totals{forwarded: 2, invalid: 1}},
		{"STR-E13", []step{bad(3), bad(4), n(9)}, totals{forwarded: 1, invalid: 2}},
		// The number of an oversize message is not known: nothing to remember (STR-70).
		{"STR-E14", []step{n(10), later(n(12))}, totals{forwarded: 2, missing: 1, gaps: 1}},
		{"STR-E15", []step{{sequence: 7, counter: 9}, {sequence: 8, counter: 8}}, totals{forwarded: 2, mismatches: 1}},
		{"STR-67 counter below the sequence", []step{{sequence: 9, counter: 7}}, totals{forwarded: 1, mismatches: 1}},
		{"STR-E16", []step{by("7", n(5)), by("7", n(6)), by("8", n(0)), by("8", n(1))}, totals{forwarded: 4, restarts: 1}},
		{"STR-E17", []step{n(5), n(6), on("B", n(100)), on("B", n(101))}, totals{forwarded: 4}},
		{"STR-E18", []step{n(0), n(math.MaxInt64)}, totals{forwarded: 2, missing: math.MaxInt64 - 1, gaps: 1}},
		{
			"STR-E19 STR-71 STR-93",
			[]step{n(0), n(math.MaxInt64), n(1), n(math.MaxInt64)},
			totals{forwarded: 4, missing: math.MaxInt64, gaps: 2, restarts: 1},
		},
		{"STR-E20", []step{n(50), n(51)}, totals{forwarded: 2}},
		{"STR-E21", []step{n(5), later(n(9))}, totals{forwarded: 2, missing: 3, gaps: 1}},
		{"STR-E22 STR-64", []step{n(5), n(6), n(8)}, totals{forwarded: 3, missing: 1, gaps: 1}},
		{"STR-E23", []step{n(5), n(6), other(later(n(6))), later(n(7))}, totals{forwarded: 4, restarts: 1}},
		{"STR-E24", []step{n(5), n(6), other(n(6)), n(7)}, totals{forwarded: 3, duplicates: 1}},
		{"STR-E25", []step{by("7", n(5)), by("7", n(6)), by("8", n(0)), by("7", n(2))}, totals{forwarded: 4, restarts: 2}},
		{"STR-E26", []step{rank(0, n(5)), rank(1, n(6)), rank(0, n(6))}, totals{forwarded: 3}},
		{"FR-12", []step{n(10), n(15), n(16)}, totals{forwarded: 3, missing: 4, gaps: 1}},
		{"FR-13 duplicate", []step{n(7), n(7)}, totals{forwarded: 1, duplicates: 1}},
		{"FR-13 restart", []step{n(7), other(later(n(7)))}, totals{forwarded: 2, restarts: 1}},
		{"ZF-50 lower", []step{n(5), n(6), later(n(0))}, totals{forwarded: 3, restarts: 1}},
		{"STR-69 cleared by a forwarded message", []step{n(10), bad(13), n(11), n(14)}, totals{forwarded: 3, missing: 2, gaps: 1, invalid: 1}},
		{
			"STR-69 cleared by a forwarded message of another stream",
			[]step{n(10), bad(12), rank(1, n(50)), n(14)},
			totals{forwarded: 3, missing: 3, gaps: 1, invalid: 1},
		},
		{"STR-69 kept over a duplicate", []step{n(10), bad(11), n(10), n(12)}, totals{forwarded: 2, duplicates: 1, invalid: 1}},
		{"STR-69 the same number twice", []step{n(10), bad(11), bad(11), n(13)}, totals{forwarded: 2, missing: 1, gaps: 1, invalid: 2}},
		{"STR-66 the equal number of an older generation", []step{later(n(6)), other(n(6))}, totals{forwarded: 1, duplicates: 1}},
		{"STR-66 other length", []step{n(6), {sequence: 6, generation: 1, payload: "p" + strconv.Itoa(6) + "0"}}, totals{forwarded: 2, restarts: 1}},
	} {
		t.Run(tt.id, func(t *testing.T) {
			require.Equal(t, tt.want, play(t, tt.steps))
		})
	}
}

// play feeds arrivals to a fresh registry and adds up the verdicts.
func play(t *testing.T, steps []step) (sum totals) {
	t.Helper()
	r := NewRegistry(testConfig())
	endpoints := map[string]*Endpoint{}
	for _, s := range steps {
		if s.endpoint == "" {
			s.endpoint = "A"
		}
		if endpoints[s.endpoint] == nil {
			e, err := r.Add(s.endpoint)
			require.NoError(t, err)
			endpoints[s.endpoint] = e
		}
		if s.invalid {
			endpoints[s.endpoint].Invalid(s.sequence)
			sum.invalid++
			continue
		}
		sum.add(endpoints[s.endpoint].Observe(arrival(s)))
	}
	return sum
}

func (sum *totals) add(v Verdict) {
	if v.Duplicate {
		sum.duplicates++
		return
	}
	sum.forwarded++
	sum.missing = fpm.AddSaturating(sum.missing, v.Missing)
	for condition, total := range map[*bool]*int64{&v.Gap: &sum.gaps, &v.Restart: &sum.restarts, &v.CounterMismatch: &sum.mismatches} {
		if *condition {
			*total++
		}
	}
}

// arrival of a step: equal numbers carry equal bytes unless the step says so.
func arrival(s step) Arrival {
	if s.counter == 0 {
		s.counter = s.sequence
	}
	if s.payload == "" {
		s.payload = "p" + strconv.FormatInt(s.sequence, 10)
	}
	return Arrival{
		WorkerID: []byte(s.worker), DPRank: s.rank, CounterID: s.counter, Sequence: s.sequence,
		Generation: s.generation, Payload: []byte(s.payload), ReceivedAt: start,
	}
}

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func testConfig() Config {
	return Config{StaleAfter: time.Minute, ForgetAfter: time.Hour, MaxStreams: 4096}
}

func TestSTR_69_MemoryIsBounded(t *testing.T) {
	var s invalidSequences
	for i := range int64(5 * maxInvalidRemembered) {
		s.add(i)
	}
	require.Len(t, s.ring, maxInvalidRemembered)
	require.Len(t, s.known, maxInvalidRemembered)
	require.EqualValues(t, maxInvalidRemembered, s.between(-1, math.MaxInt64))
	require.Zero(t, s.between(-1, 4*maxInvalidRemembered), "the oldest are forgotten first")
	s.clear()
	require.Zero(t, s.between(-1, math.MaxInt64))
	s.add(1)
	require.EqualValues(t, 1, s.between(0, 2))
}

func TestObserveAllocatesNothing(t *testing.T) {
	r := NewRegistry(testConfig())
	e, err := r.Add("A")
	require.NoError(t, err)
	a := arrival(by("4192", n(0)))
	e.Observe(a)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		a.Sequence++
		a.CounterID++
		if v := e.Observe(a); v.Duplicate || v.Missing != 0 {
			t.Fatal("not in sequence")
		}
	}))
}

func BenchmarkObserve(b *testing.B) {
	r := NewRegistry(testConfig())
	e, err := r.Add("A")
	require.NoError(b, err)
	a := arrival(by("4192", n(0)))
	a.Payload = make([]byte, 416)
	b.ReportAllocs()
	b.SetBytes(1)
	for b.Loop() {
		a.Sequence++
		a.CounterID++
		e.Observe(a)
	}
}
