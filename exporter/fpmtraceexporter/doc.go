// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../internal/tools/go.mod mdatagen metadata.yaml

// Package fpmtraceexporter writes forward pass log records as rolled, compressed dynamo.fpm.trace.v1 files, which every
// reader of Dynamo's own trace files can read. The format itself lives in internal/tracefile; this package holds the
// configuration, the conversion of log records, the telemetry and the lifecycle.
package fpmtraceexporter
