// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"errors"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

const (
	// maxPayloadSize bounds one payload in bytes. It is far above what the receiver accepts by default, since its
	// max_message_size can be raised; readers of ours take lines of up to 16 MiB (RDR-17).
	maxPayloadSize = 16 << 20

	// maxKeptBodies and maxKeptRecords bound what a batch keeps for the next push.
	maxKeptBodies  = 4 << 20
	maxKeptRecords = 16 << 10
)

// Why a log record is no forward pass (ROW-27); an invalid payload gives an fpm.Reason instead.
var (
	errOtherEvent = errors.New("the event name is not " + fpmpdata.EventName)
	errOtherBody  = errors.New("the body is neither a map nor bytes")
)

// batch holds the records of one push. It is reused; its slices are valid until release.
type batch struct {
	records []tracefile.Record
	origins []origin // where each record stands in the logs
	refused refusals

	decoder fpm.Decoder
	pass    fpm.ForwardPass
	bodies  []byte // payloads that are no views of the logs
}

// origin is a place in a plog.Logs.
type origin struct{ resource, scope, record int }

// refusals counts the records that are no forward passes and keeps the last cause.
type refusals struct {
	n   int
	err error
}

func newBatch() *batch {
	return &batch{decoder: fpm.Decoder{MaxSize: maxPayloadSize}}
}

// fill converts all forward passes of the logs, which must not change before release: payloads of bytes bodies are views.
func (b *batch) fill(logs plog.Logs) {
	for i, resourceLogs := range logs.ResourceLogs().All() {
		from := resourceOf(resourceLogs.Resource().Attributes())
		for j, scopeLogs := range resourceLogs.ScopeLogs().All() {
			for k, record := range scopeLogs.LogRecords().All() {
				b.add(&from, record, origin{resource: i, scope: j, record: k})
			}
		}
	}
}

func (b *batch) add(from *resource, record plog.LogRecord, at origin) {
	bodies := len(b.bodies)
	canonical, err := b.canonical(record)
	if err != nil {
		b.bodies = b.bodies[:bodies]
		b.refused.n++
		b.refused.err = err
		return
	}
	workerID := textOf(record.Attributes(), fpmpdata.AttrWorkerID)
	b.records = append(b.records, tracefile.Record{
		Source:           from.source(workerID),
		Worker:           from.worker(workerID),
		DPRank:           b.pass.DPRank,
		CounterID:        b.pass.CounterID,
		CaptureMode:      captureMode(record.Attributes()),
		ObservedUnixNano: uint64(observed(record)),
		Canonical:        canonical,
	})
	b.origins = append(b.origins, at)
}

// canonical checks the payload of a record and gives its canonical form, valid until release.
func (b *batch) canonical(record plog.LogRecord) ([]byte, error) {
	if !fpmpdata.IsForwardPassLog(record) {
		return nil, errOtherEvent
	}
	payload, ok := b.payload(record.Body())
	if !ok {
		return nil, errOtherBody
	}
	if err := b.decoder.Decode(payload, 0, &b.pass); err != nil {
		return nil, err
	}
	return b.keep(payload, b.decoder.Canonical(&b.pass)), nil
}

// payload gives the msgpack of a body: a view of a bytes body, or a map body encoded at the end of b.bodies. When
// b.bodies has to grow, earlier payloads keep the old array.
func (b *batch) payload(body pcommon.Value) (payload []byte, ok bool) {
	if body.Type() == pcommon.ValueTypeBytes {
		return fpmpdata.AppendBody(nil, body)
	}
	start := len(b.bodies)
	encoded, ok := fpmpdata.AppendBody(b.bodies, body)
	b.bodies = encoded
	return encoded[start:], ok
}

// keep copies a canonical payload that the decoder owns, which is so only if it differs from the payload.
func (b *batch) keep(payload, canonical []byte) []byte {
	if &payload[0] == &canonical[0] { // a valid payload is not empty
		return canonical
	}
	start := len(b.bodies)
	b.bodies = append(b.bodies, canonical...)
	return b.bodies[start:]
}

// captureMode is the stamp of the sampler; what did not pass one is full (ROW-8).
func captureMode(attributes pcommon.Map) string {
	mode, ok := attributes.Get(fpmpdata.AttrCaptureMode)
	if ok && mode.Type() == pcommon.ValueTypeStr && mode.Str() == fpmpdata.CaptureModeSampled {
		return fpmpdata.CaptureModeSampled
	}
	return fpmpdata.CaptureModeFull
}

// observed is the receive time (ROW-10); 0 when the record has none.
func observed(record plog.LogRecord) pcommon.Timestamp {
	if at := record.ObservedTimestamp(); at != 0 {
		return at
	}
	return record.Timestamp()
}

// release forgets the logs and keeps a bounded amount of memory.
func (b *batch) release() {
	clear(b.records)
	b.records, b.origins, b.bodies = b.records[:0], b.origins[:0], b.bodies[:0]
	if cap(b.records) > maxKeptRecords {
		b.records, b.origins = nil, nil
	}
	if cap(b.bodies) > maxKeptBodies {
		b.bodies = nil
	}
	b.refused = refusals{}
	b.pass = fpm.ForwardPass{}
}
