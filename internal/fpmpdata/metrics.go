// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Attributes of data points.
const (
	AttrPassKind    = "fpm.pass.kind"    // STR-96
	AttrTimingScope = "fpm.timing_scope" // STR-75
	AttrPhase       = "fpm.phase"
)

// MetricKind is what a metric is to a backend.
type MetricKind string

// The kinds of metric.
const (
	KindSum       MetricKind = "sum"
	KindGauge     MetricKind = "gauge"
	KindHistogram MetricKind = "histogram"
)

// Metric describes one metric of an engine.
type Metric struct {
	Name, Unit, Description string
	Kind                    MetricKind
}

// index of a worker's metrics.
const (
	metricRecords = iota
	metricMissing
	metricPasses
	metricUntimed
	metricTime
	metricDuration
	metricSteps
	metricPrefillTokens
	metricKVRead
	metricBatchRequests
	metricBatchTokens
	metricBatchKV
	metricQueueRequests
	metricQueuePrefillTokens
	metricQueueDecodeKV
	workerMetrics
)

// index of an endpoint's metrics.
const (
	metricUp = iota
	metricLastRecord
	metricRestarts
	endpointMetrics
)

var workerMetricTable = [workerMetrics]Metric{
	metricRecords:            {"fpm.records", "{record}", "Records received, heartbeats included.", KindSum},
	metricMissing:            {"fpm.records.missing", "{record}", "Records that the engine numbered and that never arrived.", KindSum},
	metricPasses:             {"fpm.forward_passes", "{pass}", "Forward passes that did work, timed or not.", KindSum},
	metricUntimed:            {"fpm.forward_passes.untimed", "{pass}", "Forward passes whose duration is unknown.", KindSum},
	metricTime:               {"fpm.forward_pass.time", "s", "Time spent in forward passes.", KindSum},
	metricDuration:           {"fpm.forward_pass.duration", "s", "Duration of forward passes.", KindHistogram},
	metricSteps:              {"fpm.request_steps", "{step}", "Requests that took part in forward passes; a request counts once a pass.", KindSum},
	metricPrefillTokens:      {"fpm.prefill.tokens", "{token}", "Prompt tokens computed, without cached ones.", KindSum},
	metricKVRead:             {"fpm.kv_read.tokens", "{token}", "Tokens of KV cache read by forward passes.", KindSum},
	metricBatchRequests:      {"fpm.batch.requests", "{request}", "Requests of a phase in the forward passes that have the phase.", KindHistogram},
	metricBatchTokens:        {"fpm.batch.tokens", "{token}", "Prefill tokens and decode requests of forward passes.", KindHistogram},
	metricBatchKV:            {"fpm.batch.kv_tokens", "{token}", "KV context of the last forward pass.", KindGauge},
	metricQueueRequests:      {"fpm.queue.requests", "{request}", "Requests that wait.", KindGauge},
	metricQueuePrefillTokens: {"fpm.queue.prefill_tokens", "{token}", "Prompt tokens of the waiting prefills.", KindGauge},
	metricQueueDecodeKV:      {"fpm.queue.decode_kv_tokens", "{token}", "KV context of the waiting decodes.", KindGauge},
}

var endpointMetricTable = [endpointMetrics]Metric{
	metricUp:         {"fpm.endpoint.up", "{endpoint}", "1 when the receiver is connected to the endpoint, else 0.", KindGauge},
	metricLastRecord: {"fpm.endpoint.last_record.time", "s", "Unix time of the last record.", KindGauge},
	metricRestarts:   {"fpm.endpoint.restarts", "{restart}", "Times that the engine started anew: its sequence fell back, or its worker_id changed.", KindSum},
}

// Metrics lists every metric that is emitted.
func Metrics() []Metric {
	return append(append([]Metric{}, workerMetricTable[:]...), endpointMetricTable[:]...)
}

