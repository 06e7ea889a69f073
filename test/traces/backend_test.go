// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// backend is a second collector with nothing of ours in its pipelines: the
// Collector's own OTLP receiver takes what comes by gRPC and hands it on, by HTTP,
// to this process, which keeps it in the order of arrival. No queue lies between,
// so what a sender has delivered is here.
type backend struct {
	endpoint string // of OTLP by gRPC

	mu      sync.Mutex
	spans   []span
	records []record
	metrics []pmetric.Metrics
}

// span is a span with the resource and the scope that it came under.
type span struct {
	ptrace.Span
	resource map[string]any
	scope    string
}

// record is a log record with its resource.
type record struct {
	plog.LogRecord
	resource map[string]any
}

func startBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{endpoint: fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1))}
	routes := http.NewServeMux()
	routes.HandleFunc("/v1/traces", b.handle(t, b.takeTraces))
	routes.HandleFunc("/v1/logs", b.handle(t, b.takeLogs))
	routes.HandleFunc("/v1/metrics", b.handle(t, b.takeMetrics))
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	harness.Start(t, fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: '%s', max_recv_msg_size_mib: 64}}}}
exporters: {otlp_http: {endpoint: '%s', timeout: %v, sending_queue: {enabled: false}, compression: none}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_http]}
    logs: {receivers: [otlp], exporters: [otlp_http]}
    metrics: {receivers: [otlp], exporters: [otlp_http]}
`, b.endpoint, server.URL, harness.Patience))
	return b
}

// exporter is the configuration of an exporter to the backend without a queue. It
// waits long enough that no slow machine makes it send anything twice.
func (b *backend) exporter() string {
	return fmt.Sprintf("{endpoint: '%s', timeout: %v, tls: {insecure: true}, sending_queue: {enabled: false}}", b.endpoint, harness.Patience)
}

func (b *backend) handle(t *testing.T, take func([]byte) error) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender gave up, and sends it again
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.NoError(t, take(body))
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

func (b *backend) takeTraces(body []byte) error {
	traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(body)
	if err != nil {
		return err
	}
	for _, resource := range traces.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, item := range scope.Spans().All() {
				b.spans = append(b.spans, span{item, resource.Resource().Attributes().AsRaw(), scope.Scope().Name()})
			}
		}
	}
	return nil
}

func (b *backend) takeLogs(body []byte) error {
	logs, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(body)
	if err != nil {
		return err
	}
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, item := range scope.LogRecords().All() {
				b.records = append(b.records, record{item, resource.Resource().Attributes().AsRaw()})
			}
		}
	}
	return nil
}

func (b *backend) takeMetrics(body []byte) error {
	metrics, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(body)
	b.metrics = append(b.metrics, metrics)
	return err
}

// all is what arrived until now, in order.
func (b *backend) all() []span {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.spans)
}

func (b *backend) passes() []span  { return named("forward_pass", b.all()) }
func (b *backend) windows() []span { return named("forward_pass.window", b.all()) }

func named(name string, all []span) (some []span) {
	for _, s := range all {
		if s.Name() == name {
			some = append(some, s)
		}
	}
	return some
}

func (b *backend) logRecords() []record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.records)
}

// sum adds up the points of a sum in the newest emission that has it.
func (b *backend) sum(name string) (total float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, metrics := range slices.Backward(b.metrics) {
		points := 0
		for _, resource := range metrics.ResourceMetrics().All() {
			for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
				if metric.Name() != name {
					continue
				}
				for _, p := range metric.Sum().DataPoints().All() {
					if p.Flags().NoRecordedValue() {
						continue
					}
					points++
					total += float64(p.IntValue()) + p.DoubleValue()
				}
			}
		}
		if points > 0 {
			return total
		}
	}
	return 0
}

func text(attributes pcommon.Map, name string) string {
	value, _ := attributes.Get(name)
	return value.Str()
}

func integer(attributes pcommon.Map, name string) int64 {
	value, ok := attributes.Get(name)
	if !ok {
		return -1
	}
	return value.Int()
}
