// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"sync"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// record is a forward pass on its way to the logs. It owns its payload.
type record struct {
	fpmpdata.Record
	source *logsSource
}

var _ item = (*record)(nil)

// maxPooledPayload keeps rare large payloads out of the pool.
const maxPooledPayload = 16 << 10

var recordPool = sync.Pool{New: func() any { return new(record) }}

// newRecord copies what the log needs of a pass; free ends its life.
func newRecord(decoder *fpm.Decoder, pass *fpm.ForwardPass, asBytes bool) *record {
	r, _ := recordPool.Get().(*record)
	r.Kind = pass.RecordKind()
	r.DPRank, r.CounterID = pass.DPRank, pass.CounterID
	canonical := decoder.Canonical(pass)
	r.AsBytes = asBytes || pass.BigInt || !fpmpdata.FitsMapBody(canonical)
	if r.AsBytes {
		r.Payload = append(r.Payload[:0], decoder.Raw(pass)...)
	} else {
		r.Payload = append(r.Payload[:0], canonical...)
	}
	return r
}

func (r *record) drops() *drops { return r.source.drops }

func (r *record) free() {
	payload := r.Payload[:0]
	if cap(payload) > maxPooledPayload {
		payload = nil
	}
	*r = record{}
	r.Payload = payload
	recordPool.Put(r)
}
