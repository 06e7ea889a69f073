// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// Message is one line of a publisher's log. It is written before the message is
// sent, so after a kill the last one may not have been.
type Message struct {
	Endpoint string `json:"endpoint"` // as the receiver names it
	Life     int    `json:"life"`     // of the publisher; each process is one
	Sequence uint64 `json:"sequence"`
	WorkerID string `json:"worker_id"`
	// Invalid is the reason under which the receiver must count the message. Such
	// a message has a sequence frame that can be read (STR-69).
	Invalid string `json:"invalid"`
	// Text is that of the payload in a row, and names the message: no two are
	// alike. Empty for an invalid one.
	Text   string `json:"text"`
	SentNS int64  `json:"sent_ns"`
}

// Arrival is a record that reached the end of a pipeline: a row of a trace file, or
// what a backend took.
type Arrival struct {
	Text       string
	ObservedMS uint64 // when the receiver got it
}

// Evidence is all that is known of a run.
type Evidence struct {
	// Sent holds the messages of all publishers, those of an endpoint in the order
	// of sending.
	Sent []Message
	// Arrived holds the records that came out, those of a worker in their order.
	Arrived []Arrival
	// Telemetry is the collector's own, scraped once nothing moved any more, or the
	// last that it reported at its end. Nil: it ended without. Then nothing was there to count a loss, so a hole in the
	// middle of a stream is a discrepancy.
	Telemetry harness.Samples
	// TraceFiles: the arrivals are rows of the trace exporter, so that its counters
	// belong to the account.
	TraceFiles bool
	// Unbroken: every publisher had its subscriber before its first message, had
	// no limit for what waits, and no connection ended. Then nothing is invisible.
	Unbroken bool
	// Redelivery allows records to arrive again, and late.
	Redelivery bool
	// Ends are the times when a collector ended and its successor began without
	// knowledge of the streams.
	Ends []time.Time
}

// Fate is what became of a message.
type Fate string

// The fates. A message has exactly one.
const (
	Written      Fate = "written"
	Invalid      Fate = "invalid: counted by reason, or lost as any other"
	Counted      Fate = "in a hole, counted as missing or dropped"
	Dropped      Fate = "at an edge, counted as dropped"
	Shutdown     Fate = "received after the last record, counted as dropped at the shutdown"
	BeforeFirst  Fate = "invisible: before the first record of the stream"
	AfterLast    Fate = "invisible: after the last record of the stream"
	EngineDeath  Fate = "invisible: tail of a dead publisher, or head of the next"
	CollectorEnd Fate = "invisible: between the end of a collector and the first record of the next"
	Unexplained  Fate = "unexplained"
)

// Account explains every message of a run.
type Account struct {
	Fates    map[Fate]int
	Repeated int // arrivals beyond the first of a message
	Totals   Totals
	// Discrepancies are what does not add up. None: the account is closed.
	Discrepancies []string
}

// Totals are what the collector counted, over all endpoints.
type Totals struct {
	Messages, Records, Duplicates, Invalid, Missing, Restarts int
	Dropped                                                   map[string]int // by who dropped and reason
}

// Own telemetry that the account closes over.
const (
	metricMessages    = "otelcol_fpm_receiver_messages"
	metricRecords     = "otelcol_fpm_receiver_records"
	metricInvalid     = "otelcol_fpm_receiver_invalid_messages"
	metricDuplicates  = "otelcol_fpm_receiver_duplicates"
	metricMissing     = "otelcol_fpm_receiver_missing_records"
	metricRestarts    = "otelcol_fpm_receiver_restarts"
	metricDropped     = "otelcol_fpm_receiver_dropped_records"
	metricQueued      = "otelcol_fpm_receiver_queue_records"
	metricRows        = "otelcol_fpm_trace_exporter_rows_written"
	metricRowsDropped = "otelcol_fpm_trace_exporter_rows_dropped"
)

// Explain says what became of every message, and what contradicts it. It guesses
// nothing: what publish and subscribe make invisible has a fate of its own.
func Explain(e Evidence) Account {
	x := explanation{
		Evidence: e,
		account:  Account{Fates: map[Fate]int{}, Totals: Totals{Dropped: map[string]int{}}},
		byText:   map[string]int{},
		arrivals: make([][]Arrival, len(e.Sent)),
	}
	x.indexMessages()
	x.matchArrivals()
	x.readDrops()
	for _, endpoint := range x.endpoints() {
		x.explainEndpoint(endpoint)
	}
	x.closeRecords()
	x.closeFates()
	return x.account
}

