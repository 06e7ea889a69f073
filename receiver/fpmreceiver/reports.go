// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// reportInterval is the least time between two log lines of an endpoint about
// the same matter (STR-52, ZMQ-53).
const reportInterval = time.Minute

// reports writes the log lines of one endpoint. Matters are words of fixed
// sets, so the table is small.
type reports struct {
	logger *zap.Logger

	mu      sync.Mutex
	matters map[string]*matter
}

type matter struct {
	last  time.Time
	count int64 // since the last line
}

func newReports(logger *zap.Logger) *reports {
	return &reports{logger: logger, matters: make(map[string]*matter)}
}

// warn logs at most once per reportInterval and matter. fields is called only
// for a line that is written; the line also says how often the matter came up
// since the last one.
func (r *reports) warn(matter, message string, fields func() []zap.Field) {
	if count, due := r.due(matter, time.Now()); due {
		r.logger.Warn(message, append(fields(), zap.Int64("count", count))...)
	}
}

// info is warn for what is no trouble.
func (r *reports) info(matter, message string, fields func() []zap.Field) {
	if count, due := r.due(matter, time.Now()); due {
		r.logger.Info(message, append(fields(), zap.Int64("count", count))...)
	}
}

func (r *reports) due(name string, now time.Time) (count int64, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.matters[name]
	if m == nil {
		m = &matter{last: now.Add(-reportInterval)}
		r.matters[name] = m
	}
	m.count++
	if now.Sub(m.last) < reportInterval {
		return 0, false
	}
	count, m.count, m.last = m.count, 0, now
	return count, true
}
