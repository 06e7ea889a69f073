// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// turnstile stands before a publisher and counts who comes through.
type turnstile struct {
	listener  net.Listener
	publisher string
	entered   atomic.Int64
	under     sync.WaitGroup
}

func startTurnstile(t *testing.T, publisher string) *turnstile {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &turnstile{listener: listener, publisher: publisher}
	s.under.Go(s.run)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		s.under.Wait()
	})
	return s
}

func (s *turnstile) run() {
	for {
		subscriber, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.entered.Add(1)
		publisher, err := net.Dial("tcp", s.publisher) //nolint:noctx // a local endpoint of the test
		if err != nil {
			_ = subscriber.Close()
			continue
		}
		s.under.Go(func() { pipe(publisher, subscriber) })
		s.under.Go(func() { pipe(subscriber, publisher) })
	}
}

// pipe copies until either side ends, and then ends both.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// TestOneSocketBehindThreeSignals_COL55: logs, metrics and traces in five pipelines
// are one connection and one subscription, and each signal has every pass.
func TestOneSocketBehindThreeSignals_COL55(t *testing.T) {
	const count = 500
	b := startBackend(t)
	publisher := harness.StartPublisher(t)
	address := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1))
	socket := publisher.Bind("tcp://" + address)
	door := startTurnstile(t, address)
	collector := harness.Start(t, fmt.Sprintf(`
receivers: {fpm: {endpoint: '%s', metrics: {interval: 200ms}}}
processors: {fpm_sampler: {interval: 100ms}}
exporters: {otlp_grpc: %s, debug: {}}
service:
  pipelines:
    logs: {receivers: [fpm], exporters: [otlp_grpc]}
    logs/sampled: {receivers: [fpm], processors: [fpm_sampler], exporters: [debug]}
    metrics: {receivers: [fpm], exporters: [otlp_grpc]}
    traces: {receivers: [fpm], exporters: [otlp_grpc]}
    traces/sampled: {receivers: [fpm], processors: [fpm_sampler], exporters: [debug]}
`, door.listener.Addr(), b.exporter()))
	publisher.WaitSubscribers(socket, 1)
	publisher.Passes(socket, harness.Passes{Count: count, Seed: 5, WorkerID: "w"})
	collector.WaitSum(metricRecords, nil, count)
	harness.Eventually(t, func() bool { return b.sum("fpm.records") == count }, "fpm.records is not %d", count)
	timed := len(timedOf(published(t, publisher)[stream{"w", 0}]))
	collector.Stop()

	require.EqualValues(t, 1, door.entered.Load(), "one connection")
	require.Len(t, b.logRecords(), count)
	require.Len(t, b.passes(), timed)
}
