// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:build wallclock

package wallclock

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// sampleInterval is the sampler's.
const sampleInterval = time.Second

// stage is a receiver whose records go to a trace file, and through a sampler to
// a recorder.
type stage struct {
	t         *testing.T
	publisher *zmtptest.Publisher
	telemetry *componenttest.Telemetry
	base      string
	sequence  uint64
	published int

	mu    sync.Mutex
	ticks []time.Time // of the sampler
	ends  int         // points that end a series
	up    []int64     // values of fpm.endpoint.up
}

func (*stage) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeLogs takes what the sampler emits.
func (s *stage) ConsumeLogs(context.Context, plog.Logs) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks = append(s.ticks, time.Now())
	return nil
}

// ConsumeMetrics takes the engine's metrics.
func (s *stage) ConsumeMetrics(_ context.Context, metrics pmetric.Metrics) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range metrics.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				s.look(metric)
			}
		}
	}
	return nil
}

func (s *stage) look(metric pmetric.Metric) {
	if metric.Type() != pmetric.MetricTypeGauge {
		return
	}
	for _, point := range metric.Gauge().DataPoints().All() {
		if point.Flags().NoRecordedValue() {
			s.ends++
		}
		if metric.Name() == "fpm.endpoint.up" {
			s.up = append(s.up, point.IntValue())
		}
	}
}

// both hands records to two consumers.
type both struct{ first, second consumer.Logs }

func (both) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (b both) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	if err := b.first.ConsumeLogs(ctx, logs); err != nil {
		return err
	}
	return b.second.ConsumeLogs(ctx, logs)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	publisher, err := zmtptest.NewPublisher("tcp", "127.0.0.1:0", zmtptest.PublisherConfig{HighWaterMark: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, publisher.Close()) })
	s := &stage{t: t, publisher: publisher, telemetry: componenttest.NewTelemetry(), base: filepath.Join(t.TempDir(), "rows")}
	t.Cleanup(func() { require.NoError(t, s.telemetry.Shutdown(context.Background())) })

	exporterFactory := fpmtraceexporter.NewFactory()
	exporterConfig := exporterFactory.CreateDefaultConfig().(*fpmtraceexporter.Config)
	exporterConfig.Path, exporterConfig.FlushInterval = s.base, 100*time.Millisecond
	exporter, err := exporterFactory.CreateLogs(t.Context(), exportertest.NewNopSettings(exporterFactory.Type()), exporterConfig)
	require.NoError(t, err)
	s.start(exporter)

	samplerFactory := fpmsampler.NewFactory()
	samplerConfig := samplerFactory.CreateDefaultConfig().(*fpmsampler.Config)
	samplerConfig.Interval = sampleInterval
	sampler, err := samplerFactory.CreateLogs(t.Context(), processortest.NewNopSettings(samplerFactory.Type()), samplerConfig, s)
	require.NoError(t, err)
	s.start(sampler)

	receiverFactory := fpmreceiver.NewFactory()
	settings := receivertest.NewNopSettings(receiverFactory.Type())
	settings.TelemetrySettings = s.telemetry.NewTelemetrySettings()
	config := receiverFactory.CreateDefaultConfig().(*fpmreceiver.Config)
	config.Endpoint = publisher.Endpoint()
	config.Batch.Timeout, config.Metrics.Interval, config.Connection.IdleTimeout = 20*time.Millisecond, 250*time.Millisecond, 2*time.Second
	logs, err := receiverFactory.CreateLogs(t.Context(), settings, config, both{exporter, sampler})
	require.NoError(t, err)
	metrics, err := receiverFactory.CreateMetrics(t.Context(), settings, config, s)
	require.NoError(t, err)
	s.start(logs)
	s.start(metrics)
	publisher.WaitSubscribers(1)
	return s
}

