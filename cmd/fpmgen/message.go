// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// message is one three-frame message; its buffers are used again for the next.
type message struct {
	number   [8]byte
	sequence []byte // view of number
	payload  []byte
	noTopic  bool // a damage: two frames
	list     [3][]byte
}

// set makes it the message of a record (STR-3).
func (m *message) set(sequence uint64, pass *fpm.ForwardPass, legacy bool) {
	binary.BigEndian.PutUint64(m.number[:], sequence)
	m.sequence = m.number[:]
	m.noTopic = false
	m.payload = fpm.AppendPayload(m.payload[:0], pass)
	if legacy {
		m.payload = withoutVersionAndCounter(m.payload, pass)
	}
}

// frames are views, valid until the next set.
func (m *message) frames() [][]byte {
	if m.noTopic {
		m.list = [3][]byte{m.sequence, m.payload}
		return m.list[:2]
	}
	m.list = [3][]byte{{}, m.sequence, m.payload}
	return m.list[:]
}

// withoutVersionAndCounter cuts the two entries out of an encoded payload
// (STR-79), in place.
func withoutVersionAndCounter(payload []byte, pass *fpm.ForwardPass) []byte {
	header := len(fpm.AppendMapHeader(nil, 0))
	version := len(fpm.AppendInt(fpm.AppendString(nil, "version"), 1))
	between := len(fpm.AppendInt(fpm.AppendString(fpm.AppendString(fpm.AppendString(nil,
		"worker_id"), string(pass.WorkerID)), "dp_rank"), pass.DPRank))
	counter := len(fpm.AppendInt(fpm.AppendString(nil, "counter_id"), pass.CounterID))

	out := payload[:header]
	out[0] -= 2 // entries of a fixmap
	rest := payload[header+version:]
	out = append(out, rest[:between]...)
	return append(out, rest[between+counter:]...)
}
