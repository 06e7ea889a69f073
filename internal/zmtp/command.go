// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"encoding/binary"
	"strings"
)

// command is a parsed command frame: views into the read buffer.
type command struct{ name, data []byte }

// parseCommand splits a command's body (ZMQ-26).
func parseCommand(body []byte) (command, *fault) {
	if len(body) == 0 {
		return command{}, faultf(ReasonProtocol, "the peer sent a command without a name")
	}
	end := 1 + int(body[0])
	if end == 1 || end > len(body) {
		return command{}, faultf(ReasonProtocol, "the peer sent a command of %d bytes with a name of %d", len(body), body[0])
	}
	return command{name: body[1:end], data: body[end:]}, nil
}

func (c command) is(name string) bool { return string(c.name) == name }

// checkReady checks the properties of the peer's READY (ZMQ-7).
func checkReady(data []byte) *fault {
	found := false
	for len(data) > 0 {
		name, value, rest, f := cutProperty(data)
		if f != nil {
			return f
		}
		data = rest
		if !strings.EqualFold(string(name), propertySocketType) {
			continue
		}
		found = true
		if !isPublisher(value) {
			return faultf(ReasonSocketType, "the peer is a \"%s\" socket, PUB or XPUB is needed: check that the port is that of the metrics publisher", EscapePeerText(value))
		}
	}
	if !found {
		return faultf(ReasonSocketType, "the peer does not say its socket type, PUB or XPUB is needed")
	}
	return nil
}

func isPublisher(socketType []byte) bool {
	return string(socketType) == "PUB" || string(socketType) == "XPUB"
}

// cutProperty cuts one property, a name with a 1-byte length and a value with a
// 4-byte length, off data. No length is added before it is compared.
func cutProperty(data []byte) (name, value, rest []byte, f *fault) {
	const valueLengthSize = 4
	nameSize := int(data[0])
	rest = data[1:]
	if nameSize == 0 || len(rest) < nameSize+valueLengthSize {
		return nil, nil, nil, faultf(ReasonProtocol, "the peer's READY has a broken property name")
	}
	name, rest = rest[:nameSize], rest[nameSize:]
	valueSize := uint64(binary.BigEndian.Uint32(rest))
	rest = rest[valueLengthSize:]
	if valueSize > uint64(len(rest)) {
		return nil, nil, nil, faultf(ReasonProtocol, "the peer's READY has a value of %d bytes with %d left", valueSize, len(rest))
	}
	return name, rest[:valueSize], rest[valueSize:], nil
}

// checkPing gives the context to answer with (ZMQ-33). The TTL is ignored: a
// peer must not shorten our idle timeout (ZMQ-34).
func checkPing(data []byte) (context []byte, f *fault) {
	if len(data) < pingTTLSize || len(data) > pingTTLSize+maxPingContext {
		return nil, faultf(ReasonProtocol, "the peer sent a PING with %d bytes of data, 2 to 18 are allowed", len(data))
	}
	return data[pingTTLSize:], nil
}

// peerErrorFault turns the data of the peer's ERROR into the fault it causes.
func peerErrorFault(data []byte) *fault {
	if len(data) == 0 || int(data[0]) > len(data)-1 {
		return faultf(ReasonProtocol, "the peer sent a broken ERROR")
	}
	return faultf(ReasonPeerError, "the peer refuses the subscription: \"%s\"", EscapePeerText(data[1:1+int(data[0])]))
}