// MetricsBuilder makes one emission: a resource for each worker and endpoint, few
// metrics with many points (COL-94). It is for one emission.
type MetricsBuilder struct {
	scopeName, scopeVersion string
	now                     pcommon.Timestamp
	metrics                 pmetric.Metrics
	workers                 map[string]*workerPoints
	added                   []addedStream
}

// addedStream is a stream whose points are in the emission.
type addedStream struct {
	stream     *StreamMetrics
	lastRecord time.Time
	timings    int
	end        bool
}

// NewMetricsBuilder begins an emission at a time.
func NewMetricsBuilder(scopeName, scopeVersion string, now time.Time) *MetricsBuilder {
	return &MetricsBuilder{
		scopeName: scopeName, scopeVersion: scopeVersion,
		now:     pcommon.NewTimestampFromTime(now),
		metrics: pmetric.NewMetrics(),
		workers: make(map[string]*workerPoints),
	}
}

// Metrics gives what was added. The caller owns it.
func (b *MetricsBuilder) Metrics() pmetric.Metrics { return b.metrics }

func (b *MetricsBuilder) addResource() (pcommon.Resource, pmetric.MetricSlice) {
	resource := b.metrics.ResourceMetrics().AppendEmpty()
	scope := resource.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName(b.scopeName)
	scope.Scope().SetVersion(b.scopeVersion)
	return resource.Resource(), scope.Metrics()
}

// workerPoints are the metrics of one worker, to which each rank adds points.
type workerPoints struct {
	metrics     [workerMetrics]pmetric.Metric
	exponential bool
}

func (b *MetricsBuilder) pointsOf(worker *Worker, exponential bool) *workerPoints {
	if points, ok := b.workers[worker.Key()]; ok {
		return points
	}
	resource, metrics := b.addResource()
	worker.copyTo(resource)
	metrics.EnsureCapacity(workerMetrics)
	points := &workerPoints{exponential: exponential}
	for i := range workerMetricTable {
		points.metrics[i] = metrics.AppendEmpty()
		describe(&workerMetricTable[i], points.metrics[i], exponential && i == metricDuration)
	}
	b.workers[worker.Key()] = points
	return points
}

func describe(m *Metric, into pmetric.Metric, exponential bool) {
	into.SetName(m.Name)
	into.SetUnit(m.Unit)
	into.SetDescription(m.Description)
	switch {
	case exponential:
		into.SetEmptyExponentialHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case m.Kind == KindHistogram:
		into.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case m.Kind == KindGauge:
		into.SetEmptyGauge()
	default:
		sum := into.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	}
}

// AddStream adds one stream's points. A stream that has been silent for
// StaleAfter, or that is gone, gets one last point a series, which says that
// there is no value (STR-98), and nothing from then on.
func (b *MetricsBuilder) AddStream(m *StreamMetrics, now time.Time, end bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end = end || m.over(now)
	if m.stale || (end && !m.emitted) {
		return
	}
	w := streamWriter{
		points: b.pointsOf(m.worker, m.cfg.Exponential),
		stream: m, now: b.now, start: pcommon.NewTimestampFromTime(m.start), stale: end,
	}
	w.writeStarts()
	w.writeTotals()
	w.writeGauges()
	m.inEmission = true
	b.added = append(b.added, addedStream{stream: m, lastRecord: m.lastRecord, timings: len(m.timings), end: end})
}

// Commit remembers that the consumer took the emission.
func (b *MetricsBuilder) Commit() {
	for _, a := range b.added {
		a.stream.mu.Lock()
		a.stream.inEmission = false
		a.stream.emitted, a.stream.emittedTimings = true, a.timings
		// A record that came meanwhile begins the series anew.
		a.stream.stale = a.end && a.stream.lastRecord.Equal(a.lastRecord)
		a.stream.mu.Unlock()
	}
}

// Abandon is for an emission that the consumer refused: the next one begins or
// ends the same series again.
func (b *MetricsBuilder) Abandon() {
	for _, a := range b.added {
		a.stream.mu.Lock()
		a.stream.inEmission = false
		a.stream.mu.Unlock()
	}
}

