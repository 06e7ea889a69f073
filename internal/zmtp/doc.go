// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package zmtp is a small ZMTP 3.1 SUB client: NULL mechanism, receive only,
// the empty topic. It knows nothing about the messages it carries.
//
// A [Subscriber] keeps one connection to each [Endpoint] alive for ever: one
// supervisor goroutine an endpoint dials, reads, closes and waits, and reports
// everything to that endpoint's [Handler]. The client holds no queue of
// messages: a handler that doesn't return makes the client stop reading, and
// the publisher drops at its high-water mark.
//
// Not supported on purpose: PLAIN and CURVE, binding, WebSocket, PGM, XSUB,
// topics. Rule ids such as ZMQ-25 in comments and test names are those of the
// project's description of this client.
package zmtp
