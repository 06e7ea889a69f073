// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package zmtptest has two publishers for tests and load: [Server] with [Peer],
// whose every byte the test decides, and [Publisher], a fast well-behaved PUB.
//
// It shares no code with package zmtp, so that its bytes are a second opinion on
// the wire format.
package zmtptest
