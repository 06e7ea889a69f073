// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// generator publishes passes; the number of each is its id (COL-79).
type generator struct {
	t         *testing.T
	publisher *zmtptest.Publisher
	mu        sync.Mutex
	next      int64
}

// Start waits for the subscription: a slow joiner loses messages.
func (g *generator) Start() { waitForSubscribers(g.t, g.publisher, 1) }

func (g *generator) Stop() {}

func (g *generator) Generate() []receivertest.UniqueIDAttrVal {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	g.publisher.Publish(zmtptest.Numbered(uint64(g.next), pass("7", 0, g.next))...)
	return []receivertest.UniqueIDAttrVal{receivertest.UniqueIDAttrVal(strconv.FormatInt(g.next, 10))}
}

// identifying gives each record the attribute that the checker knows it by.
type identifying struct{ consumer.Logs }

func (c identifying) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				counter, _ := record.Attributes().Get("fpm.counter_id")
				record.Attributes().PutStr(receivertest.UniqueIDAttrName, counter.AsString())
			}
		}
	}
	return c.Logs.ConsumeLogs(ctx, logs)
}

func TestCOL_78_ConsumeContract(t *testing.T) {
	publisher := listen(t)
	cfg := testConfig(publisher.Endpoint())
	factory := receiver.NewFactory(metadata.Type, createDefaultConfig, receiver.WithLogs(
		func(ctx context.Context, settings receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
			waitForSubscribers(t, publisher, 0) // the scenario before is over
			created, err := createLogs(ctx, settings, cfg, identifying{next})
			if err != nil {
				return nil, err
			}
			shared, err := sharedReceiver(cfg.(*Config), settings)
			shared.Unwrap().retry = time.Millisecond
			return created, err
		}, metadata.LogsStability))
	receivertest.CheckConsumeContract(receivertest.CheckConsumeContractParams{
		T: t, Factory: factory, Signal: pipeline.SignalLogs, Config: cfg,
		Generator: &generator{t: t, publisher: publisher}, GenerateCount: 500,
	})
}

// A life under traffic leaves nothing behind (FR-11, ZMQ-52); 500 of them are
// tested in internal/zmtp. Goroutines are watched by the package's leak check.
func TestFR_11_ManyLives(t *testing.T) {
	publisher := listen(t)
	stop := make(chan struct{})
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				publisher.Publish(zmtptest.Numbered(uint64(i), pass("7", 0, i))...)
			}
		}
	}()
	before := openFiles(t)
	cfg := testConfig(publisher.Endpoint())
	for range 50 {
		sink := newGate(func(context.Context, int) error { return nil })
		created, err := createLogs(t.Context(), nopSettings(), cfg, sink)
		require.NoError(t, err)
		require.NoError(t, created.Start(t.Context(), &statusHost{}))
		eventually(t, func() bool { return sink.called() > 0 }, "received")
		requireStops(t, created)
	}
	close(stop)
	<-published
	eventually(t, func() bool { return publisher.Subscribers() == 0 && openFiles(t) <= before }, "no file left open")
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(files)
}

func TestPingsAreCounted(t *testing.T) {
	server := zmtptest.ListenTCP(t)
	r := start(t, testConfig(server.Endpoint()), newGate(func(context.Context, int) error { return nil }))
	peer := server.Accept()
	peer.Handshake()
	peer.Send(zmtptest.Ping(0, "x"))
	eventually(t, func() bool { return r.metric("fpm_receiver_pings") == 1 }, "answered")
}
