// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"sync"

	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// maxWarnedProducers bounds the memory of the warnings; it is the number of producers that can be written (FIL-51).
const maxWarnedProducers = 4096

// sourceWarnings logs once for each producer that its rows have an incomplete source (ROW-7). The zero value with a logger
// is ready.
type sourceWarnings struct {
	logger *zap.Logger

	mu     sync.Mutex
	warned map[string]struct{}
}

func (w *sourceWarnings) check(records []tracefile.Record) {
	for i := range records {
		source := &records[i].Source
		if source.Namespace == "" || source.Component == "" || source.ProducerID == "" {
			w.warn(&records[i])
		}
	}
}

func (w *sourceWarnings) warn(record *tracefile.Record) {
	if !w.first(record.Source.ProducerID) {
		return
	}
	w.logger.Warn("Rows of this producer have an empty source: set the resource attributes "+
		fpmpdata.AttrServiceNamespace+" and "+fpmpdata.AttrServiceName+" (the receiver's namespace and component), and "+
		fpmpdata.AttrProducerID+" if the worker has no id.",
		zap.String("namespace", record.Source.Namespace),
		zap.String("component", record.Source.Component),
		zap.String("producer_id", record.Source.ProducerID))
}

func (w *sourceWarnings) first(producerID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.warned[producerID]; ok || len(w.warned) >= maxWarnedProducers {
		return false
	}
	if w.warned == nil {
		w.warned = make(map[string]struct{})
	}
	w.warned[producerID] = struct{}{}
	return true
}
