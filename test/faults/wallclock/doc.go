// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package wallclock steps the wall clock of the whole process while the receiver,
// the sampler and the exporter run. Its test needs a package time with a function
// StepWall, which TestWallClockSteps of package faults puts in the place of the
// standard one when it builds it (the tag wallclock).
package wallclock
