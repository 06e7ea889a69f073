// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// TracesConfig bounds a trace. It is shared by all streams and must not change.
type TracesConfig struct {
	Window      time.Duration // a trace covers no more, unless a single pass does
	MaxSpans    int           // of a trace, its root included; at least 2
	MinDuration time.Duration // of a pass that becomes a span
}

// StreamTraces cuts one stream into windows, a trace each. Add and Expire may
// run in different goroutines.
type StreamTraces struct {
	cfg   *TracesConfig
	key   fpm.StreamKey
	start time.Time // of the stream: ids of two lives never meet

	mu       sync.Mutex
	windows  int64 // opened so far
	open     *window
	previous windowID
}

// windowID identifies the trace of a window and, by an index, its spans. Index 0
// is the root.
type windowID struct {
	trace pcommon.TraceID
	seed  uint64
}

// Window is a closed window: what its root span says.
type Window struct {
	Start, End time.Time
	Number     int64 // from 1
	Passes     int64
	Seconds    float64
	Work       fpm.Scheduled // sums over the passes
	DPRank     int64
	WorkerID   string

	id, previous windowID
}

// window is one that is open.
type window struct {
	Window
	seconds floatSum
}

// SpanID tells where a pass's span belongs.
type SpanID struct {
	Trace        pcommon.TraceID
	Span, Parent pcommon.SpanID
}

// NewStreamTraces makes the windows of a stream at its first record.
func NewStreamTraces(cfg *TracesConfig, key fpm.StreamKey, start time.Time) *StreamTraces {
	return &StreamTraces{cfg: cfg, key: key, start: start}
}

// Wants tells whether a record becomes a span: timed passes of at least
// MinDuration do.
func (t *StreamTraces) Wants(p *fpm.ForwardPass) bool {
	return p.RecordKind() == fpm.RecordPass && seconds(p.WallTime) >= t.cfg.MinDuration
}

// seconds rounds to the nanosecond, so that a wall_time of 6.472394 ms is that.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Add places a pass that Wants accepted. When it begins a new window, the one
// before is returned: its root span is sent first.
func (t *StreamTraces) Add(p *fpm.ForwardPass, end time.Time) (id SpanID, closed *Window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	start := end.Add(-seconds(p.WallTime))
	if t.open != nil && !t.open.fits(t.cfg, end) {
		closed = t.close()
	}
	if t.open == nil {
		t.begin(start, end)
	}
	t.open.add(p, start, end)
	return SpanID{
		Trace:  t.open.id.trace,
		Span:   t.open.id.span(uint64(t.open.Passes)), //nolint:gosec // at most MaxSpans
		Parent: t.open.id.span(0),
	}, closed
}

// Expire closes the open window when it is over by now, whatever comes.
func (t *StreamTraces) Expire(now time.Time) *Window {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil || now.Sub(t.open.Start) < t.cfg.Window {
		return nil
	}
	return t.close()
}

// Close closes the open window, if there is one.
func (t *StreamTraces) Close() *Window {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		return nil
	}
	return t.close()
}

func (t *StreamTraces) begin(start, end time.Time) {
	t.windows++
	t.open = &window{Window: Window{
		Start: start, End: end, Number: t.windows,
		DPRank: t.key.DPRank, WorkerID: t.key.WorkerID,
		id: t.idOf(t.windows), previous: t.previous,
	}}
}

func (t *StreamTraces) close() *Window {
	closed := &t.open.Window
	closed.Seconds = t.open.seconds.value()
	t.previous = closed.id
	t.open = nil
	return closed
}

func (w *window) fits(cfg *TracesConfig, end time.Time) bool {
	return w.Passes+1 < int64(cfg.MaxSpans) && end.Sub(w.Start) <= cfg.Window
}

func (w *window) add(p *fpm.ForwardPass, start, end time.Time) {
	if start.Before(w.Start) {
		w.Start = start
	}
	if end.After(w.End) {
		w.End = end
	}
	w.Passes++
	w.seconds.add(p.WallTime)
	for _, sum := range []struct{ total, value *int64 }{
		{&w.Work.PrefillRequests, &p.Scheduled.PrefillRequests},
		{&w.Work.PrefillTokens, &p.Scheduled.PrefillTokens},
		{&w.Work.PrefillKVTokens, &p.Scheduled.PrefillKVTokens},
		{&w.Work.DecodeRequests, &p.Scheduled.DecodeRequests},
		{&w.Work.DecodeKVTokens, &p.Scheduled.DecodeKVTokens},
	} {
		*sum.total = fpm.AddSaturating(*sum.total, *sum.value)
	}
}

// BusyRatio is the share of the window that passes took. It can exceed 1 where
// an engine reports times that overlap.
func (w *Window) BusyRatio() float64 {
	duration := w.End.Sub(w.Start).Seconds()
	if duration <= 0 {
		return 0
	}
	return w.Seconds / duration
}

// idOf derives the ids of a window from what identifies the stream's life, so
// that no two windows share one.
func (t *StreamTraces) idOf(number int64) (id windowID) {
	text := strconv.AppendQuote(nil, t.key.Endpoint)
	text = strconv.AppendQuote(text, t.key.WorkerID)
	for _, n := range []int64{t.key.DPRank, t.start.UnixNano(), number} {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	sum := sha256.Sum256(text)
	copy(id.trace[:], sum[:16])
	id.seed = binary.BigEndian.Uint64(sum[16:24])
	return id
}

// span gives the id of a span by its index: a bijection of the index, so that
// ids of one trace differ. The one index that would give the invalid id 0 gets
// the seed itself.
func (id windowID) span(index uint64) (span pcommon.SpanID) {
	mixed := id.seed + index*0x9e3779b97f4a7c15
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	mixed ^= mixed >> 31
	if mixed == 0 {
		mixed = id.seed | 1
	}
	binary.BigEndian.PutUint64(span[:], mixed)
	return span
}
