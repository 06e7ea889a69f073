// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

func TestCOL_50_ShutdownWithoutStart(t *testing.T) {
	r := newRun(t, testConfig(nobody), consumertest.NewNop())
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestCOL_49_StartDoesNotUseItsContext(t *testing.T) {
	publisher := listen(t)
	sink := &consumertest.LogsSink{}
	r := newRun(t, testConfig(publisher.Endpoint()), sink)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.Start(ctx, r.host))
	cancel()
	waitForSubscribers(t, publisher, 1)
	publisher.Publish(zmtptest.Numbered(1, pass("7", 0, 1))...)
	eventually(t, func() bool { return sink.LogRecordCount() == 1 }, "received")
}

// One configuration is one socket, whatever pipelines use it (COL-55).
func TestCOL_55_OneReceiverAConfiguration(t *testing.T) {
	cfg := testConfig(nobody)
	first, err := createLogs(t.Context(), nopSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	second, err := createLogs(t.Context(), nopSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.Same(t, first, second)
	require.NoError(t, first.Shutdown(t.Context()))
	third, err := createLogs(t.Context(), nopSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.NotSame(t, first, third, "a reload makes a new one (COL-51)")
	require.NoError(t, third.Shutdown(t.Context()))
}

// The trouble of one endpoint is its own: a silent peer, a web server and an
// address without anyone leave a good publisher alone (FR-10).
func TestFR_10_TroubleStaysWithItsEndpoint(t *testing.T) {
	good := listen(t)
	silent := serve(t, func(net.Conn) {})
	web := serve(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	})
	cfg := testConfig(silent, web, "tcp://127.0.0.1:1", good.Endpoint())
	cfg.Connection.HandshakeTimeout = 300 * time.Millisecond
	sink := &consumertest.LogsSink{}
	r := start(t, cfg, sink)
	waitForSubscribers(t, good, 1)
	for i := range int64(1000) {
		good.Publish(zmtptest.Numbered(uint64(i), pass("7", 0, i))...)
	}
	eventually(t, func() bool { return sink.LogRecordCount() == 1000 }, "all received")
	require.Zero(t, r.metric("fpm_receiver_missing_records"))
	for endpoint, reason := range map[string]string{silent: "timeout", web: "greeting", "tcp://127.0.0.1:1": "dial"} {
		eventually(t, func() bool { return r.metric("fpm_receiver_connects", "endpoint", endpoint, "result", reason) > 1 }, reason)
		lines := r.lines.FilterMessageSnippet("down").FilterFieldKey("reason").All()
		found := false
		for _, line := range lines {
			fields := line.ContextMap()
			found = found || (fields["endpoint"] == endpoint && fields["reason"] == reason && strings.Contains(fields["error"].(string), strings.TrimPrefix(endpoint, "tcp://")))
		}
		require.True(t, found, "the log names endpoint and cause: %s", endpoint)
	}
	require.EqualValues(t, 1, r.metric("fpm_receiver_connects", "endpoint", good.Endpoint(), "result", "ok"))
	require.Positive(t, r.metric("fpm_receiver_bytes", "endpoint", good.Endpoint()))
	requireStops(t, r.fpmReceiver)
}

// requireStops bounds a shutdown that has nothing to wait for (FR-10, FR-11).
func requireStops(t *testing.T, c component.Component) {
	t.Helper()
	began := time.Now()
	require.NoError(t, c.Shutdown(t.Context()))
	require.Less(t, time.Since(began), 5*time.Second)
}

// serve accepts connections, gives each to handle and keeps it open.
func serve(t *testing.T, handle func(net.Conn)) (endpoint string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // bound to the test
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			open = append(open, conn)
			handle(conn)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "tcp://" + listener.Addr().String()
}

// Status is reported on change only, and is never worse than recoverable
// (COL-62, ZMQ-54).
func TestZMQ_54_Status(t *testing.T) {
	first, second := listen(t), listen(t)
	r := start(t, testConfig(first.Endpoint(), second.Endpoint()), consumertest.NewNop())
	waitForSubscribers(t, first, 1)
	waitForSubscribers(t, second, 1)
	eventually(t, func() bool { return len(r.host.statuses()) == 1 }, "all up")

	addressOfSecond := second.Address()
	require.NoError(t, second.Close())
	eventually(t, func() bool { return len(r.host.statuses()) == 2 }, "one down")
	require.ErrorContains(t, r.host.events[1].Err(), "1 of 2 endpoints down, the first one: ")
	require.ErrorContains(t, r.host.events[1].Err(), addressOfSecond)
	require.NoError(t, first.Close())
	eventually(t, func() bool { return r.metric("fpm_receiver_disconnects") == 2 }, "both down")
	time.Sleep(50 * time.Millisecond) // some more attempts

	for _, address := range []string{first.Address(), addressOfSecond} {
		again, err := zmtptest.NewPublisher("tcp", address, zmtptest.PublisherConfig{})
		require.NoError(t, err)
		defer func() { _ = again.Close() }()
		go func() { // a working peer says something
			for again.Connections() >= 0 && t.Context().Err() == nil {
				again.Publish(zmtptest.Numbered(0, heartbeat("7", 0))...)
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	eventually(t, func() bool { return len(r.host.statuses()) == 3 }, "both up again")
	require.Equal(t, []componentstatus.Status{
		componentstatus.StatusOK, componentstatus.StatusRecoverableError, componentstatus.StatusOK,
	}, r.host.statuses())
}

// An endpoint that has not reported yet is not up (ZMQ-54).
func TestZMQ_54_OKWaitsForEveryEndpoint(t *testing.T) {
	host := &statusHost{}
	h := newHealth(host, []string{"a", "b", "c"})
	h.setUp("a")
	h.setUp("b")
	require.Empty(t, host.statuses())
	h.setDown("b", errRefused)
	h.setUp("b")
	require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, host.statuses(), "c has said nothing")
	h.setUp("c")
	require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, host.statuses())
}

// One line a minute for each endpoint and reason, however often an endpoint goes up
// and down.
func TestZMQ_53_OneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, testConfig(nobody, nobody+"-2"), consumertest.NewNop())
		synctest.Wait()
		reasons := []zmtp.Reason{zmtp.ReasonClosed, zmtp.ReasonReset, zmtp.ReasonSilent} // nobody itself is down for "dial"
		for range 3 * 60 {
			for _, p := range r.publishers {
				for _, reason := range reasons {
					p.OnStatus(false, &zmtp.Error{Reason: reason, Endpoint: p.endpoint, Err: errRefused})
					p.OnStatus(true, nil)
				}
			}
			time.Sleep(time.Second)
		}
		for _, p := range r.publishers {
			for _, reason := range reasons {
				lines := r.lines.FilterMessage("Endpoint down, retrying").FilterField(zap.String("endpoint", p.name)).
					FilterField(zap.String("reason", reason.String())).All()
				require.Len(t, lines, 3, "3 minutes of %s", reason)
				require.EqualValues(t, 1, lines[0].ContextMap()["count"])
				require.EqualValues(t, 60, lines[2].ContextMap()["count"], "each line counts what came since the last")
			}
			require.Len(t, r.lines.FilterMessage("Connected").FilterField(zap.String("endpoint", p.name)).All(), 3)
		}
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

func TestFR_7_PublisherComesLater(t *testing.T) {
	early := listen(t)
	address := early.Address()
	require.NoError(t, early.Close())

	sink := &consumertest.LogsSink{}
	r := start(t, testConfig("tcp://"+address), sink)
	eventually(t, func() bool { return r.metric("fpm_receiver_connects", "result", "dial") > 2 }, "retrying")
	late, err := zmtptest.NewPublisher("tcp", address, zmtptest.PublisherConfig{})
	require.NoError(t, err)
	defer func() { _ = late.Close() }()
	waitForSubscribers(t, late, 1)
	late.Publish(zmtptest.Numbered(1, pass("7", 0, 1))...)
	eventually(t, func() bool { return sink.LogRecordCount() == 1 }, "received")
}

// Stream state survives a reconnect: what was published meanwhile is missing
// (STR-68, ZMQ-57).
func TestSTR_68_Reconnect(t *testing.T) {
	publisher := listen(t)
	sink := &consumertest.LogsSink{}
	r := start(t, testConfig(publisher.Endpoint()), sink)
	waitForSubscribers(t, publisher, 1)
	publisher.Publish(zmtptest.Numbered(5, pass("7", 0, 5))...)
	eventually(t, func() bool { return sink.LogRecordCount() == 1 }, "received")
	publisher.Disconnect()
	eventually(t, func() bool {
		return r.metric("fpm_receiver_connects", "result", "ok") == 2 && publisher.Subscribers() == 1
	}, "reconnected")
	publisher.Publish(zmtptest.Numbered(9, pass("7", 0, 9))...)
	eventually(t, func() bool { return sink.LogRecordCount() == 2 }, "received")
	require.EqualValues(t, 3, r.metric("fpm_receiver_missing_records"))
	require.Zero(t, r.metric("fpm_receiver_restarts"))
}
