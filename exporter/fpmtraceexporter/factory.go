// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// NewFactory makes the factory of the exporter fpm_trace.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(
		metadata.Type,
		createDefaultConfig,
		exporter.WithLogs(createLogs, metadata.LogsStability),
	)
}

func createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	config := cfg.(*Config)
	if !config.Enabled {
		return newDiscard(set.Logger), nil
	}
	return newTraceExporter(ctx, set, config, newFileWriter)
}

// newFileWriter is the writer of a real exporter.
func newFileWriter(cfg tracefile.Config, obs tracefile.Observer, set component.TelemetrySettings) writer {
	return tracefile.NewWriter(cfg, obs, set.Logger)
}
