// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracefile is the one home of the trace file format dynamo.fpm.trace.v1: rows of JSON, gathered into complete
// gzip members, appended to segments that roll and are pruned per producer. Rule ids in comments (ROW, FIL, CAP, CON) are
// those of the trace file specification; the rules without a mark there equal Dynamo's own trace writer.
//
// A Writer owns everything below one base path. Each producer has one goroutine, which alone touches the files of that
// producer, so that a disk that hangs or fails for one of them neither stops nor delays another (FIL-61). What comes in
// is encoded in the caller's goroutine and then belongs to the package.
package tracefile
