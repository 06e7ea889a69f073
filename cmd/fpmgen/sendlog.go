// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// sendLog writes one JSON line for each record, for checkers that compare what
// was sent with what arrived. A nil log writes nothing.
type sendLog struct {
	mu         sync.Mutex
	file       *os.File
	buffer     *bufio.Writer
	encoder    *json.Encoder
	wholeBytes bool
}

// entry is one line.
type entry struct {
	Rank     int    `json:"rank"`
	Endpoint string `json:"endpoint"`
	WorkerID string `json:"worker_id"`
	Sequence uint64 `json:"sequence"`
	// Kind is a record kind (STR-63), "malformed", "dropped" (numbered, not
	// sent) or "end" (an end marker).
	Kind string `json:"kind"`
	// Reason is why a receiver must refuse a malformed message.
	Reason string `json:"reason,omitempty"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Hex    string `json:"hex,omitempty"`
	// Subscribers is how many there were.
	Subscribers int `json:"subscribers"`
	// Missed is the number of subscribers whose queue was full.
	Missed uint64 `json:"missed,omitempty"`
}

func openSendLog(path string, wholeBytes bool) (*sendLog, error) {
	file, err := os.Create(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("--log-file: %w", err)
	}
	buffer := bufio.NewWriterSize(file, 1<<16)
	return &sendLog{file: file, buffer: buffer, encoder: json.NewEncoder(buffer), wholeBytes: wholeBytes}, nil
}

func (l *sendLog) write(e *entry, payload []byte) error {
	if l == nil {
		return nil
	}
	sum := sha256.Sum256(payload)
	e.Bytes, e.SHA256 = len(payload), hex.EncodeToString(sum[:])
	if l.wholeBytes {
		e.Hex = hex.EncodeToString(payload)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.encoder.Encode(e)
}

func (l *sendLog) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.buffer.Flush(), l.file.Close())
}
