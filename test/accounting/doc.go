// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package accounting finds out what became of every single message of a run, from
// the publishers' logs, the records that came out and the collector's telemetry.
// It needs no binary, so that its own tests run wherever Go does.
package accounting
