// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// steady is a publisher at a rate that leaves the machine alone.
func steady(endpoint string) Engine { return Engine{Bind: endpoint, WorkerID: "w", Rate: 200} }

// TestPublisherDownAtStart_FR7 starts the collector long before the publisher.
func TestPublisherDownAtStart_FR7(t *testing.T) {
	endpoint := address(t)
	s := newStage(t, setting{endpoints: []string{endpoint}})
	s.waitUp(0)
	before := s.usage()
	time.Sleep(brief(time.Second, pick(5*time.Second, 30*time.Second)))
	p := steady(endpoint).start(t)
	took := s.waitReceived(1)
	require.Less(t, took, recovery)
	s.waitUp(1)
	s.waitReceived(200)
	s.requireNoGrowth(before)
	p.stop()
	account := s.close(p.sent(), false)
	require.Zero(t, account.Totals.Missing)
	t.Logf("records %v after the bind", took)
}

// TestPublisherRestarts_FR8 kills the publisher and starts it again on its port,
// after three times, always from sequence 0.
func TestPublisherRestarts_FR8(t *testing.T) {
	for _, away := range pick([]time.Duration{time.Second, 5 * time.Second}, []time.Duration{time.Second, 5 * time.Second, time.Minute}) {
		t.Run(away.String(), func(t *testing.T) {
			if away > time.Second {
				harness.Long(t)
			}
			endpoint := address(t)
			s := newStage(t, setting{endpoints: []string{endpoint}})
			engine := steady(endpoint)
			engine.InvalidEvery = 20
			p := engine.start(t)
			s.waitReceived(200)
			s.waitUp(1)
			before := s.usage()
			connects := s.Metrics().Sum(metricConnects, harness.Labels{"result": "ok"})

			p.kill()
			s.waitUp(0)
			time.Sleep(away)
			next := p.again(func(e *Engine) { e.Wait = true }) // so that its first number is lower (STR-E21)
			took := s.waitReceived(1)
			require.Less(t, took, recovery)
			s.waitUp(1)
			s.waitReceived(400)
			next.stop()

			samples := s.settled()
			require.InDelta(t, connects+1, samples.Sum(metricConnects, harness.Labels{"result": "ok"}), 0)
			require.InDelta(t, 2, samples.Sum(metricDisconnects, nil), 0, "the kill, and the end just now")
			s.requireNoGrowth(before)
			account := s.close(next.sent(), false)
			require.Equal(t, 1, account.Totals.Restarts)
			require.Zero(t, account.Totals.Missing)
			t.Logf("records %v after the bind", took)
		})
	}
}

// TestPublisherRestartsOften_FR11 restarts it many times: nothing stays behind in
// the collector. Each time it has another worker_id, as an engine that is scheduled
// anew.
func TestPublisherRestartsOften_FR11(t *testing.T) {
	harness.Long(t)
	endpoint := address(t)
	s := newStage(t, setting{
		endpoints:  []string{endpoint},
		connection: "    connection: {initial_backoff: 100ms, max_backoff: 200ms}",
		producer:   "all", // else each worker holds its segment and its lock
	})
	p := steady(endpoint).start(t)
	s.waitReceived(50)
	before := s.usage()
	for i := range pick(6, 30) {
		if i%2 == 0 {
			p.kill()
		} else {
			p.stop()
		}
		p = p.again(func(e *Engine) { e.WorkerID = fmt.Sprintf("w%d", i) })
		s.waitReceived(20)
	}
	p.stop()
	after := s.settled()
	require.InDelta(t, pick(6, 30), after.Sum(metricRestarts, nil), 0)
	s.requireNoGrowth(before)
	s.close(p.sent(), false)
}

// TestLinkCut ends the connection in the middle of a frame, with FIN and with RST,
// while the publisher lives on: what it sent meanwhile is missing, to the number.
func TestLinkCut(t *testing.T) {
	for _, reset := range []bool{false, true} {
		t.Run(map[bool]string{false: "FIN", true: "RST"}[reset], func(t *testing.T) {
			endpoint := address(t)
			link := newProxy(t, endpoint)
			engine := steady(endpoint)
			engine.Endpoint, engine.InvalidEvery, engine.Wait = link.endpoint(), 50, true
			p := engine.start(t)
			s := newStage(t, setting{endpoints: []string{link.endpoint()}})
			s.waitReceived(100)
			before := s.usage()
			cuts := brief(1, pick(2, 5))
			for range cuts {
				link.cut(reset)
				require.Less(t, s.waitReceived(100), recovery)
			}
			s.requireNoGrowth(before)
			s.stopPublisher(p)
			samples := s.settled()
			reasons := samples.By(metricDisconnects, "reason", nil)
			t.Logf("disconnects: %v", reasons)
			require.InDelta(t, cuts, reasons["truncated"]+reasons["reset"], 0, "%v", reasons)
			account := s.close(p.sent(), false)
			require.Positive(t, account.Totals.Missing, "the publisher went on without a subscriber")
			require.Zero(t, account.Totals.Restarts)
		})
	}
}

