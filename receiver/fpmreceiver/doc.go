// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../internal/tools/go.mod mdatagen metadata.yaml

// Package fpmreceiver subscribes to the raw streams of LLM engines. Every forward
// pass becomes a log record and a span and is counted in metrics, for as many of the
// three signals as pipelines ask for.
package fpmreceiver
