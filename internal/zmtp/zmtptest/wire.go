// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtptest

import (
	"encoding/binary"
	"math"
)

// Flags of a frame.
const (
	FlagMore    = 0x01
	FlagLong    = 0x02
	FlagCommand = 0x04
)

// What a SUB of ZMTP 3.1 writes, in this order.
const (
	// ClientGreeting has 64 bytes.
	ClientGreeting = "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x01NULL" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	ClientReady = "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
	// SubscribeCommand and SubscribeMessage are the two forms of a subscription to
	// everything; the second is that of 3.0.
	SubscribeCommand = "\x04\x0a\x09SUBSCRIBE"
	SubscribeMessage = "\x00\x01\x01"
)

// Greeting gives a greeting of a peer, as libzmq pads it.
func Greeting(major, minor byte, mechanism string) []byte {
	g := make([]byte, 64)
	g[0], g[8], g[9], g[10], g[11] = 0xff, 0x01, 0x7f, major, minor
	copy(g[12:32], mechanism)
	return g
}

// Property is one of READY's.
type Property struct{ Name, Value string }

// Ready gives a READY with these properties.
func Ready(properties ...Property) []byte {
	var data []byte
	for _, p := range properties {
		data = append(data, byte(len(p.Name)))
		data = append(data, p.Name...)
		data = binary.BigEndian.AppendUint32(data, uint32(len(p.Value)))
		data = append(data, p.Value...)
	}
	return Command("READY", data)
}

// ReadyAs gives a READY with that Socket-Type alone.
func ReadyAs(socketType string) []byte {
	return Ready(Property{Name: "Socket-Type", Value: socketType})
}

// Command gives a command frame, long when it has to be.
func Command(name string, data []byte) []byte {
	body := append([]byte{byte(len(name))}, name...)
	return Frame(FlagCommand, append(body, data...))
}

// Ping gives a PING with a TTL in tenths of a second.
func Ping(ttl uint16, context string) []byte {
	return Command("PING", append(binary.BigEndian.AppendUint16(nil, ttl), context...))
}

// Pong gives a PONG.
func Pong(context string) []byte { return Command("PONG", []byte(context)) }

// Error gives an ERROR.
func Error(reason string) []byte {
	return Command("ERROR", append([]byte{byte(len(reason))}, reason...))
}

// Frame gives a frame with these flags; a body above 255 bytes makes it long.
func Frame(flags byte, body []byte) []byte {
	return append(AppendHeader(nil, flags, len(body)), body...)
}

// AppendHeader appends the header of a frame whose body has size bytes.
func AppendHeader(dst []byte, flags byte, size int) []byte {
	if size <= math.MaxUint8 && flags&FlagLong == 0 {
		return append(dst, flags, byte(size))
	}
	return binary.BigEndian.AppendUint64(append(dst, flags|FlagLong), uint64(size))
}

// Message gives a whole message.
func Message(frames ...[]byte) []byte { return AppendMessage(nil, frames...) }

// AppendMessage appends a whole message.
func AppendMessage(dst []byte, frames ...[]byte) []byte {
	for i, body := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = FlagMore
		}
		dst = append(AppendHeader(dst, flags, len(body)), body...)
	}
	return dst
}

// Numbered gives the three frames that FPM publishers send: the empty topic, the
// sequence as 8 bytes, the payload.
func Numbered(sequence uint64, payload []byte) [][]byte {
	return [][]byte{{}, binary.BigEndian.AppendUint64(nil, sequence), payload}
}