// explanation is an account in the making.
type explanation struct {
	Evidence
	account  Account
	byText   map[string]int // index into Sent
	arrivals [][]Arrival    // of each message of Sent
	written  int            // messages that arrived
}

func (x *explanation) fault(format string, args ...any) {
	x.account.Discrepancies = append(x.account.Discrepancies, fmt.Sprintf(format, args...))
}

func (x *explanation) indexMessages() {
	for i, m := range x.Sent {
		if m.Invalid != "" {
			continue
		}
		if other, taken := x.byText[m.Text]; taken {
			x.fault("the evidence is ambiguous: %s and %s look alike", x.Sent[other], m)
		}
		x.byText[m.Text] = i
	}
}

// matchArrivals gives each arrival to its message and judges repetition and order.
func (x *explanation) matchArrivals() {
	last := map[string]int{} // newest message that arrived, by endpoint and worker
	for _, arrival := range x.Arrived {
		i, known := x.byText[arrival.Text]
		if !known {
			x.fault("a record arrived that nobody sent: %s", arrival.Text)
			continue
		}
		m := x.Sent[i]
		x.arrivals[i] = append(x.arrivals[i], arrival)
		if n := len(x.arrivals[i]); n > 1 {
			x.account.Repeated++
			if !x.Redelivery {
				x.fault("%s arrived %d times", m, n)
			}
			continue
		}
		x.written++
		stream := m.Endpoint + "\x00" + m.WorkerID
		before, seen := last[stream]
		if seen && i < before && !x.Redelivery {
			x.fault("%s arrived after %s", m, x.Sent[before])
		}
		last[stream] = max(i, before)
	}
}

// readDrops reads every counter of records that were received and did not get
// through.
func (x *explanation) readDrops() {
	if x.Telemetry == nil {
		return
	}
	dropped := x.account.Totals.Dropped
	add := func(who string, counts map[string]float64) {
		for reason, n := range counts {
			if n > 0 {
				dropped[who+", "+reason] += int(n)
			}
		}
	}
	add("receiver", x.Telemetry.By(metricDropped, "reason", harness.Labels{"signal": "logs"}))
	if x.TraceFiles {
		add("trace exporter", x.Telemetry.By(metricRowsDropped, "reason", nil))
	}
	if n := x.Telemetry.Sum(metricQueued, harness.Labels{"signal": "logs"}); n > 0 {
		x.fault("%v records still wait in the receiver: the telemetry is not settled", n)
	}
}

func (x *explanation) dropped() (n int) {
	for _, count := range x.account.Totals.Dropped {
		n += count
	}
	return n
}