// streamWriter writes the points of one stream.
type streamWriter struct {
	points     *workerPoints
	stream     *StreamMetrics
	now, start pcommon.Timestamp
	stale      bool
}

// writeStarts writes the 0 with which every total begins, at its start, so that
// a backend sees the first increase too (FR-18).
func (w *streamWriter) writeStarts() {
	m := w.stream
	zero := streamWriter{points: w.points, stream: m, now: w.start, start: w.start}
	if !m.emitted {
		zero.stream = NewStreamMetrics(m.cfg, m.worker, m.dpRank, m.start)
		zero.writeTotals()
	}
	for _, t := range m.timings[m.emittedTimings:] {
		zero.writeTiming(newTiming(m.cfg, t.scope, t.hasScope))
	}
}

func (w *streamWriter) writeTotals() {
	m := w.stream
	for kind := range fpm.RecordKinds {
		w.integer(metricRecords, m.records[kind], AttrRecordKind, kind.String())
	}
	w.integer(metricMissing, m.missing, "", "")
	for kind := range fpm.PassKinds {
		w.integer(metricPasses, m.passes[kind], AttrPassKind, kind.String())
		w.integer(metricUntimed, m.untimed[kind], AttrPassKind, kind.String())
	}
	for _, t := range m.timings {
		w.writeTiming(t)
	}
	for p := range phases {
		w.integer(metricSteps, m.steps[p], AttrPhase, phaseNames[p])
		w.integer(metricKVRead, m.kvRead[p], AttrPhase, phaseNames[p])
		w.histogram(metricBatchRequests, &m.batchRequests[p], AttrPhase, phaseNames[p])
	}
	w.histogram(metricBatchTokens, &m.batchTokens, "", "")
	w.integer(metricPrefillTokens, m.prefillTokens, "", "")
}

func (w *streamWriter) writeGauges() {
	m := w.stream
	for p := range phases {
		w.integer(metricBatchKV, m.state.batchKV[p], AttrPhase, phaseNames[p])
		w.integer(metricQueueRequests, m.state.queueRequests[p], AttrPhase, phaseNames[p])
	}
	w.integer(metricQueuePrefillTokens, m.state.queuePrefillTokens, "", "")
	w.integer(metricQueueDecodeKV, m.state.queueDecodeKV, "", "")
}

func (w *streamWriter) writeTiming(t *timing) {
	for kind := range fpm.PassKinds {
		seconds := w.numberPoint(metricTime)
		w.timingAttributes(seconds.Attributes(), kind, t)
		if !w.stale {
			seconds.SetDoubleValue(t.time[kind].value())
		}
		w.writeDuration(t, kind)
	}
}

func (w *streamWriter) writeDuration(t *timing, kind fpm.PassKind) {
	metric := w.points.metrics[metricDuration]
	if w.points.exponential {
		point := metric.ExponentialHistogram().DataPoints().AppendEmpty()
		w.stamp(point)
		w.timingAttributes(point.Attributes(), kind, t)
		if w.stale {
			point.SetFlags(noValue)
		} else {
			t.duration[kind].copyExponentialTo(point)
		}
		return
	}
	point := metric.Histogram().DataPoints().AppendEmpty()
	w.stamp(point)
	w.timingAttributes(point.Attributes(), kind, t)
	if w.stale {
		t.duration[kind].buckets.copyEndTo(point)
	} else {
		t.duration[kind].copyTo(point)
	}
}

func (w *streamWriter) timingAttributes(into pcommon.Map, kind fpm.PassKind, t *timing) {
	into.EnsureCapacity(3)
	into.PutInt(AttrDPRank, w.stream.dpRank)
	into.PutStr(AttrPassKind, kind.String())
	if t.hasScope {
		into.PutStr(AttrTimingScope, t.scope)
	}
}

var noValue = pmetric.DefaultDataPointFlags.WithNoRecordedValue(true)

