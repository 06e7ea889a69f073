// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// consumerStage is a collector whose only log exporter sends to a backend.
func consumerStage(t *testing.T, b *backend, endpoint, connection string) *stage {
	t.Helper()
	return prepareConsumer(t, b, endpoint, connection).run()
}

func prepareConsumer(t *testing.T, b *backend, endpoint, connection string) *stage {
	t.Helper()
	s := prepare(t, setting{endpoints: []string{endpoint}, connection: connection, exporters: b.exporter(), pipeline: "otlp_http"})
	s.arrived = func(harness.Samples) float64 { return float64(len(b.arrivals())) }
	return s
}

// closeConsumer closes the account over what the backend took.
func (s *stage) closeConsumer(b *backend, sent []accounting.Message) accounting.Account {
	s.t.Helper()
	telemetry := s.settled()
	account := requireClosed(s.t, accounting.Evidence{Sent: sent, Arrived: b.arrivals(), Telemetry: telemetry, Unbroken: true})
	s.Stop()
	s.RequireNoPanic()
	return account
}

// loaded is a publisher for the consumer tests: its first messages wait for the
// collector, so that nothing is invisible.
func loaded(endpoint string) Engine {
	return Engine{Bind: endpoint, WorkerID: "w", Rate: 300, Wait: true, InvalidEvery: 100}
}

// TestConsumerBlocks_FR31: for 10 s the pipeline takes nothing. The queue holds
// what comes meanwhile.
func TestConsumerBlocks_FR31(t *testing.T) {
	endpoint, b := address(t), newBackend(t)
	p := loaded(endpoint).start(t)
	s := consumerStage(t, b, endpoint, "")
	s.waitReceived(100)
	before := s.usage()
	b.set(http.StatusOK, true)
	b.waitRequests(1)
	time.Sleep(brief(2*time.Second, 10*time.Second))
	b.set(http.StatusOK, false)
	s.waitReceived(200)
	s.stopPublisher(p)
	s.requireNoGrowth(before)
	account := s.closeConsumer(b, p.sent())
	require.Empty(t, account.Totals.Dropped)
}

// TestConsumerBlocksQueueFull_FR31: a queue that can't hold 10 s. The oldest
// records go, and each of them is counted.
func TestConsumerBlocksQueueFull_FR31(t *testing.T) {
	harness.Long(t)
	endpoint, b := address(t), newBackend(t)
	p := loaded(endpoint).start(t)
	s := consumerStage(t, b, endpoint, "    queue: {max_records: 600}")
	s.waitReceived(100)
	before := s.usage()
	b.set(http.StatusOK, true)
	s.waitReceived(pick(1500, 3000))
	b.set(http.StatusOK, false)
	s.waitReceived(100)
	s.stopPublisher(p)
	s.requireNoGrowth(before)
	account := s.closeConsumer(b, p.sent())
	require.Greater(t, account.Totals.Dropped["receiver, queue_full"], 100)
	require.Len(t, account.Totals.Dropped, 1)
}

// TestConsumerErrors: transient errors cost nothing, permanent ones exactly the
// batches that were refused.
func TestConsumerErrors(t *testing.T) {
	harness.Long(t)
	for name, status := range map[string]int{"transient": http.StatusServiceUnavailable, "permanent": http.StatusBadRequest} {
		t.Run(name, func(t *testing.T) {
			endpoint, b := address(t), newBackend(t)
			p := loaded(endpoint).start(t)
			s := consumerStage(t, b, endpoint, "")
			s.waitReceived(100)
			before := s.usage()
			for range pick(2, 5) {
				b.set(status, false)
				b.waitRequests(4)
				b.set(http.StatusOK, false)
				s.waitReceived(100)
			}
			s.stopPublisher(p)
			s.requireNoGrowth(before)
			account := s.closeConsumer(b, p.sent())
			if name == "transient" {
				require.Empty(t, account.Totals.Dropped)
			} else {
				require.Positive(t, account.Totals.Dropped["receiver, refused"])
				require.Len(t, account.Totals.Dropped, 1)
			}
		})
	}
}

// TestConsumerNeverReturns_FR31 stops a collector whose backend does not answer:
// it ends all the same, with exit code 1, and counts and says what it lost.
func TestConsumerNeverReturns_FR31(t *testing.T) {
	harness.Long(t)
	endpoint, b := address(t), newBackend(t)
	p := loaded(endpoint).start(t)
	s := prepareConsumer(t, b, endpoint, "")
	var report *harness.LastReport
	s.Collector, report = harness.StartReporting(t, s.config)
	s.waitReceived(100)
	b.set(http.StatusOK, true)
	b.waitRequests(1)
	s.waitReceived(100)
	start := time.Now()
	s.Signal(syscall.SIGTERM)
	require.Equal(t, 1, s.Wait())
	require.Less(t, time.Since(start), 20*time.Second)
	s.RequireNoPanic()
	p.stop()
	account := requireClosed(t, accounting.Evidence{Sent: p.sent(), Arrived: b.arrivals(), Telemetry: report.Samples()})
	require.Positive(t, account.Fates[accounting.Shutdown])
	require.Equal(t, map[string]int{"receiver, shutdown": account.Fates[accounting.Shutdown]}, account.Totals.Dropped)
	require.Contains(t, s.Log(), fmt.Sprintf("%d records could not be handed on before the shutdown's deadline", account.Fates[accounting.Shutdown]))
}