func (x *explanation) endpoints() []string {
	set := map[string]bool{}
	for _, m := range x.Sent {
		set[m.Endpoint] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// stretch is what the log of one endpoint says between the records that arrived.
type stretch struct {
	sent, invalid   int
	hole            int // numbers that the receiver must have noticed as absent, invalid ones included
	phantom         int // numbers that it takes for absent, though nobody used them (STR-72 and after)
	restarts        int // that it must have noticed
	edge            int // valid messages outside all holes
	edgeInvalid     int
	edges           map[Fate]int // the same by fate
	holeValid       int
	firstHole       *Message
	invalidByReason map[string]int
}

func (x *explanation) explainEndpoint(endpoint string) {
	s := stretch{edges: map[Fate]int{}, invalidByReason: map[string]int{}}
	var pending []Message
	last := -1
	for i, m := range x.Sent {
		if m.Endpoint != endpoint {
			continue
		}
		s.sent++
		if m.Invalid != "" {
			s.invalid++
			s.invalidByReason[m.Invalid]++
		}
		if len(x.arrivals[i]) == 0 {
			pending = append(pending, m)
			continue
		}
		x.between(&s, last, i, pending)
		pending, last = pending[:0], i
	}
	s.outside(AfterLast, pending)
	x.closeEndpoint(endpoint, &s)
}

// between judges the messages between two that arrived. last < 0: before the first.
func (x *explanation) between(s *stretch, last, next int, pending []Message) {
	if last < 0 {
		s.outside(BeforeFirst, pending)
		return
	}
	a, b := x.Sent[last], x.Sent[next]
	switch {
	case x.collectorEnded(x.arrivals[last][0], x.arrivals[next][0]):
		s.outside(CollectorEnd, pending)
	case a.Life == b.Life:
		s.inHole(pending)
	default:
		s.outside(EngineDeath, pending)
		if a.WorkerID != b.WorkerID || b.Sequence <= a.Sequence {
			s.restarts++
		} else {
			s.phantom += int(b.Sequence - a.Sequence - 1)
		}
	}
}

func (x *explanation) collectorEnded(a, b Arrival) bool {
	return slices.ContainsFunc(x.Ends, func(end time.Time) bool {
		ms := uint64(end.UnixMilli())
		return a.ObservedMS <= ms && ms <= b.ObservedMS
	})
}

func (s *stretch) inHole(pending []Message) {
	s.hole += len(pending)
	for _, m := range pending {
		if m.Invalid == "" {
			s.holeValid++
			if s.firstHole == nil {
				s.firstHole = &m
			}
		}
	}
}

func (s *stretch) outside(fate Fate, pending []Message) {
	for _, m := range pending {
		if m.Invalid == "" {
			s.edge++
			s.edges[fate]++
		} else {
			s.edgeInvalid++
		}
	}
}

// closeEndpoint compares the log of an endpoint with what the receiver counted.
func (x *explanation) closeEndpoint(endpoint string, s *stretch) {
	defer x.assign(s)
	if x.Telemetry == nil {
		if s.holeValid > 0 {
			x.fault("%s: %d records are missing in the middle of a stream, from %s on, and nothing counted them", endpoint, s.holeValid, *s.firstHole)
		}
		return
	}
	of := harness.Labels{"endpoint": endpoint}
	sum := func(metric string) int { return int(x.Telemetry.Sum(metric, of)) }
	messages, records, duplicates := sum(metricMessages), sum(metricRecords), sum(metricDuplicates)
	invalid, missing, restarts := sum(metricInvalid), sum(metricMissing), sum(metricRestarts)
	x.account.Totals.add(messages, records, duplicates, invalid, missing, restarts)

	if messages != records+duplicates+invalid {
		x.fault("%s: %d messages are not %d records, %d duplicates and %d invalid ones", endpoint, messages, records, duplicates, invalid)
	}
	if messages > s.sent {
		x.fault("%s: %d messages received, only %d sent", endpoint, messages, s.sent)
	}
	x.closeInvalid(endpoint, s)
	x.closeHoles(endpoint, s, missing, invalid)
	x.closeShutdown(endpoint, s)
	if x.dropped() == 0 && len(x.Ends) == 0 && restarts != s.restarts {
		x.fault("%s: %d restarts counted, the logs show %d", endpoint, restarts, s.restarts)
	}
	if x.Unbroken {
		x.closeUnbroken(endpoint, s, messages, missing)
	}
}

func (x *explanation) closeInvalid(endpoint string, s *stretch) {
	counted := x.Telemetry.By(metricInvalid, "reason", harness.Labels{"endpoint": endpoint})
	for reason, n := range counted {
		if int(n) > s.invalidByReason[reason] {
			x.fault("%s: %v messages counted as %s, only %d sent", endpoint, n, reason, s.invalidByReason[reason])
		}
	}
}

// closeHoles: every number in a hole was counted as missing, as invalid or as a
// drop, and nothing else was. At the edges of a stream only invalid messages and
// drops can have been counted, because the loss accounting sees nothing there.
func (x *explanation) closeHoles(endpoint string, s *stretch, missing, invalid int) {
	dropped := int(x.Telemetry.Sum(metricDropped, harness.Labels{"endpoint": endpoint, "signal": "logs"}))
	elsewhere := x.dropped() - x.receiverDropped() // by the exporter, of an endpoint that it does not know
	counted := missing + invalid + dropped
	expected := s.hole + s.phantom
	if counted+elsewhere < expected {
		x.fault("%s: %d records and %d invalid messages are absent in the middle of a stream, but only %d are counted: %d missing, %d invalid, %d dropped",
			endpoint, s.holeValid, s.hole-s.holeValid, counted+elsewhere, missing, invalid, dropped+elsewhere)
	}
	most := expected + s.edgeInvalid
	if x.dropped() > 0 {
		most += s.edge
	}
	if counted > most {
		x.fault("%s: %d missing, %d invalid and %d dropped are counted, but at most %d are absent", endpoint, missing, invalid, dropped, most)
	}
}

// closeShutdown tells what the receiver still had when it ended from what it never
// saw. It drops in one piece, at the end: behind the last record that arrived.
func (x *explanation) closeShutdown(endpoint string, s *stretch) {
	dropped := int(x.Telemetry.Sum(metricDropped, harness.Labels{"endpoint": endpoint, "signal": "logs", "reason": "shutdown"}))
	if after := s.edges[AfterLast]; dropped > after {
		x.fault("%s: %d records are counted as dropped at the shutdown, only %d were sent after the last one that arrived", endpoint, dropped, after)
		return
	}
	s.edges[AfterLast] -= dropped
	s.edges[Shutdown] += dropped
}

func (x *explanation) receiverDropped() (n int) {
	for who, count := range x.account.Totals.Dropped {
		if strings.HasPrefix(who, "receiver, ") {
			n += count
		}
	}
	return n
}

// closeUnbroken: with nothing to hide behind, all that was sent was received.
func (x *explanation) closeUnbroken(endpoint string, s *stretch, messages, missing int) {
	if messages != s.sent {
		x.fault("%s: %d sent over an unbroken link, %d received", endpoint, s.sent, messages)
	}
	if missing != 0 {
		x.fault("%s: %d missing over an unbroken link", endpoint, missing)
	}
	if s.edge > 0 && x.dropped() == 0 {
		x.fault("%s: %d records at an edge of the stream did not arrive over an unbroken link, and nothing was dropped", endpoint, s.edge)
	}
}

// assign gives the messages of an endpoint their fates.
func (x *explanation) assign(s *stretch) {
	fates := x.account.Fates
	fates[Invalid] += s.invalid
	if x.Telemetry == nil {
		fates[Unexplained] += s.holeValid
	} else {
		fates[Counted] += s.holeValid
	}
	for fate, n := range s.edges {
		if x.Unbroken && x.dropped() > 0 {
			fate = Dropped
		}
		fates[fate] += n
	}
}

// closeRecords: each record that was received arrived, or was dropped for a reason.
func (x *explanation) closeRecords() {
	if x.Telemetry == nil {
		return
	}
	records := x.account.Totals.Records
	if records != x.written+x.dropped() && !x.Redelivery {
		x.fault("%d records received, %d arrived and %d are counted as dropped %v", records, x.written, x.dropped(), x.account.Totals.Dropped)
	}
	if !x.TraceFiles {
		return
	}
	if rows := int(x.Telemetry.Sum(metricRows, nil)); rows != len(x.Arrived) {
		x.fault("the trace exporter counts %d rows, the files have %d", rows, len(x.Arrived))
	}
}

// closeFates: no message was forgotten.
func (x *explanation) closeFates() {
	x.account.Fates[Written] = x.written
	total := 0
	for _, n := range x.account.Fates {
		total += n
	}
	if total != len(x.Sent) {
		x.fault("%d messages have a fate, %d were sent", total, len(x.Sent))
	}
}

func (t *Totals) add(messages, records, duplicates, invalid, missing, restarts int) {
	t.Messages += messages
	t.Records += records
	t.Duplicates += duplicates
	t.Invalid += invalid
	t.Missing += missing
	t.Restarts += restarts
}

func (m Message) String() string {
	return fmt.Sprintf("message %d of life %d of %s", m.Sequence, m.Life, m.Endpoint)
}

// String is the account as a table.
func (a Account) String() string {
	var b strings.Builder
	for _, fate := range slices.Sorted(maps.Keys(a.Fates)) {
		if n := a.Fates[fate]; n > 0 {
			fmt.Fprintf(&b, "%8d %s\n", n, fate)
		}
	}
	if a.Repeated > 0 {
		fmt.Fprintf(&b, "%8d arrived again\n", a.Repeated)
	}
	fmt.Fprintf(&b, "counted: %+v\n", a.Totals)
	const most = 20
	for i, discrepancy := range a.Discrepancies {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(a.Discrepancies)-most)
			break
		}
		fmt.Fprintf(&b, "DISCREPANCY: %s\n", discrepancy)
	}
	return b.String()
}
