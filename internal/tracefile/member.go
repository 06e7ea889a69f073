// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// maxPooledBuffer keeps buffers that an unusual push made large from staying in memory for ever.
const maxPooledBuffer = 4 << 20

// buffers holds the storage of batches and members between flushes, so that a producer that is quiet holds none (CAP-10).
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func takeBuffer() []byte {
	return (*buffers.Get().(*[]byte))[:0] //nolint:forcetypeassert // the pool holds nothing else
}

func giveBuffer(b []byte) {
	if cap(b) > 0 && cap(b) <= maxPooledBuffer {
		buffers.Put(&b)
	}
}

// compressor makes gzip members. It has as many encoders, of about a megabyte each, as there are processors to run them,
// however many producers there are. Nobody holds one while waiting for the disk.
type compressor struct {
	encoders chan *gzip.Writer
}

func newCompressor(level int) *compressor {
	level = min(max(level, gzip.BestSpeed), gzip.BestCompression)
	c := &compressor{encoders: make(chan *gzip.Writer, runtime.GOMAXPROCS(0))}
	for range cap(c.encoders) {
		z, _ := gzip.NewWriterLevel(nil, level) // fails only for other levels
		c.encoders <- z
	}
	return c
}

// appendMember appends one complete member that holds rows: no name, no time, no comment in its header (FIL-14).
func (c *compressor) appendMember(dst, rows []byte) []byte {
	z := <-c.encoders
	defer func() { c.encoders <- z }()
	out := sliceWriter(dst)
	z.Reset(&out)
	_, _ = z.Write(rows) // a sliceWriter never fails, and the encoder has no failure of its own
	_ = z.Close()
	return out
}

type sliceWriter []byte

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
