// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
)

// discard stands for an exporter that is switched off: it opens nothing, accepts records and forgets them (ENV-5).
type discard struct {
	component.ShutdownFunc
	logger *zap.Logger
}

func newDiscard(logger *zap.Logger) *discard { return &discard{logger: logger} }

// Start says that records will be discarded, since nothing else would.
func (d *discard) Start(context.Context, component.Host) error {
	d.logger.Info("The exporter is switched off and discards all records; set enabled to true to write trace files.")
	return nil
}

// Capabilities says that records are left as they are.
func (*discard) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeLogs discards.
func (*discard) ConsumeLogs(context.Context, plog.Logs) error { return nil }
