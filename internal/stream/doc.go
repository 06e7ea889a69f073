// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package stream accounts for what a publisher sent and what arrived: gaps,
// duplicates, restarts and silence, by the sequence numbers of each stream
// (fpm-stream.md, section 9). It knows no transport and no telemetry.
package stream
