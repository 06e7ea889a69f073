// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics tests what a real Prometheus stores of the metrics of the built
// distribution, dist/otelcol-fpm, fed by publishers on the real libzmq. It has no
// code of its own: see the tests, and the packages harness and promtest for what
// they stand on.
package metrics