func (w *streamWriter) stamp(point interface {
	SetTimestamp(pcommon.Timestamp)
	SetStartTimestamp(pcommon.Timestamp)
},
) {
	point.SetTimestamp(w.now)
	point.SetStartTimestamp(w.start)
}

// numberPoint adds a point to a sum or gauge, without a value when stale.
func (w *streamWriter) numberPoint(metric int) pmetric.NumberDataPoint {
	var point pmetric.NumberDataPoint
	if workerMetricTable[metric].Kind == KindGauge {
		point = w.points.metrics[metric].Gauge().DataPoints().AppendEmpty()
		point.SetTimestamp(w.now)
	} else {
		point = w.points.metrics[metric].Sum().DataPoints().AppendEmpty()
		w.stamp(point)
	}
	if w.stale {
		point.SetFlags(noValue)
	}
	return point
}

func (w *streamWriter) integer(metric int, value int64, attribute, attributeValue string) {
	point := w.numberPoint(metric)
	w.attributes(point.Attributes(), attribute, attributeValue)
	if !w.stale {
		point.SetIntValue(value)
	}
}

func (w *streamWriter) histogram(metric int, h *bucketHistogram, attribute, attributeValue string) {
	point := w.points.metrics[metric].Histogram().DataPoints().AppendEmpty()
	w.stamp(point)
	w.attributes(point.Attributes(), attribute, attributeValue)
	if w.stale {
		h.copyEndTo(point)
		return
	}
	h.copyTo(point)
}

func (w *streamWriter) attributes(into pcommon.Map, attribute, value string) {
	into.EnsureCapacity(2)
	into.PutInt(AttrDPRank, w.stream.dpRank)
	if attribute != "" {
		into.PutStr(attribute, value)
	}
}

// EndpointState is what an emission says of a configured endpoint, from Start on.
type EndpointState struct {
	Namespace, Component string
	InstanceID           string // host:port or the ipc path
	ServerAddress        string
	ServerPort           int // 0: ipc, left out
	Start                time.Time
	Up                   bool
	LastRecord           time.Time // zero: none yet
	Restarts             int64
}

// AddEndpoint adds one endpoint's points; at the end of the receiver's life
// they say that there is no value.
func (b *MetricsBuilder) AddEndpoint(e *EndpointState, end bool) {
	resource, metrics := b.addResource()
	e.copyTo(resource.Attributes())
	for i := range endpointMetricTable {
		if i == metricLastRecord && e.LastRecord.IsZero() {
			continue
		}
		metric := metrics.AppendEmpty()
		describe(&endpointMetricTable[i], metric, false)
		b.addEndpointPoint(e, i, metric, end)
	}
}

func (b *MetricsBuilder) addEndpointPoint(e *EndpointState, index int, metric pmetric.Metric, end bool) {
	var point pmetric.NumberDataPoint
	if endpointMetricTable[index].Kind == KindSum {
		point = metric.Sum().DataPoints().AppendEmpty()
		point.SetStartTimestamp(pcommon.NewTimestampFromTime(e.Start))
	} else {
		point = metric.Gauge().DataPoints().AppendEmpty()
	}
	point.SetTimestamp(b.now)
	if end {
		point.SetFlags(noValue)
		return
	}
	switch index {
	case metricUp:
		point.SetIntValue(0)
		if e.Up {
			point.SetIntValue(1)
		}
	case metricLastRecord:
		point.SetDoubleValue(float64(e.LastRecord.UnixNano()) / 1e9)
	case metricRestarts:
		point.SetIntValue(e.Restarts)
	}
}

func (e *EndpointState) copyTo(attributes pcommon.Map) {
	attributes.EnsureCapacity(5)
	attributes.PutStr(AttrServiceNamespace, e.Namespace)
	attributes.PutStr(AttrServiceName, e.Component)
	attributes.PutStr(AttrServiceInstanceID, e.InstanceID)
	attributes.PutStr(AttrServerAddress, e.ServerAddress)
	if e.ServerPort != 0 {
		attributes.PutInt(AttrServerPort, int64(e.ServerPort))
	}
}
