// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

// Wire constants of ZMTP 3.1. All integers on the wire are big-endian.
const (
	greetingSize   = 64
	signatureSize  = 10
	versionEnd     = 12
	mechanismSize  = 20
	mechanismEnd   = versionEnd + mechanismSize
	signatureStart = 0xff
	signatureEnd   = 0x7f
	protocolMajor  = 3
	protocolMinor  = 1
	mechanismNull  = "NULL"
)

// Bits of a frame's flags. Bits 3 to 7 are reserved and must be 0.
const (
	flagMore     = 1 << 0
	flagLong     = 1 << 1
	flagCommand  = 1 << 2
	flagReserved = 0xff &^ (flagMore | flagLong | flagCommand)
)

const (
	shortHeaderSize = 2
	longHeaderSize  = 9

	// maxCommandSize bounds the body of a command, maxFrames the frames of a
	// message (ZMQ-17).
	maxCommandSize = 4096
	maxFrames      = 8
)

const (
	commandReady = "READY"
	commandError = "ERROR"
	commandPing  = "PING"
	commandPong  = "PONG"

	propertySocketType = "Socket-Type"

	// pingTTLSize is that of the TTL field, maxPingContext the longest context.
	pingTTLSize    = 2
	maxPingContext = 16
)

// What the client writes, whole frames each, besides PONG.
var (
	ownGreeting = buildGreeting()
	ownReady    = []byte("\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB")
	// subscribeCommand is understood since 3.1, subscribeMessage is the only form
	// of 3.0 (ZMQ-9).
	subscribeCommand = []byte("\x04\x0a\x09SUBSCRIBE")
	subscribeMessage = []byte("\x00\x01\x01")
	// ownPing has TTL 0: a peer that honors a TTL would drop us while it is the
	// one that talks (ZMQ-31).
	ownPing = []byte("\x04\x07\x04PING\x00\x00")
)

func buildGreeting() []byte {
	g := make([]byte, greetingSize)
	g[0] = signatureStart
	g[signatureSize-1] = signatureEnd
	g[signatureSize] = protocolMajor
	g[signatureSize+1] = protocolMinor
	copy(g[versionEnd:], mechanismNull)
	return g
}

// appendPong appends the answer to a PING with that context.
func appendPong(dst, context []byte) []byte {
	const name = commandPong
	dst = append(dst, flagCommand, byte(1+len(name)+len(context)), byte(len(name))) //nolint:gosec // A context has at most 16 bytes.
	dst = append(dst, name...)
	return append(dst, context...)
}
