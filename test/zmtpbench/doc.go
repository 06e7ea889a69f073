// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package zmtpbench compares the project's ZMTP client with go-zeromq/zmq4, side
// by side in one run on one publisher:
//
//	go test -run '^$' -bench . -benchtime 1x ./test/zmtpbench
//
// The saturated comparison fails when the client costs more than a third of the
// library per message (ZMQ-65). Only the ratio is guarded, never a time.
package zmtpbench
