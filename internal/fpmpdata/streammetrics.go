// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"sync"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// MetricsConfig is how streams are measured. It is shared by all of them and
// must not change.
type MetricsConfig struct {
	IdleAfter   time.Duration // without work: a heartbeat sets the gauges to 0 (STR-97)
	StaleAfter  time.Duration // without a record: the series end (STR-98)
	Buckets     []float64     // of the duration histogram, in seconds
	Exponential bool          // an exponential duration histogram instead
}

// phase tells prefill from decode.
type phase int

const (
	prefill phase = iota
	decode
	phases
)

var phaseNames = [phases]string{prefill: "prefill", decode: "decode"}

// StreamMetrics are the totals of one stream, in plain numbers: they are folded
// a message at a time and become pdata once an interval (COL-98). Fold, Offer
// and the emission may run in different goroutines.
type StreamMetrics struct {
	cfg    *MetricsConfig
	dpRank int64
	start  time.Time // of all its totals: the receiver's first record of the stream (COL-92)
	worker *Worker

	mu         sync.Mutex
	inEmission bool // its series are about to exist or to end
	emitted    bool // its series exist
	stale      bool // and have ended
	forgotten  bool // it lost its state

	emittedTimings int // how many of timings have series

	totals
}

// totals are what the records of a stream add up to, and what the last ones said.
type totals struct {
	records       [fpm.RecordKinds]int64
	missing       int64
	passes        [fpm.PassKinds]int64
	untimed       [fpm.PassKinds]int64
	timings       []*timing // in the order of their first record
	steps         [phases]int64
	prefillTokens int64
	kvRead        [phases]int64
	batchRequests [phases]bucketHistogram
	batchTokens   bucketHistogram
	state         gauges

	lastRecord  time.Time
	lastWork    time.Time
	lastWorkFor time.Duration
}

// timing holds the times of one timing scope: they are never mixed (STR-21).
type timing struct {
	scope    string
	hasScope bool
	time     [fpm.PassKinds]floatSum
	duration [fpm.PassKinds]durationHistogram
}

// gauges are what the last record said; zero when idle.
type gauges struct {
	batchKV            [phases]int64
	queueRequests      [phases]int64
	queuePrefillTokens int64
	queueDecodeKV      int64
}

// NewStreamMetrics makes the metrics of a stream at its first record.
func NewStreamMetrics(cfg *MetricsConfig, worker *Worker, dpRank int64, start time.Time) *StreamMetrics {
	return &StreamMetrics{cfg: cfg, worker: worker, dpRank: dpRank, start: start, totals: newTotals()}
}

func newTotals() totals {
	t := totals{batchTokens: newBucketHistogram(batchTokenBuckets)}
	for p := range phases {
		t.batchRequests[p] = newBucketHistogram(batchRequestBuckets)
	}
	return t
}

// Rename is for a stream that returned from stale under another identity: its
// totals go on in the metrics that are returned, and the series under the old name
// end, as those of a stream that lost its state.
func (m *StreamMetrics) Rename(worker *Worker) *StreamMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	renamed := &StreamMetrics{cfg: m.cfg, worker: worker, dpRank: m.dpRank, start: m.start, totals: m.totals}
	m.totals = newTotals()
	for _, t := range renamed.timings {
		m.timings = append(m.timings, newTiming(m.cfg, t.scope, t.hasScope))
	}
	m.forgotten = true
	return renamed
}

// Fold adds one record (section 8 of the stream's rules). missing is how many
// records before it never arrived. The pass is only read;
// its scope is one that TimingScopes let through.
func (m *StreamMetrics) Fold(p *fpm.ForwardPass, missing int64, at time.Time) {
	kind := p.RecordKind()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[kind] = fpm.AddSaturating(m.records[kind], 1)
	m.missing = fpm.AddSaturating(m.missing, missing)
	m.lastRecord, m.stale = at, false
	timing := m.timingOf(p.TimingScope)
	switch kind {
	case fpm.RecordPass:
		m.foldTime(timing, p)
		m.foldWork(p, at)
		m.lastWorkFor = seconds(p.WallTime)
	case fpm.RecordUntimed:
		m.untimed[p.PassKind()] = fpm.AddSaturating(m.untimed[p.PassKind()], 1)
		m.foldWork(p, at)
		m.lastWorkFor = 0
	case fpm.RecordQueueOnly:
		m.state.setQueue(&p.Queued)
		if m.idle(at) {
			m.state.batchKV = [phases]int64{}
		}
	case fpm.RecordHeartbeat:
		if m.idle(at) {
			m.state = gauges{}
		}
	}
}