// stopPublisher ends a publisher so that all that it sent has been received.
func (s *stage) stopPublisher(p *process) {
	s.t.Helper()
	p.stop()
	s.settled()
}

// TestPublisherStopped_FR9 is a silent peer: SIGSTOP for longer than idle_timeout.
func TestPublisherStopped_FR9(t *testing.T) {
	harness.Long(t)
	endpoint := address(t)
	idle := pick("2s", "10s")
	s := newStage(t, setting{endpoints: []string{endpoint}, connection: "    connection: {idle_timeout: " + idle + "}"})
	p := steady(endpoint).start(t)
	s.waitReceived(100)
	s.waitUp(1)
	before := s.usage()
	p.signal(syscall.SIGSTOP)
	start := time.Now()
	s.waitUp(0)
	noticed := time.Since(start)
	require.Less(t, noticed, pick(10*time.Second, 20*time.Second))
	time.Sleep(time.Until(start.Add(pick(6*time.Second, 30*time.Second))))
	p.signal(syscall.SIGCONT)
	took := s.waitReceived(1)
	require.Less(t, took, recovery+5*time.Second, "a handshake with the stopped process may have to end first")
	s.waitReceived(100)
	s.requireNoGrowth(before)
	s.stopPublisher(p)
	require.InDelta(t, 1, s.Metrics().Sum(metricDisconnects, harness.Labels{"reason": "silent"}), 0)
	account := s.close(p.sent(), false)
	require.Zero(t, account.Totals.Restarts)
	t.Logf("noticed after %v, records %v after SIGCONT", noticed, took)
}

// TestLinkBlackholed_FR9 keeps the connection open and forwards nothing any more,
// in both directions; new connections are accepted and lead nowhere, too.
func TestLinkBlackholed_FR9(t *testing.T) {
	harness.Long(t)
	endpoint := address(t)
	link := newProxy(t, endpoint)
	engine := steady(endpoint)
	engine.Endpoint, engine.Wait = link.endpoint(), true
	p := engine.start(t)
	idle := pick("2s", "10s")
	s := newStage(t, setting{
		endpoints:  []string{link.endpoint()},
		connection: "    connection: {idle_timeout: " + idle + ", handshake_timeout: 2s}",
	})
	s.waitReceived(100)
	before := s.usage()
	start := time.Now()
	link.blackhole(true)
	harness.Eventually(t, func() bool { return s.Metrics().Sum(metricDisconnects, harness.Labels{"reason": "silent"}) == 1 }, "the silence is not noticed")
	noticed := time.Since(start)
	require.Less(t, noticed, pick(10*time.Second, 20*time.Second))
	time.Sleep(time.Until(start.Add(pick(6*time.Second, 30*time.Second))))
	link.blackhole(false)
	took := s.waitReceived(1)
	require.Less(t, took, recovery+2*time.Second, "a handshake in the black hole may have to end first")
	s.waitReceived(100)
	s.requireNoGrowth(before)
	s.stopPublisher(p)
	account := s.close(p.sent(), false)
	require.Positive(t, account.Totals.Missing)
	t.Logf("noticed after %v, records %v after the link was back", noticed, took)
}

// TestNameMoves_FR8 moves the name of the publisher to another address, as a pod
// that is scheduled anew, and ends the old one.
func TestNameMoves_FR8(t *testing.T) {
	harness.Long(t)
	harness.NeedRoot(t, "the collector gets a hosts file of its own, in a mount namespace")
	port := harness.FreePorts(t, 1)
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts")
	point := func(ip string) { // in place: the mount holds the inode
		require.NoError(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+ip+" engine.test\n"), 0o600))
	}
	point("127.0.0.1")
	inNamespace(t, "mount --bind "+hosts+" /etc/hosts")
	endpoint := fmt.Sprintf("tcp://engine.test:%d", port)
	engine := steady(fmt.Sprintf("tcp://127.0.0.1:%d", port))
	engine.Endpoint = endpoint
	p := engine.start(t)
	s := newStage(t, setting{endpoints: []string{endpoint}})
	s.waitReceived(100)
	before := s.usage()

	point("127.0.0.2")
	s.waitReceived(100) // a live connection stays (ZMQ-44)
	require.Zero(t, s.Metrics().Sum(metricDisconnects, nil))
	p.kill()
	next := p.again(func(e *Engine) { e.Bind = fmt.Sprintf("tcp://127.0.0.2:%d", port) })
	took := s.waitReceived(1)
	require.Less(t, took, recovery+5*time.Second, "the resolver keeps the file for 5 s")
	s.waitReceived(100)
	s.requireNoGrowth(before)
	next.stop()
	s.close(next.sent(), false)
	t.Logf("records %v after the move", took)
}
