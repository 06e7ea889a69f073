// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

const at = "tcp://h:1"

// story builds evidence by hand.
type story struct{ Evidence }

// tell begins a story of ten messages, all of which arrived and were counted.
func tell() *story {
	s := &story{Evidence{TraceFiles: true, Unbroken: true}}
	s.sends(0, 0, 10)
	for _, m := range s.Sent {
		s.arrives(m.Text, 0)
	}
	s.count(map[string]float64{metricMessages: 10, metricRecords: 10, metricRows: 10})
	return s
}

// sends appends n messages of a life.
func (s *story) sends(life int, first uint64, n int) {
	for i := range uint64(n) {
		s.Sent = append(s.Sent, Message{
			Endpoint: at, WorkerID: "w", Life: life, Sequence: first + i, Text: fmt.Sprintf("%d/%d", life, first+i),
		})
	}
}

func (s *story) arrives(text string, ms uint64) {
	s.Arrived = append(s.Arrived, Arrival{Text: text, ObservedMS: ms})
}

// forget makes messages not arrive, by their text.
func (s *story) forget(texts ...string) {
	var left []Arrival
	for _, a := range s.Arrived {
		if !strings.Contains(" "+strings.Join(texts, " ")+" ", " "+a.Text+" ") {
			left = append(left, a)
		}
	}
	s.Arrived = left
}

// spoil makes the fourth message invalid.
func (s *story) spoil() {
	const i = 3
	s.forget(s.Sent[i].Text)
	s.Sent[i].Text, s.Sent[i].Invalid = "", "truncated"
}

// count replaces the telemetry. A name may have a reason behind a blank.
func (s *story) count(values map[string]float64) {
	s.Telemetry = harness.Samples{}
	for key, value := range values {
		name, reason, _ := strings.Cut(key, " ")
		s.Telemetry = append(s.Telemetry, harness.Sample{
			Name: name, Value: value, Labels: map[string]string{"endpoint": at, "reason": reason, "signal": "logs"},
		})
	}
}

// TestAccountCloses has one story for each fate, and what the account must make of it.
func TestAccountCloses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *story)
		want   map[Fate]int
	}{
		"all written": {func(*story) {}, map[Fate]int{Written: 10}},
		"a hole is counted as missing": {func(s *story) {
			s.Unbroken = false
			s.forget("0/4", "0/5")
			s.count(map[string]float64{metricMessages: 8, metricRecords: 8, metricRows: 8, metricMissing: 2})
		}, map[Fate]int{Written: 8, Counted: 2}},
		"before and after are invisible": {func(s *story) {
			s.Unbroken = false
			s.forget("0/0", "0/1", "0/9")
			s.count(map[string]float64{metricMessages: 7, metricRecords: 7, metricRows: 7})
		}, map[Fate]int{Written: 7, BeforeFirst: 2, AfterLast: 1}},
		"invalid ones are counted": {func(s *story) {
			s.spoil()
			s.count(map[string]float64{metricMessages: 10, metricRecords: 9, metricRows: 9, metricInvalid + " truncated": 1})
		}, map[Fate]int{Written: 9, Invalid: 1}},
		"an invalid one that was lost is missing": {func(s *story) {
			s.Unbroken = false
			s.spoil()
			s.count(map[string]float64{metricMessages: 9, metricRecords: 9, metricRows: 9, metricMissing: 1})
		}, map[Fate]int{Written: 9, Invalid: 1}},
		"the receiver drops": {func(s *story) {
			s.forget("0/8", "0/9")
			s.count(map[string]float64{metricMessages: 10, metricRecords: 10, metricRows: 8, metricDropped + " queue_full": 2})
		}, map[Fate]int{Written: 8, Dropped: 2}},
		"the shutdown drops": {func(s *story) {
			s.Unbroken = false
			s.forget("0/7", "0/8", "0/9")
			s.count(map[string]float64{metricMessages: 9, metricRecords: 9, metricRows: 7, metricDropped + " shutdown": 2})
		}, map[Fate]int{Written: 7, Shutdown: 2, AfterLast: 1}},
		"the exporter drops": {func(s *story) {
			s.forget("0/0", "0/5")
			s.count(map[string]float64{metricMessages: 10, metricRecords: 10, metricRows: 8, metricRowsDropped + " queue_full": 2})
		}, map[Fate]int{Written: 8, Counted: 1, Dropped: 1}},
		"a restart is seen": {func(s *story) {
			s.Unbroken = false
			s.forget("0/9")
			s.sends(1, 0, 3)
			s.arrives("1/1", 0)
			s.arrives("1/2", 0)
			s.count(map[string]float64{metricMessages: 11, metricRecords: 11, metricRows: 11, metricRestarts: 1})
		}, map[Fate]int{Written: 11, EngineDeath: 2}},
		"a restart at a higher number is a gap (STR-E21)": {func(s *story) {
			s.Unbroken = false
			s.sends(1, 20, 3)
			s.arrives("1/21", 0)
			s.arrives("1/22", 0)
			s.count(map[string]float64{metricMessages: 12, metricRecords: 12, metricRows: 12, metricMissing: 11})
		}, map[Fate]int{Written: 12, EngineDeath: 1}},
		"a killed collector": {func(s *story) {
			s.Ends = []time.Time{time.UnixMilli(5)}
			s.Arrived = nil
			s.Unbroken, s.Telemetry = false, nil
			for i, m := range s.Sent {
				if i < 3 || i > 6 {
					s.arrives(m.Text, uint64(i))
				}
			}
		}, map[Fate]int{Written: 6, CollectorEnd: 4}},
		"redelivery": {func(s *story) {
			s.Redelivery, s.Telemetry = true, nil
			s.arrives("0/3", 0)
		}, map[Fate]int{Written: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell()
			tc.change(s)
			account := Explain(s.Evidence)
			require.Empty(t, account.Discrepancies, account)
			for fate, n := range account.Fates {
				require.Equal(t, tc.want[fate], n, fate)
			}
			for fate := range tc.want {
				require.Contains(t, account.Fates, fate)
			}
		})
	}
}

