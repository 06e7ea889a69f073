// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
)

// backend takes logs by OTLP, or does not.
type backend struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	changed  *sync.Cond
	answer   int  // HTTP status
	blocked  bool // requests wait
	ended    bool
	requests int
	taken    []accounting.Arrival
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{t: t, answer: http.StatusOK}
	b.changed = sync.NewCond(&b.mu)
	b.Server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(func() {
		b.mu.Lock()
		b.ended = true
		b.changed.Broadcast()
		b.mu.Unlock()
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

// exporter is the configuration that sends to it: no queue and no retry, so that
// the receiver itself has to cope.
func (b *backend) exporter() string {
	return fmt.Sprintf("  otlp_http: {logs_endpoint: '%s', compression: none, timeout: 60s, sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}\n", b.URL)
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the collector gave up
	}
	w.WriteHeader(b.judge(body, r))
}

// judge waits while it is blocked, and then takes the records or refuses them. A
// request that was given up meanwhile is not taken.
func (b *backend) judge(body []byte, r *http.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	b.changed.Broadcast()
	for b.blocked && !b.ended {
		b.changed.Wait()
	}
	if r.Context().Err() != nil || b.ended {
		return http.StatusServiceUnavailable
	}
	if b.answer == http.StatusOK {
		b.take(body)
	}
	return b.answer
}

func (b *backend) take(body []byte) {
	logs, err := new(plog.ProtoUnmarshaler).UnmarshalLogs(body)
	if err != nil {
		b.t.Error(err)
		return
	}
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				payload, ok := fpmpdata.AppendBody(nil, record.Body())
				if !ok {
					b.t.Error("a record without a payload")
				}
				b.taken = append(b.taken, accounting.Arrival{
					Text:       string(tracefile.AppendPayloadJSON(nil, payload)),
					ObservedMS: uint64(record.ObservedTimestamp()) / 1e6,
				})
			}
		}
	}
}

// set changes how it behaves.
func (b *backend) set(answer int, blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer, b.blocked = answer, blocked
	b.changed.Broadcast()
}

// waitRequests waits for n further requests.
func (b *backend) waitRequests(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for target := b.requests + n; b.requests < target && !b.ended; {
		b.changed.Wait()
	}
}

func (b *backend) arrivals() []accounting.Arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]accounting.Arrival(nil), b.taken...)
}
