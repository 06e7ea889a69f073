// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import "time"

// Message is one whole multipart message.
type Message struct {
	// Frames are views into the connection's read buffer, each with capacity
	// equal to its length. They are valid until Handler.OnMessage returns; who
	// keeps them longer copies them (ZMQ-23).
	Frames [][]byte
	// ReceivedAt is the wall clock at the return of the read call that completed
	// the message (ZMQ-16). Messages of one read share it.
	ReceivedAt time.Time
	// Generation is that of the connection, 1 for the endpoint's first.
	Generation uint64
}

// Handler gets everything that happens at one endpoint, from that endpoint's
// supervisor goroutine and never concurrently. No method may call the
// [Subscriber] that calls it.
type Handler interface {
	// OnMessage may block; the client reads nothing meanwhile (ZMQ-50). It must
	// return once its owner shuts down, because Remove and Close wait for it.
	OnMessage(m *Message)
	// OnConnect reports that the handshake is done and the subscription written.
	OnConnect(generation uint64)
	// OnAttemptFailed reports every attempt that didn't get that far, except for
	// a canceled one.
	OnAttemptFailed(err *Error)
	// OnDisconnect reports the end of an established connection, except for a
	// canceled one (ZMQ-62).
	OnDisconnect(err *Error)
	// OnStatus reports a change between down (the state at the start) and up,
	// and a changed reason while down (ZMQ-53). err is nil when up. It comes
	// after OnConnect, OnAttemptFailed or OnDisconnect of the same event. When
	// the connection before was lost without proof that the peer works (a byte
	// after the handshake, or 0.3 x IdleTimeout survived), up is reported with
	// that proof only, so that a peer which drops each subscriber at once is one
	// down event, not a flapping endpoint.
	OnStatus(up bool, err *Error)
	// OnIO reports the bytes read and the PINGs answered since the last call, at
	// most once for each read.
	OnIO(bytes, pings int)
}
