// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadatatest"
)

// patience is how long a test waits for what has to come.
const patience = 20 * time.Second

// run is a started receiver with everything it reports.
type run struct {
	*fpmReceiver
	t         *testing.T
	telemetry *componenttest.Telemetry
	lines     *observer.ObservedLogs
	host      *statusHost
}

type statusHost struct {
	mu     sync.Mutex
	events []*componentstatus.Event
}

func (*statusHost) GetExtensions() map[component.ID]component.Component { return nil }

func (h *statusHost) Report(event *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

func (h *statusHost) statuses() (all []componentstatus.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, event := range h.events {
		all = append(all, event.Status())
	}
	return all
}

func testConfig(endpoints ...string) *Config {
	cfg, _ := createDefaultConfig().(*Config)
	cfg.Batch.Timeout = time.Millisecond
	cfg.Connection.InitialBackoff = 10 * time.Millisecond
	cfg.Connection.MaxBackoff = 100 * time.Millisecond
	for _, endpoint := range endpoints {
		cfg.Endpoints = append(cfg.Endpoints, EndpointConfig{Endpoint: endpoint})
	}
	return cfg
}

// nobody is an endpoint at which no one publishes.
const nobody = "ipc://@otelcol-fpm-test-nobody"

func start(t *testing.T, cfg *Config, next consumer.Logs) *run {
	t.Helper()
	r := newRun(t, cfg, next)
	require.NoError(t, r.Start(t.Context(), r.host))
	return r
}

func newRun(t *testing.T, cfg *Config, next consumer.Logs) *run {
	t.Helper()
	telemetry := componenttest.NewTelemetry()
	settings := metadatatest.NewSettings(telemetry)
	core, lines := observer.New(zap.InfoLevel)
	settings.Logger = zap.New(core)
	built, err := newReceiver(cfg, settings)
	require.NoError(t, err)
	built.nextLogs = next
	r := &run{fpmReceiver: built, t: t, telemetry: telemetry, lines: lines, host: &statusHost{}}
	t.Cleanup(func() {
		_ = r.Shutdown(context.Background())
		require.NoError(t, telemetry.Shutdown(context.Background()))
	})
	return r
}

// feed gives a message to an endpoint as its supervisor would.
func (r *run) feed(endpoint int, frames ...[]byte) {
	r.publishers[endpoint].OnMessage(&zmtp.Message{Frames: frames, ReceivedAt: time.Now(), Generation: 1})
}

// feedNumbered gives payloads the sequences first, first+1 and so on.
func (r *run) feedNumbered(endpoint int, first uint64, payloads ...[]byte) {
	for i, payload := range payloads {
		r.feed(endpoint, zmtptest.Numbered(first+uint64(i), payload)...)
	}
}

// splitByReason are the counters that show a reason once it came up.
var splitByReason = []string{
	"fpm_receiver_connects", "fpm_receiver_disconnects", "fpm_receiver_invalid_messages",
}

// metric reads one own counter or gauge, the points that have all attributes
// summed up.
func (r *run) metric(name string, attributes ...string) (sum int64) {
	r.t.Helper()
	got, err := r.telemetry.GetMetric("otelcol_" + name)
	if err != nil && slices.Contains(splitByReason, name) {
		return 0
	}
	require.NoError(r.t, err, name)
	var points []metricdata.DataPoint[int64]
	switch data := got.Data.(type) {
	case metricdata.Sum[int64]:
		points = data.DataPoints
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	default:
		require.Fail(r.t, "not an integer metric", name)
	}
	for _, point := range points {
		if hasAll(point, attributes) {
			sum += point.Value
		}
	}
	return sum
}

func hasAll(point metricdata.DataPoint[int64], attributes []string) bool {
	for i := 0; i < len(attributes); i += 2 {
		found := false
		for _, kv := range point.Attributes.ToSlice() {
			found = found || (string(kv.Key) == attributes[i] && kv.Value.AsString() == attributes[i+1])
		}
		if !found {
			return false
		}
	}
	return true
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, 2*time.Millisecond, what)
}

// records are the log records of a sink, in the order of their arrival.
func records(sink *consumertest.LogsSink) (all []plog.LogRecord) {
	for _, logs := range sink.AllLogs() {
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					all = append(all, record)
				}
			}
		}
	}
	return all
}

func resources(sink *consumertest.LogsSink) (all []map[string]any) {
	for _, logs := range sink.AllLogs() {
		for _, resource := range logs.ResourceLogs().All() {
			all = append(all, resource.Resource().Attributes().AsRaw())
		}
	}
	return all
}

// pass makes a valid payload.
func pass(worker string, dpRank, counter int64) []byte {
	return fpm.AppendPayload(nil, &fpm.ForwardPass{
		WorkerID: []byte(worker), DPRank: dpRank, CounterID: counter, WallTime: 0.025,
		Scheduled: fpm.Scheduled{DecodeRequests: 3, DecodeKVTokens: 1024},
	})
}

func heartbeat(worker string, counter int64) []byte {
	return fpm.AppendPayload(nil, &fpm.ForwardPass{WorkerID: []byte(worker), CounterID: counter})
}

// gate is a consumer whose answer the test decides.
type gate struct {
	consumertest.LogsSink
	mu     sync.Mutex
	answer func(ctx context.Context, call int) error
	calls  int
}

func newGate(answer func(ctx context.Context, call int) error) *gate {
	return &gate{answer: answer}
}

func (g *gate) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	g.mu.Lock()
	g.calls++
	call := g.calls
	g.mu.Unlock()
	if err := g.answer(ctx, call); err != nil {
		return err
	}
	return g.LogsSink.ConsumeLogs(ctx, logs)
}

var errRefused = errors.New("refused")

func golden() []byte { return fpmtest.Golden() }

// listen starts a well-behaved publisher on a free port.
func listen(t *testing.T) *zmtptest.Publisher {
	t.Helper()
	publisher, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{Block: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

func waitForSubscribers(t *testing.T, publisher *zmtptest.Publisher, n int) {
	t.Helper()
	eventually(t, func() bool { return publisher.Subscribers() == n }, "subscribed")
}
