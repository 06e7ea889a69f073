// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/otelcol-fpm/otelcol-fpm/internal/sharedcomponent"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// receivers holds the running receivers: one for each configuration, whatever
// number of signals it serves (COL-55).
var receivers sharedcomponent.Map[*Config, *fpmReceiver]

// NewFactory makes the factory of the fpm receiver.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(
		metadata.Type,
		createDefaultConfig,
		receiver.WithLogs(createLogs, metadata.LogsStability),
		receiver.WithMetrics(createMetrics, metadata.MetricsStability),
		receiver.WithTraces(createTraces, metadata.TracesStability),
	)
}

func createLogs(_ context.Context, settings receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
	shared, err := sharedReceiver(cfg.(*Config), settings)
	if err != nil {
		return nil, err
	}
	shared.Unwrap().nextLogs = next
	return shared, nil
}

func createMetrics(_ context.Context, settings receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	shared, err := sharedReceiver(cfg.(*Config), settings)
	if err != nil {
		return nil, err
	}
	shared.Unwrap().nextMetrics = next
	return shared, nil
}

func createTraces(_ context.Context, settings receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	shared, err := sharedReceiver(cfg.(*Config), settings)
	if err != nil {
		return nil, err
	}
	shared.Unwrap().nextTraces = next
	return shared, nil
}

func sharedReceiver(cfg *Config, settings receiver.Settings) (*sharedcomponent.Component[*fpmReceiver], error) {
	return receivers.LoadOrCreate(cfg, func() (*fpmReceiver, error) { return newReceiver(cfg, settings) })
}