// TestAccountReportsDiscrepancies cooks the books in every way that matters.
func TestAccountReportsDiscrepancies(t *testing.T) {
	complete := map[string]float64{metricMessages: 10, metricRecords: 10, metricRows: 10}
	with := func(name string, value float64) map[string]float64 {
		values := map[string]float64{name: value}
		for n, v := range complete {
			if n != name {
				values[n] = v
			}
		}
		return values
	}
	for name, tc := range map[string]struct {
		change func(s *story)
		says   string
	}{
		"a row is gone":         {func(s *story) { s.forget("0/5") }, "10 records received, 9 arrived"},
		"the first row is gone": {func(s *story) { s.forget("0/0") }, "did not arrive over an unbroken link"},
		"the last row is gone":  {func(s *story) { s.forget("0/9") }, "did not arrive over an unbroken link"},
		"a row stands twice":    {func(s *story) { s.arrives("0/9", 0) }, "arrived 2 times"},
		"rows swapped": {func(s *story) {
			s.Arrived[3], s.Arrived[4] = s.Arrived[4], s.Arrived[3]
		}, "arrived after"},
		"a row that nobody sent":    {func(s *story) { s.arrives("x", 0) }, "nobody sent"},
		"a row of other text":       {func(s *story) { s.Arrived[2].Text += " " }, "nobody sent"},
		"two messages look alike":   {func(s *story) { s.Sent[1].Text = "0/0" }, "ambiguous"},
		"one row too few counted":   {func(s *story) { s.count(with(metricRows, 9)) }, "counts 9 rows, the files have 10"},
		"one record too few":        {func(s *story) { s.count(with(metricRecords, 9)) }, "10 messages are not 9 records"},
		"one message too many":      {func(s *story) { s.count(with(metricMessages, 11)) }, "only 10 sent"},
		"missing counted for none":  {func(s *story) { s.count(with(metricMissing, 1)) }, "1 missing"},
		"a restart counted of none": {func(s *story) { s.count(with(metricRestarts, 1)) }, "1 restarts counted"},
		"a drop counted of none":    {func(s *story) { s.count(with(metricDropped+" queue_full", 1)) }, "1 are counted as dropped"},
		"a row drop counted":        {func(s *story) { s.count(with(metricRowsDropped+" queue_full", 1)) }, "1 are counted as dropped"},
		"invalid counted of none":   {func(s *story) { s.count(with(metricInvalid+" too_deep", 1)) }, "counted as too_deep"},
		"a record still waits":      {func(s *story) { s.count(with(metricQueued, 1)) }, "not settled"},
		"a hole counted too low": {func(s *story) {
			s.Unbroken = false
			s.forget("0/4", "0/5")
			s.count(map[string]float64{metricMessages: 8, metricRecords: 8, metricRows: 8, metricMissing: 1})
		}, "only 1 are counted"},
		"a hole counted too high": {func(s *story) {
			s.Unbroken = false
			s.forget("0/4", "0/5")
			s.count(map[string]float64{metricMessages: 8, metricRecords: 8, metricRows: 8, metricMissing: 3})
		}, "3 missing"},
		"an edge counted as missing": {func(s *story) {
			s.Unbroken = false
			s.forget("0/0", "0/9")
			s.count(map[string]float64{metricMessages: 8, metricRecords: 8, metricRows: 8, metricMissing: 1})
		}, "1 missing"},
		"an invalid one not counted": {func(s *story) {
			s.spoil()
			s.count(map[string]float64{metricMessages: 10, metricRecords: 9, metricRows: 9})
		}, "are not 9 records"},
		"an invalid one under another reason": {func(s *story) {
			s.spoil()
			s.count(map[string]float64{metricMessages: 10, metricRecords: 9, metricRows: 9, metricInvalid + " too_deep": 1})
		}, "counted as too_deep"},
		"a drop at the shutdown of what was not sent": {func(s *story) {
			s.Unbroken = false
			s.forget("0/5", "0/9")
			s.count(map[string]float64{metricMessages: 10, metricRecords: 10, metricRows: 8, metricDropped + " shutdown": 2})
		}, "only 1 were sent after"},
		"a hole without telemetry": {func(s *story) {
			s.Telemetry = nil
			s.forget("0/4")
		}, "nothing counted them"},
		"a hole inside one life of two": {func(s *story) {
			s.Unbroken, s.Telemetry = false, nil
			s.Ends = []time.Time{time.UnixMilli(5)}
			s.Arrived = nil
			for i, m := range s.Sent {
				if i != 3 && i != 6 { // 3 and 6 lie within a life of the collector
					s.arrives(m.Text, uint64(i))
				}
			}
			s.Arrived = append(s.Arrived[:4], s.Arrived[5:]...) // 5 is gone, too
		}, "missing in the middle"},
		"a restart not counted": {func(s *story) {
			s.sends(1, 0, 1)
			s.arrives("1/0", 0)
			s.count(map[string]float64{metricMessages: 11, metricRecords: 11, metricRows: 11})
		}, "0 restarts counted, the logs show 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell()
			tc.change(s)
			account := Explain(s.Evidence)
			require.Contains(t, strings.Join(account.Discrepancies, "\n"), tc.says, account)
		})
	}
}
