// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the built distribution, dist/otelcol-fpm, with publishers on
// the real libzmq. It has no code of its own: see the tests, and package harness
// for what they stand on.
package e2e
