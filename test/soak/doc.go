// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package soak runs the built distribution for a long time under everything that
// a fleet does to it (512 streams, engine restarts, workers that are replaced,
// rolls, pruning, three signals) and looks whether memory, goroutines and file
// descriptors stay flat.
//
//	test/soak/run.sh 30m
//
// The run itself is a test that needs SOAK_DURATION; the others test the verdict.
package soak
