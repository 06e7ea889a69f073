// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboards tests what users see of the metrics: the rules and the
// dashboard of examples/prometheus and the queries of docs/metrics.md. A real
// Prometheus evaluates every one of them, on what the built distribution makes of
// a synthetic engine, and names in them are names that exist. It has no code of
// its own: see the tests.
package dashboards
