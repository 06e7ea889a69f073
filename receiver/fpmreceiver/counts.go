// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"sync/atomic"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/stream"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

// Sizes of tables that are indexed by a reason; reasons count from 1.
var (
	zmtpReasons = len(zmtp.Reasons()) + 1
	fpmReasons  = len(fpm.Reasons()) + 1
)

// counts are the totals of one endpoint. The endpoint's supervisor and the
// delivery goroutines add, the collection of telemetry reads. They outlive the
// receiver (see totals), so they point at nothing of it.
type counts struct {
	endpoint      string // as it is shown
	connected     atomic.Int64
	failed        []atomic.Int64 // attempts, by zmtp.Reason
	disconnects   []atomic.Int64 // by zmtp.Reason
	bytes         atomic.Int64
	pings         atomic.Int64
	messages      atomic.Int64
	invalid       []atomic.Int64 // by fpm.Reason
	duplicates    atomic.Int64
	records       atomic.Int64
	missing       atomic.Int64
	gaps          atomic.Int64
	restarts      atomic.Int64
	mismatches    atomic.Int64
	legacy        atomic.Int64
	skippedFields atomic.Int64
	emptyWorkers  atomic.Int64
	sharedWorkers atomic.Int64
	overflows     atomic.Int64
	logs          *drops // nil: no pipeline
	traces        *drops // likewise
}

// drops are items of an endpoint, for one signal, that were received and not
// handed on.
type drops struct {
	queueFull atomic.Int64 // gave way to newer ones
	refused   atomic.Int64 // by the next consumer, for good
	shutdown  atomic.Int64 // given up at the end
}

func newCounts(endpoint string) *counts {
	return &counts{
		endpoint:    endpoint,
		failed:      make([]atomic.Int64, zmtpReasons),
		disconnects: make([]atomic.Int64, zmtpReasons),
		invalid:     make([]atomic.Int64, fpmReasons),
	}
}

// verdict adds up what the loss accounting said of a message. Only the
// endpoint's supervisor calls it.
func (c *counts) verdict(v *stream.Verdict) {
	if v.Duplicate {
		c.duplicates.Add(1)
		return
	}
	c.records.Add(1)
	if v.Missing > 0 {
		c.missing.Store(fpm.AddSaturating(c.missing.Load(), v.Missing))
	}
	addIf(&c.gaps, v.Gap)
	addIf(&c.restarts, v.Restart)
	addIf(&c.mismatches, v.CounterMismatch)
	addIf(&c.sharedWorkers, v.Shared)
	c.overflows.Add(int64(v.Overflow))
}

// pass adds up what the decoder said of a record.
func (c *counts) pass(p *fpm.ForwardPass) {
	addIf(&c.legacy, p.Legacy)
	addIf(&c.emptyWorkers, len(p.WorkerID) == 0)
	if p.SkippedFields > 0 {
		c.skippedFields.Add(int64(p.SkippedFields))
	}
}

func addIf(total *atomic.Int64, condition bool) {
	if condition {
		total.Add(1)
	}
}
