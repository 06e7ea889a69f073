// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

// Own telemetry that the tests look at.
const (
	metricMessages    = "otelcol_fpm_receiver_messages"
	metricRecords     = "otelcol_fpm_receiver_records"
	metricInvalid     = "otelcol_fpm_receiver_invalid_messages"
	metricRestarts    = "otelcol_fpm_receiver_restarts"
	metricDropped     = "otelcol_fpm_receiver_dropped_records"
	metricQueued      = "otelcol_fpm_receiver_queue_records"
	metricConnects    = "otelcol_fpm_receiver_connects"
	metricDisconnects = "otelcol_fpm_receiver_disconnects"
	metricRows        = "otelcol_fpm_trace_exporter_rows_written"
	metricRowsDropped = "otelcol_fpm_trace_exporter_rows_dropped"
	metricErrors      = "otelcol_fpm_trace_exporter_errors"
)
