// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

// TestExemplars_COL109 follows every exemplar that Prometheus has stored to the
// span behind it, as a user does with a click: it was really sent, took as long
// as the exemplar says, and stands in the right series. A pass that makes no span
// makes no exemplar.
func TestExemplars_COL109(t *testing.T) {
	backend := newTraceBackend(t)
	s := newStage(t, setup{
		receiver:  "traces: {min_duration: 10ms}",
		exporters: "otlp_http: {endpoint: '" + backend.url + "', compression: none}",
		pipelines: "traces: {receivers: [fpm], exporters: [otlp_http]}",
	})
	server := s.prometheus("exemplar-storage")
	const enough = 12
	var exemplars []promtest.Exemplar
	harness.Eventually(t, func() bool {
		for i := range 20 {
			// All different, over many buckets.
			r := busy("w", .011*math.Pow(1.3, float64(i))+float64(s.sent)*1e-9)
			r.DPRank = int64(i % 2)
			if i%3 == 0 {
				r.TimingScope = "execute_model_cuda"
			}
			s.send(0, r)
			s.send(0, busy("w", .004)) // under min_duration
		}
		s.arrived()
		exemplars = server.Exemplars("fpm_forward_pass_duration_seconds_bucket")
		return len(exemplars) >= enough
	}, "fewer than %d exemplars", enough)
	for _, exemplar := range exemplars {
		backend.requireSpan(t, exemplar)
	}
}

// traceBackend takes spans over OTLP.
type traceBackend struct {
	url   string
	mu    sync.Mutex
	spans map[string]ptrace.Span // by trace and span id
}

func newTraceBackend(t *testing.T) *traceBackend {
	t.Helper()
	b := &traceBackend{spans: map[string]ptrace.Span{}}
	server := httptest.NewServer(http.HandlerFunc(b.take))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *traceBackend) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not traces", http.StatusBadRequest)
		return
	}
	// An export request has the wire form of traces.
	traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, resource := range traces.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				b.spans[span.TraceID().String()+span.SpanID().String()] = span
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (b *traceBackend) span(id string) (ptrace.Span, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	span, found := b.spans[id]
	return span, found
}

func (b *traceBackend) requireSpan(t *testing.T, exemplar promtest.Exemplar) {
	t.Helper()
	var span ptrace.Span
	harness.Eventually(t, func() (found bool) {
		span, found = b.span(exemplar.Labels["trace_id"] + exemplar.Labels["span_id"])
		return found
	}, "no span of %v", exemplar)
	require.Equal(t, "forward_pass", span.Name())
	took := span.EndTimestamp().AsTime().Sub(span.StartTimestamp().AsTime()).Seconds()
	require.InDelta(t, took, exemplar.Value, 2e-9)
	require.GreaterOrEqual(t, exemplar.Value, .01)
	require.Equal(t, span.EndTimestamp().AsTime().UnixMilli(), exemplar.Time.UnixMilli())

	bound, err := strconv.ParseFloat(exemplar.Series["le"], 64)
	require.NoError(t, err)
	require.LessOrEqual(t, exemplar.Value, bound)
	rank, _ := span.Attributes().Get("fpm.dp_rank")
	require.Equal(t, rank.AsString(), exemplar.Series["fpm_dp_rank"])
	kind, _ := span.Attributes().Get("fpm.pass.kind")
	require.Equal(t, kind.AsString(), exemplar.Series["fpm_pass_kind"])
	scope := ""
	if value, ok := span.Attributes().Get("fpm.timing_scope"); ok {
		scope = value.AsString()
	}
	require.Equal(t, scope, exemplar.Series["fpm_timing_scope"])
	require.Equal(t, "w", exemplar.Series["instance"])
}