// idle tells whether a record without work means that there is none (STR-97).
func (m *StreamMetrics) idle(at time.Time) bool {
	return at.Sub(m.lastWork) >= max(m.cfg.IdleAfter, 2*m.lastWorkFor)
}

// timingOf gives the totals of a timing scope. nil is the absence of one.
func (m *StreamMetrics) timingOf(scope []byte) *timing {
	for _, t := range m.timings {
		if t.hasScope == (scope != nil) && t.scope == string(scope) {
			return t
		}
	}
	t := newTiming(m.cfg, string(scope), scope != nil)
	m.timings = append(m.timings, t)
	return t
}

func newTiming(cfg *MetricsConfig, scope string, hasScope bool) *timing {
	t := &timing{scope: scope, hasScope: hasScope}
	for kind := range t.duration {
		t.duration[kind] = newDurationHistogram(cfg)
	}
	return t
}

func (m *StreamMetrics) foldTime(t *timing, p *fpm.ForwardPass) {
	kind := p.PassKind()
	t.time[kind].add(p.WallTime)
	t.duration[kind].record(p.WallTime)
}

func (m *StreamMetrics) foldWork(p *fpm.ForwardPass, at time.Time) {
	kind := p.PassKind()
	s := &p.Scheduled
	m.passes[kind] = fpm.AddSaturating(m.passes[kind], 1)
	m.prefillTokens = fpm.AddSaturating(m.prefillTokens, s.PrefillTokens)
	requests := [phases]int64{prefill: s.PrefillRequests, decode: s.DecodeRequests}
	kv := [phases]int64{prefill: s.PrefillKVTokens, decode: s.DecodeKVTokens}
	for ph := range phases {
		m.steps[ph] = fpm.AddSaturating(m.steps[ph], requests[ph])
		m.kvRead[ph] = fpm.AddSaturating(m.kvRead[ph], kv[ph])
		if requests[ph] > 0 {
			m.batchRequests[ph].record(float64(requests[ph]))
		}
	}
	m.batchTokens.record(float64(fpm.AddSaturating(s.PrefillTokens, s.DecodeRequests)))
	m.state.batchKV = kv
	m.state.setQueue(&p.Queued)
	m.lastWork = at
}

func (g *gauges) setQueue(q *fpm.Queued) {
	g.queueRequests = [phases]int64{prefill: q.PrefillRequests, decode: q.DecodeRequests}
	g.queuePrefillTokens = q.PrefillTokens
	g.queueDecodeKV = q.DecodeKVTokens
}

// Forget ends a stream that lost its state (STR-99).
func (m *StreamMetrics) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten = true
}

// Done tells whether a forgotten stream needs no emission anymore: its series
// have ended or were never begun. What becomes of one that is just being emitted
// is not known yet.
func (m *StreamMetrics) Done() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgotten && !m.inEmission && (m.stale || !m.emitted)
}

// Over tells whether the stream's series are to end by now.
func (m *StreamMetrics) Over(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over(now)
}

func (m *StreamMetrics) over(now time.Time) bool {
	return m.forgotten || now.Sub(m.lastRecord) >= m.cfg.StaleAfter
}

// Offer keeps an exemplar of a pass whose span was emitted.
func (m *StreamMetrics) Offer(s *Span) {
	var scope []byte
	if s.HasScope {
		scope = []byte(s.Scope)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timingOf(scope).duration[s.PassKind].offer(exemplar{
		seconds: s.Seconds, end: s.End, traceID: s.ID.Trace, spanID: s.ID.Span,
	})
}
