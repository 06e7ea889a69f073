// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadatatest"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

var errDisk = errors.New("no space left on device")

// fakeWriter keeps what it gets in memory.
type fakeWriter struct {
	// write decides on what Write gets; nil writes all. It is called without a lock.
	write func(ctx context.Context, records []tracefile.Record) (unwritten []int, err error)
	// refuse is what Enqueue returns.
	refuse error
	// shutdown is called by Shutdown; nil returns nil.
	shutdown func(ctx context.Context) error

	mu        sync.Mutex
	rows      []tracefile.Record
	pushes    int
	starts    int
	shutdowns int

	interrupted     chan struct{}
	interruptedOnce sync.Once
	obs             tracefile.Observer
}

func newFakeWriter() *fakeWriter { return &fakeWriter{interrupted: make(chan struct{})} }

// inject gives the writer to an exporter.
func (w *fakeWriter) inject(_ tracefile.Config, obs tracefile.Observer, _ component.TelemetrySettings) writer {
	w.obs = obs
	return w
}

func (w *fakeWriter) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	return nil
}

func (w *fakeWriter) Enqueue(records []tracefile.Record) error {
	w.keep(records, nil)
	return w.refuse
}

func (w *fakeWriter) Write(ctx context.Context, records []tracefile.Record) (unwritten []int, err error) {
	if w.write != nil {
		unwritten, err = w.write(ctx, records)
	}
	w.keep(records, unwritten)
	return unwritten, err
}

// keep copies: the payloads are valid during the call only.
func (w *fakeWriter) keep(records []tracefile.Record, unwritten []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushes++
	for i, record := range records {
		if len(unwritten) > 0 && unwritten[0] == i {
			unwritten = unwritten[1:]
			continue
		}
		record.Canonical = bytes.Clone(record.Canonical)
		w.rows = append(w.rows, record)
	}
}

func (w *fakeWriter) Interrupt() {
	w.interruptedOnce.Do(func() { close(w.interrupted) })
}

func (w *fakeWriter) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	w.shutdowns++
	w.mu.Unlock()
	if w.shutdown != nil {
		return w.shutdown(ctx)
	}
	return nil
}

// counters of the rows, in the order in which they were written.
func (w *fakeWriter) counters() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]int64, 0, len(w.rows))
	for i := range w.rows {
		all = append(all, w.rows[i].CounterID)
	}
	return all
}

// stuck blocks as a disk does that never answers, until it is interrupted.
func (w *fakeWriter) stuck(_ context.Context, records []tracefile.Record) ([]int, error) {
	<-w.interrupted
	return indexes(len(records)), errDisk
}

func failing(_ context.Context, records []tracefile.Record) ([]int, error) {
	return indexes(len(records)), errDisk
}

// testExporter is an exporter with a fake writer and telemetry to look at.
type testExporter struct {
	*traceExporter
	writer    *fakeWriter
	telemetry *componenttest.Telemetry
}

func newTestExporter(t *testing.T, change func(*Config), w *fakeWriter) *testExporter {
	t.Helper()
	telemetry := newTelemetry(t)
	cfg := defaultConfig()
	if change != nil {
		change(cfg)
	}
	exp, err := newTraceExporter(t.Context(), metadatatest.NewSettings(telemetry), cfg, w.inject)
	require.NoError(t, err)
	return &testExporter{traceExporter: exp, writer: w, telemetry: telemetry}
}

func newTelemetry(t *testing.T) *componenttest.Telemetry {
	t.Helper()
	telemetry := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, telemetry.Shutdown(context.Background())) })
	return telemetry
}

func (e *testExporter) start(t *testing.T) {
	t.Helper()
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
}

// dropped reads the count of dropped rows of a reason.
func dropped(t *testing.T, telemetry *componenttest.Telemetry, reason tracefile.DropReason) int64 {
	t.Helper()
	return sumOf(t, telemetry, "otelcol_fpm_trace_exporter_rows_dropped", "reason", reason.String())
}

func sumOf(t *testing.T, telemetry *componenttest.Telemetry, metric, key, value string) int64 {
	t.Helper()
	got, err := telemetry.GetMetric(metric)
	require.NoError(t, err)
	for _, point := range got.Data.(metricdata.Sum[int64]).DataPoints {
		if at, ok := point.Attributes.Value(attributeKey(key)); key == "" || ok && at.AsString() == value {
			return point.Value
		}
	}
	require.Failf(t, "no such point", "%s{%s=%q}", metric, key, value)
	return 0
}

// statusHost keeps what is reported to it, and may have extensions.
type statusHost struct {
	extensions map[component.ID]component.Component

	mu     sync.Mutex
	events []*componentstatus.Event
}

var _ componentstatus.Reporter = (*statusHost)(nil)

func (h *statusHost) GetExtensions() map[component.ID]component.Component { return h.extensions }

func (h *statusHost) Report(event *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

func (h *statusHost) reported() []*componentstatus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*componentstatus.Event(nil), h.events...)
}

// memoryStorage is a storage extension that outlives the exporters that use it.
type memoryStorage struct {
	component.StartFunc
	component.ShutdownFunc

	mu     sync.Mutex
	values map[string][]byte
}

var _ storage.Extension = (*memoryStorage)(nil)

func (s *memoryStorage) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return memoryClient{s}, nil
}

type memoryClient struct{ storage *memoryStorage }

func (c memoryClient) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := c.Batch(ctx, op)
	return op.Value, err
}

func (c memoryClient) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

func (c memoryClient) Delete(ctx context.Context, key string) error {
	return c.Batch(ctx, storage.DeleteOperation(key))
}

func (memoryClient) Close(context.Context) error { return nil }

func (c memoryClient) Batch(_ context.Context, ops ...*storage.Operation) error {
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = c.storage.values[op.Key]
		case storage.Set:
			c.storage.values[op.Key] = bytes.Clone(op.Value)
		case storage.Delete:
			delete(c.storage.values, op.Key)
		}
	}
	return nil
}

var storageID = component.MustNewID("file_storage")

// storedQueue makes the queue of a configuration a stored one.
func storedQueue(cfg *Config) { cfg.QueueConfig.Get().StorageID = &storageID }

func hostWith(extension component.Component) *statusHost {
	return &statusHost{extensions: map[component.ID]component.Component{storageID: extension}}
}

var _ exporter.Logs = (*testExporter)(nil)
