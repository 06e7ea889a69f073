// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// produce gives the producer of an id, made if need be. It is nil if there are too many (FIL-51).
func (w *Writer) produce(id string) *producer {
	part := producerPart(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.producers[part]
	switch {
	case p != nil && !p.isRetired():
		w.checkID(p, id)
		return p
	case p == nil && len(w.producers) >= w.limits.maxProducers:
		if w.limitLog.Allow() {
			w.logger.Warn("Too many producers, rows of new ones are dropped",
				zap.Int("limit", w.limits.maxProducers), zap.String("producer", part))
		}
		return nil
	}
	successor := newProducer(w, part, id, p)
	w.producers[part] = successor
	go successor.run()
	return successor
}

// checkID warns once if two producer ids share files because their names come out the same (FIL-5).
func (w *Writer) checkID(p *producer, id string) {
	if p.id != id && !p.shared {
		p.shared = true
		p.logger.Warn("Two producer ids share the same trace files, because they differ only in characters that a file "+
			"name can't hold", zap.Strings("producer_ids", []string{p.id, id}))
	}
}

// checkSource warns once for each producer if rows do not say where they come from (ROW-7).
func (w *Writer) checkSource(p *producer, source *fpm.Source) {
	if source.Namespace != "" && source.Component != "" && source.ProducerID != "" {
		return
	}
	w.mu.Lock()
	known := p.incomplete
	p.incomplete = true
	w.mu.Unlock()
	if !known {
		p.logger.Warn("Rows have an empty source field: a record had no service.namespace, no service.name or no producer id",
			zap.String("namespace", source.Namespace), zap.String("component", source.Component),
			zap.String("producer_id", source.ProducerID))
	}
}

// checkSources warns as checkID and checkSource do, whichever row of j it is.
func (w *Writer) checkSources(p *producer, j *job) {
	w.checkSource(p, &j.source)
	for i := range j.others {
		w.checkSource(p, &j.others[i])
		w.mu.Lock()
		w.checkID(p, j.others[i].ProducerID)
		w.mu.Unlock()
	}
}

// find gives the producer that owns the files with that part in their names, nil if there is none.
func (w *Writer) find(part string) *producer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.producers[part]
}

// forget takes out a producer that has closed.
func (w *Writer) forget(p *producer) {
	w.mu.Lock()
	if w.producers[p.part] == p {
		delete(w.producers, p.part)
	}
	w.mu.Unlock()
	p.summarize()
}

func (w *Writer) everyProducer() []*producer {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*producer, 0, len(w.producers))
	for _, p := range w.producers {
		all = append(all, p)
	}
	return all
}
