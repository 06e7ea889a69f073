// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package traces tests the spans of the built distribution: publishers on the
// real libzmq on one side, the Collector's own OTLP receiver on the other. It also runs the examples and the demo as they are. It has no code of its
// own: see the tests.
package traces
