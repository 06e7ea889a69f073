// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"strconv"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// The fixed text of a row, in its only order (ROW-2 to ROW-5). A row is a head, which holds the time at which it joined
// its batch and so is written last, and a tail.
const (
	rowHead        = `{"timestamp":`
	rowSource      = `,"event":{"schema":"dynamo.fpm.trace.v1","source":{"namespace":`
	rowComponent   = `,"component":`
	rowProducer    = `,"producer_id":`
	rowCaptureMode = `},"capture_mode":`
	rowObserved    = `,"observed_at_unix_ms":`
	rowPayload     = `,"fpm":`
	rowEnd         = "}}\n"
)

// Envelope is what stands in a row around the payload.
type Envelope struct {
	TimestampMillis    uint64 // since the writer started, on the monotonic clock (ROW-9)
	Source             fpm.Source
	CaptureMode        string // "sampled" or "full" (ROW-8)
	ObservedUnixMillis uint64 // receive time (ROW-10)
}

// AppendRow appends one row with its line feed (ROW-1 to ROW-22). canonical is what fpm.Decoder.Canonical gives.
func AppendRow(dst []byte, e Envelope, canonical []byte) []byte {
	return appendRowTail(appendRowHead(dst, e.TimestampMillis), &e, canonical)
}

func appendRowHead(dst []byte, timestampMillis uint64) []byte {
	return strconv.AppendUint(append(dst, rowHead...), timestampMillis, 10)
}

func appendRowTail(dst []byte, e *Envelope, canonical []byte) []byte {
	dst = appendText(append(dst, rowSource...), e.Source.Namespace)
	dst = appendText(append(dst, rowComponent...), e.Source.Component)
	dst = appendText(append(dst, rowProducer...), e.Source.ProducerID)
	dst = appendText(append(dst, rowCaptureMode...), e.CaptureMode)
	dst = strconv.AppendUint(append(dst, rowObserved...), e.ObservedUnixMillis, 10)
	dst = AppendPayloadJSON(append(dst, rowPayload...), canonical)
	return append(dst, rowEnd...)
}

// AppendPayloadJSON appends a canonical payload as JSON, in payload order at every level (ROW-11 to ROW-18).
func AppendPayloadJSON(dst, canonical []byte) []byte {
	p := printer{cursor: fpm.NewCursor(canonical)}
	return p.appendValue(dst)
}

// printer walks a payload with one token, used again for every value.
type printer struct {
	cursor fpm.Cursor
	token  fpm.Token
}

// appendValue calls itself at most as deep as a payload may nest, which the decoder limits to 16.
func (p *printer) appendValue(dst []byte) []byte {
	t := &p.token
	switch p.cursor.Read(t); t.Kind {
	case fpm.TokenBool:
		return strconv.AppendBool(dst, t.Bool)
	case fpm.TokenInt:
		return strconv.AppendInt(dst, t.Int, 10)
	case fpm.TokenUint:
		return strconv.AppendUint(dst, t.Uint, 10)
	case fpm.TokenFloat:
		return appendFloat(dst, t.Float)
	case fpm.TokenString:
		return appendText(dst, t.Str)
	case fpm.TokenArray:
		return p.appendArray(dst, t.Len)
	case fpm.TokenMap:
		return p.appendObject(dst, t.Len)
	default: // nil; a canonical payload holds nothing else
		return append(dst, "null"...)
	}
}

func (p *printer) appendArray(dst []byte, elements int) []byte {
	dst = append(dst, '[')
	for i := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.appendValue(dst)
	}
	return append(dst, ']')
}

func (p *printer) appendObject(dst []byte, pairs int) []byte {
	dst = append(dst, '{')
	for i := range pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		p.cursor.Read(&p.token)
		dst = append(appendText(dst, p.token.Str), ':')
		dst = p.appendValue(dst)
	}
	return append(dst, '}')
}
