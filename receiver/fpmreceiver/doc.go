// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../internal/tools/go.mod mdatagen metadata.yaml

// Package fpmreceiver subscribes to the raw streams of LLM engines and turns
// every forward pass into a log record.
package fpmreceiver
