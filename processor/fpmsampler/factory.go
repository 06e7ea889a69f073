// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadata"
)

// NewFactory returns the factory of the processor fpm_sampler. It has no
// metrics: a metric is folded over every forward pass, so there is nothing to
// sample in it (SMP-22).
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithLogs(createLogs, metadata.LogsStability),
		processor.WithTraces(createTraces, metadata.TracesStability),
	)
}

func createLogs(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
	return newLogs(set, cfg.(*Config), next) //nolint:contextcheck // counters need no context
}

func createTraces(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	return newTraces(set, cfg.(*Config), next) //nolint:contextcheck // counters need no context
}
