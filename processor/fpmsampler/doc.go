// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../internal/tools/go.mod mdatagen metadata.yaml

// Package fpmsampler thins out forward passes. Operators get one forward pass
// of a worker's rank and interval, the newest, instead of every one;
// researchers get rows that say whether the capture was sampled or full.
package fpmsampler
