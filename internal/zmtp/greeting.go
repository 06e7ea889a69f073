// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import "bytes"

// peerVersion is what a peer announced in its greeting.
type peerVersion struct{ major, minor byte }

// is31 reports whether the peer knows what came with 3.1: SUBSCRIBE as a command
// and PING (ZMQ-9, ZMQ-30).
func (v peerVersion) is31() bool {
	return v.major > protocolMajor || v.minor >= protocolMinor
}

// checkGreeting checks as much of the peer's greeting as has arrived, so that a
// server of another protocol fails with its first bytes (ZMQ-2). The greeting is
// accepted when it is whole and the fault nil.
func checkGreeting(g []byte) *fault {
	g = g[:min(len(g), greetingSize)]
	if len(g) > 0 && g[0] != signatureStart || len(g) >= signatureSize && g[signatureSize-1] != signatureEnd {
		return faultf(ReasonGreeting, "the peer does not speak ZMTP, it sent \"%s\": check that the port is that of a ZMQ PUB socket", EscapePeerText(g))
	}
	if len(g) >= versionEnd && g[signatureSize] < protocolMajor {
		return faultf(ReasonVersion, "the peer speaks ZMTP %d.%d, 3.0 or later is needed", g[signatureSize], g[signatureSize+1])
	}
	if len(g) >= mechanismEnd {
		return checkMechanism(g[versionEnd:mechanismEnd])
	}
	return nil
}

func checkMechanism(field []byte) *fault {
	if bytes.Equal(field, ownGreeting[versionEnd:mechanismEnd]) {
		return nil
	}
	name := EscapePeerText(bytes.TrimRight(field, "\x00"))
	return faultf(ReasonMechanism, "the peer wants the security mechanism \"%s\", only NULL is supported: turn security off at the publisher", name)
}
