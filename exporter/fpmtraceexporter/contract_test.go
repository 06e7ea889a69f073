// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// seam connects the writer of the exporter under test with the consumer that the checker hands to its mock receiver
// (COL-80): each row is one call of it.
type seam struct {
	mu   sync.Mutex
	next consumer.Logs
}

func (s *seam) Start(context.Context, component.Host) error { return nil }
func (s *seam) Shutdown(context.Context) error              { return nil }

func (s *seam) createReceiver(
	_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Logs,
) (receiver.Logs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
	return s, nil
}

func (s *seam) write(ctx context.Context, records []tracefile.Record) (unwritten []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		if failed := s.next.ConsumeLogs(ctx, plog.NewLogs()); failed != nil {
			unwritten, err = append(unwritten, i), failed
		}
	}
	return unwritten, err
}

func (s *seam) createExporter(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	w := newFakeWriter()
	w.write = s.write
	inner, err := newTraceExporter(ctx, set, cfg.(*Config), w.inject)
	return passMaker{inner}, err
}

// passMaker turns the plain records of the checker into forward passes.
type passMaker struct{ exporter.Logs }

func (m passMaker) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	id, _ := firstRecord(logs).Attributes().Get("test_id")
	counter, err := strconv.ParseInt(id.Str(), 10, 64)
	if err != nil {
		return err
	}
	return m.Logs.ConsumeLogs(ctx, counted(counter))
}

// COL-80, COL-81: retryable errors are retried, permanent ones are not, and nothing is lost or sent twice.
func TestConsumeContract(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no queue":        noQueue,
		"wait for result": func(cfg *Config) { cfg.QueueConfig.Get().WaitForResult = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultConfig()
			flushed(cfg)
			change(cfg)
			cfg.BackOffConfig.InitialInterval = time.Millisecond
			cfg.BackOffConfig.MaxInterval = 2 * time.Millisecond
			require.NoError(t, cfg.Validate())
			s := &seam{}
			exportertest.CheckConsumeContract(exportertest.CheckConsumeContractParams{
				T:                    t,
				NumberOfTestElements: 100,
				Signal:               pipeline.SignalLogs,
				ExporterFactory: exporter.NewFactory(metadata.Type, createDefaultConfig,
					exporter.WithLogs(s.createExporter, metadata.LogsStability)),
				ExporterConfig: cfg,
				ReceiverFactory: receiver.NewFactory(component.MustNewType("mock"), func() component.Config { return nil },
					receiver.WithLogs(s.createReceiver, component.StabilityLevelStable)),
			})
		})
	}
}
