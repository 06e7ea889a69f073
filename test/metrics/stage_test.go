// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

// Own telemetry that the tests look at.
const (
	metricMessages   = "otelcol_fpm_receiver_messages"
	metricInvalid    = "otelcol_fpm_receiver_invalid_messages"
	metricDuplicates = "otelcol_fpm_receiver_duplicates"
	metricOverflows  = "otelcol_fpm_receiver_stream_overflows"
)

// setup is what a test wants different from the usual.
type setup struct {
	endpoints int    // with a publisher; 0: one
	absent    int    // further ones that nobody publishes on
	metrics   string // settings of the receiver's metrics besides the interval
	receiver  string // further settings of the receiver, lines
	exporters string // further exporters, lines
	into      string // names of further exporters of the metrics
	pipelines string // further pipelines, lines
}

// stage is a collector that shows its metrics to Prometheus, and the publishers
// that it reads.
type stage struct {
	t         *testing.T
	publisher *harness.Publisher
	collector *harness.Collector
	port      int    // of the first endpoint
	sockets   []int  // of each endpoint
	exporter  string // host:port of what Prometheus scrapes
	sequences []uint64
	sent      int
}

// interval is that of the emissions.
const interval = 200 * time.Millisecond

const configuration = `
receivers:
  fpm:
    endpoints: [%s]
    backend: vllm
    connection: {initial_backoff: 50ms, max_backoff: 200ms}
    metrics: {interval: %v, %s}
%s
exporters:
  prometheus:
    endpoint: %s
    enable_open_metrics: true
    without_scope_info: true
    resource_constant_labels: {included: [fpm.backend]}
%s
service:
  pipelines:
    metrics: {receivers: [fpm], exporters: [prometheus, %s]}
%s
`

func newStage(t *testing.T, want setup) *stage {
	t.Helper()
	count := max(want.endpoints, 1)
	s := &stage{
		t: t, publisher: harness.StartPublisher(t),
		port:      harness.FreePorts(t, count+want.absent),
		exporter:  fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)),
		sequences: make([]uint64, count),
	}
	for i := range count {
		s.sockets = append(s.sockets, s.publisher.Bind(s.endpoint(i)))
	}
	var endpoints []string
	for i := range count + want.absent {
		endpoints = append(endpoints, fmt.Sprintf("{endpoint: '%s'}", s.endpoint(i)))
	}
	s.collector = harness.Start(t, fmt.Sprintf(configuration,
		strings.Join(endpoints, ", "), interval, want.metrics, indent(want.receiver, 4),
		s.exporter, indent(want.exporters, 2), want.into, indent(want.pipelines, 4)))
	for i := range s.sockets {
		s.waitSubscribed(i)
	}
	return s
}

func indent(lines string, by int) string {
	if lines == "" {
		return ""
	}
	prefix := strings.Repeat(" ", by)
	return prefix + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n"+prefix)
}

func (s *stage) endpoint(i int) string { return "tcp://" + s.instance(i) }

// instance is the label of an endpoint's own series.
func (s *stage) instance(i int) string { return fmt.Sprintf("127.0.0.1:%d", s.port+i) }

func (s *stage) waitSubscribed(i int) { s.publisher.WaitSubscribers(s.sockets[i], 1) }

// prometheus begins to scrape the collector.
func (s *stage) prometheus(features ...string) *promtest.Server {
	s.t.Helper()
	return promtest.Start(s.t, promtest.Options{Target: s.exporter, Features: features})
}

// send publishes a record under the next sequence of the endpoint.
func (s *stage) send(i int, r record) {
	s.t.Helper()
	s.sendAs(i, s.sequences[i], r)
}

// sendAs publishes a record under a sequence; the next one follows it.
func (s *stage) sendAs(i int, sequence uint64, r record) {
	s.t.Helper()
	r.CounterID = int64(sequence &^ (1 << 63))
	s.publisher.Payload(s.sockets[i], sequence, "", hex.EncodeToString(r.encode(s.t)))
	s.sequences[i] = sequence + 1
	s.sent++
}

// arrived waits until the receiver has got everything.
func (s *stage) arrived() {
	s.t.Helper()
	s.collector.WaitSum(metricMessages, nil, float64(s.sent))
}

// restart ends the engine of an endpoint and starts another one in its place.
func (s *stage) restart(i int) {
	s.t.Helper()
	s.end(i)
	s.sockets[i] = s.publisher.Bind(s.endpoint(i))
	s.sequences[i] = 0
	s.waitSubscribed(i)
}

// end closes the socket of an endpoint and waits until nobody listens there.
func (s *stage) end(i int) {
	s.t.Helper()
	s.arrived()
	s.publisher.Close(s.sockets[i])
	harness.Eventually(s.t, func() bool {
		conn, err := net.DialTimeout("tcp", s.instance(i), time.Second) //nolint:noctx // a local look
		if err != nil {
			return true
		}
		_ = conn.Close()
		return false
	}, "%s still listens", s.endpoint(i))
}

// scrape reads what the collector shows to Prometheus. Names have no _total.
func (s *stage) scrape() harness.Samples {
	s.t.Helper()
	return harness.Scrape(s.t, "http://"+s.exporter+"/metrics")
}

// find gives the values of the series that have all labels. "": the label is absent.
func find(samples harness.Samples, name string, labels harness.Labels) (values []float64) {
	for _, sample := range samples {
		if sample.Name != name {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(label string) bool {
			return sample.Labels[label] != labels[label]
		}) {
			values = append(values, sample.Value)
		}
	}
	return values
}

// waitFor waits until the collector shows exactly one such series, with this value.
func (s *stage) waitFor(name string, labels harness.Labels, want float64) {
	s.t.Helper()
	var got []float64
	harness.Eventually(s.t, func() bool {
		got = find(s.scrape(), name, labels)
		return len(got) == 1 && got[0] == want
	}, "%s %v is not %v", name, labels, want)
}

// requireValue looks once.
func requireValue(t *testing.T, samples harness.Samples, name string, labels harness.Labels, want float64) {
	t.Helper()
	require.Equal(t, []float64{want}, find(samples, name, labels), "%s %v", name, labels)
}

// instances are the workers that have series.
func instances(samples harness.Samples) []string {
	return slices.Sorted(maps.Keys(samples.By("fpm_records", "instance", nil)))
}

// gaugesOf are the gauges of a worker's rank 0, empty without series.
func gaugesOf(samples harness.Samples, worker string) map[string]float64 {
	got := map[string]float64{}
	for _, sample := range samples {
		series := fmt.Sprintf("%s{fpm_phase=%q}", sample.Name, sample.Labels["fpm_phase"])
		if _, known := busyGauges[series]; known && sample.Labels["instance"] == worker {
			got[series] = sample.Value
		}
	}
	return got
}

// requireMonotonic reads the raw samples of every total of engines and requires
// that none ever fell: no reset, no negative rate (FR-18).
func requireMonotonic(t *testing.T, server *promtest.Server) {
	t.Helper()
	totals := server.Query(`{__name__=~"fpm_.*(_total|_count|_sum|_bucket)"}[1h]`)
	require.NotEmpty(t, totals)
	for _, series := range totals {
		for i := range series.Samples[1:] {
			require.GreaterOrEqual(t, series.Samples[i+1].Value, series.Samples[i].Value, "%s %v", series.Name, series.Labels)
		}
	}
}
