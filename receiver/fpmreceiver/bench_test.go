// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"encoding/binary"
	"time"

	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

func nopSettings() receiver.Settings { return receivertest.NewNopSettings(metadata.Type) }

// numbered is the golden message with a sequence that goes up.
type numbered struct {
	zmtp.Message
	sequence uint64
}

func benchMessage() *numbered {
	return &numbered{Message: zmtp.Message{Frames: zmtptest.Numbered(0, golden()), ReceivedAt: time.Now(), Generation: 1}}
}

func (m *numbered) next() {
	m.sequence++
	binary.BigEndian.PutUint64(m.Frames[1], m.sequence)
}