// start runs a component until the end of the test; those that were started last
// end first.
func (s *stage) start(c component.Component) {
	s.t.Helper()
	require.NoError(s.t, c.Start(s.t.Context(), componenttest.NewNopHost()))
	s.t.Cleanup(func() { require.NoError(s.t, c.Shutdown(context.Background())) })
}

// publish sends records for a while, each with another load, so that the sampler
// has something to emit at each tick.
func (s *stage) publish(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; time.Sleep(10 * time.Millisecond) {
		payload := fpm.AppendPayload(nil, &fpm.ForwardPass{
			WorkerID: []byte("w"), CounterID: int64(s.sequence), WallTime: 0.01,
			Scheduled: fpm.Scheduled{DecodeRequests: 1, DecodeKVTokens: int64(s.sequence) + 1},
		})
		s.publisher.Publish(zmtptest.Numbered(s.sequence, payload)...)
		s.sequence++
		s.published++
	}
}

// count reads a counter of the receiver.
func (s *stage) count(name string) (total int64) {
	s.t.Helper()
	metric, err := s.telemetry.GetMetric("otelcol_fpm_receiver_" + name)
	if err != nil {
		return 0 // nothing counted yet
	}
	for _, point := range metric.Data.(metricdata.Sum[int64]).DataPoints {
		total += point.Value
	}
	return total
}

// rows waits until everything that was published is in the file. The wait is on
// the monotonic clock: a flush that went by the wall clock would be an hour late.
func (s *stage) rows() []harness.Row {
	s.t.Helper()
	var rows []harness.Row
	harness.Eventually(s.t, func() bool {
		rows = harness.Rows(s.t, s.base)
		return len(rows) == s.published
	}, "%d records were published", s.published)
	return rows
}

// TestSteps steps the clock forth and back by an hour while records flow.
func TestSteps(t *testing.T) {
	s := newStage(t)
	began := time.Now()
	s.publish(2 * sampleInterval)
	for step, hours := range []int64{1, -1, -1, 1} {
		wall := time.Now().Round(0)
		time.StepWall(hours * 3600)
		moved := time.Now().Round(0).Sub(wall).Hours()
		require.InDelta(t, hours, moved, 0.01, "the clock of this build does not step")

		// A hole across the step: the state of the stream is still there.
		s.sequence += 3
		s.publish(3 * sampleInterval)
		s.rows()
		require.Equal(t, int64(3*(step+1)), s.count("missing_records"))
		require.Zero(t, s.count("restarts"))
		require.Equal(t, int64(step), s.count("disconnects"), "only those of this test")

		// The back-off, in the middle of which the clock steps again, and back.
		start := time.Now()
		s.publisher.Disconnect()
		time.StepWall(hours * 3600)
		time.StepWall(-hours * 3600)
		harness.Eventually(t, func() bool { return s.count("disconnects") == int64(step+1) }, "no disconnect")
		harness.Eventually(t, func() bool { return s.publisher.Subscribers() == 1 }, "no connection")
		require.Less(t, time.Since(start), 11*time.Second)
	}
	total := time.Since(began)

	// The time in a row is that since the writer began (ROW-9).
	last := uint64(0)
	for _, row := range s.rows() {
		require.GreaterOrEqual(t, row.Timestamp, last)
		last = row.Timestamp
	}
	require.Less(t, time.Duration(last)*time.Millisecond, total+5*time.Second)
	s.requireEvenTicks(total)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Zero(t, s.ends, "a series ended: a step was taken for silence")
	require.Contains(t, s.up, int64(1))
}

// requireEvenTicks wants the sampler to have emitted once an interval, while
// records came: none an hour late, and no burst to catch up.
func (s *stage) requireEvenTicks(total time.Duration) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("%d ticks in %v", len(s.ticks), total)
	require.LessOrEqual(s.t, len(s.ticks), int(total/sampleInterval)+1)
	require.GreaterOrEqual(s.t, len(s.ticks), 4*2, "at least two in each of the four stretches of three intervals")
}
