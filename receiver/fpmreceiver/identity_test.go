// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// identities gives service.instance.id and fpm.producer.id of each resource.
func identities(sink *consumertest.LogsSink) (all [][2]any) {
	for _, resource := range resources(sink) {
		all = append(all, [2]any{resource["service.instance.id"], resource["fpm.producer.id"]})
	}
	return all
}

func TestSTR_103_ProducerID(t *testing.T) {
	cfg := testConfig(nobody, nobody+"-2", nobody+"-3")
	cfg.Endpoints[1].ProducerID = "configured"
	sink := &consumertest.LogsSink{}
	r := start(t, cfg, sink)
	r.feedNumbered(0, 0, pass("7", 0, 0))
	r.feedNumbered(1, 0, pass("8", 0, 0))
	r.feedNumbered(2, 0, pass("", 0, 0))
	require.NoError(t, r.Shutdown(t.Context()))
	require.ElementsMatch(t, [][2]any{{"7", "7"}, {"8", "configured"}, {nobody + "-3", nobody + "-3"}}, identities(sink))
}

func TestSTR_73_FR_14_EmptyWorkerID(t *testing.T) {
	sink := &consumertest.LogsSink{}
	r := start(t, testConfig(nobody, nobody+"-2"), sink)
	for endpoint := range 2 {
		r.feedNumbered(endpoint, 0, pass("", 0, 0), pass("", 0, 1))
	}
	require.EqualValues(t, 4, r.metric("fpm_receiver_empty_worker_ids"))
	require.Equal(t, 2, r.lines.FilterMessageSnippet("empty worker_id").Len(), "one warning per endpoint")
	require.NoError(t, r.Shutdown(t.Context()))
	require.ElementsMatch(t, [][2]any{{nobody, nobody}, {nobody + "-2", nobody + "-2"}}, distinct(identities(sink)))
	workerID, _ := records(sink)[0].Attributes().Get("fpm.worker_id")
	require.Empty(t, workerID.Str(), "never made up")
}

func TestSTR_102_FR_14_SharedWorkerID(t *testing.T) {
	sink := &consumertest.LogsSink{}
	r := start(t, testConfig(nobody, nobody+"-2"), sink)
	for endpoint := range 2 {
		r.feedNumbered(endpoint, 0, pass("7", 0, 0), pass("7", 0, 1))
	}
	require.EqualValues(t, 1, r.metric("fpm_receiver_shared_worker_ids", "endpoint", nobody+"-2"))
	warnings := r.lines.FilterMessageSnippet("same worker_id")
	require.Equal(t, 1, warnings.Len())
	require.Equal(t, "7", warnings.All()[0].ContextMap()["worker_id"])
	require.NoError(t, r.Shutdown(t.Context()))
	require.ElementsMatch(t, [][2]any{{"7", "7"}, {nobody + "-2", "7"}}, distinct(identities(sink)))
}

// What a peer says is escaped and cut before it is logged, and nowhere else.
func TestZMQ_63_PeerTextInLogLines(t *testing.T) {
	for worker, shown := range map[string]string{
		"w\u009b31m\x7f\u202eevil": `w\xc2\x9b31m\x7f\xe2\x80\xaeevil`,
		strings.Repeat("a", 300):   strings.Repeat("a", 255),
	} {
		sink := &consumertest.LogsSink{}
		r := start(t, testConfig(nobody, nobody+"-2"), sink)
		for endpoint := range 2 {
			r.feedNumbered(endpoint, 0, pass(worker, 0, 0))
		}
		warnings := r.lines.FilterMessageSnippet("same worker_id").All()
		require.Len(t, warnings, 1)
		require.Equal(t, shown, warnings[0].ContextMap()["worker_id"])
		require.NoError(t, r.Shutdown(t.Context()))
		require.Contains(t, identities(sink), [2]any{worker, worker})
	}
}

func distinct(all [][2]any) (once [][2]any) {
	seen := map[[2]any]bool{}
	for _, identity := range all {
		if !seen[identity] {
			once = append(once, identity)
		}
		seen[identity] = true
	}
	return once
}

// Without state a record still reaches the logs (STR-99).
func TestSTR_99_OverflowReachesTheLogs(t *testing.T) {
	cfg := testConfig(nobody, nobody+"-2", nobody+"-3")
	cfg.MaxStreams = 2
	sink, traces := &consumertest.LogsSink{}, &consumertest.TracesSink{}
	r := startSignals(t, cfg, sink, &consumertest.MetricsSink{}, traces)
	for endpoint, worker := range []string{"a", "b", "c"} {
		r.feedNumbered(endpoint, 0, pass(worker, 0, 0), pass(worker, 0, 1))
	}
	require.EqualValues(t, 2, r.metric("fpm_receiver_stream_overflows", "endpoint", nobody+"-3"))
	require.EqualValues(t, 2, r.metric("fpm_receiver_streams"))
	require.Equal(t, 1, r.lines.FilterMessageSnippet("max_streams").Len())
	require.NoError(t, r.Shutdown(t.Context()))
	require.Equal(t, 6, sink.LogRecordCount())
	require.Contains(t, identities(sink), [2]any{"c", "c"})
	require.Len(t, spans(traces), 2*(2+1), "two passes and a root for each stream with state")
}

// A stream is forgotten though nothing arrives anymore.
func TestSTR_99_SilentStreamsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(nobody)
		cfg.ForgetAfter = 2 * time.Minute
		r := start(t, cfg, &consumertest.LogsSink{})
		r.feedNumbered(0, 0, pass("7", 0, 0))
		time.Sleep(cfg.ForgetAfter - time.Second)
		require.EqualValues(t, 1, r.metric("fpm_receiver_streams"))
		time.Sleep(2 * time.Second)
		require.Zero(t, r.metric("fpm_receiver_streams"))
		r.feedNumbered(0, 50, pass("7", 0, 50))
		require.Zero(t, r.metric("fpm_receiver_missing_records"), "a first one again")
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

func TestResourceOfTheConfiguration(t *testing.T) {
	cfg := testConfig(nobody)
	cfg.Namespace, cfg.Backend = "prod", "sglang"
	cfg.Endpoints[0].Component = "prefill"
	cfg.Endpoints[0].Attributes = map[string]any{"cluster": "east"}
	sink := &consumertest.LogsSink{}
	r := start(t, cfg, sink)
	r.feedNumbered(0, 0, pass("7", 3, 0))
	require.NoError(t, r.Shutdown(t.Context()))
	require.Equal(t, []map[string]any{{
		"service.namespace": "prod", "service.name": "prefill", "service.instance.id": "7", "fpm.producer.id": "7",
		"fpm.backend": "sglang", "cluster": "east",
	}}, resources(sink))
	require.Equal(t, map[string]any{
		"fpm.record.kind": "pass", "fpm.worker_id": "7", "fpm.dp_rank": int64(3), "fpm.counter_id": int64(0), "fpm.sequence": int64(0),
		"server.address": nobody[len("ipc://"):],
	}, records(sink)[0].Attributes().AsRaw())
}

func TestFR_15_Kinds(t *testing.T) {
	sink := &consumertest.LogsSink{}
	r := start(t, testConfig(nobody), sink)
	for i, p := range []fpm.ForwardPass{
		{WallTime: 0.02, Scheduled: fpm.Scheduled{DecodeRequests: 1}},
		{Scheduled: fpm.Scheduled{DecodeRequests: 1}},
		{WallTime: 2 * fpm.MaxTimedWallTime},
		{},
		{Queued: fpm.Queued{PrefillRequests: 1}},
	} {
		p.CounterID = int64(i)
		r.feedNumbered(0, uint64(i), fpm.AppendPayload(nil, &p))
	}
	require.NoError(t, r.Shutdown(t.Context()))
	kinds := []string{}
	for _, record := range records(sink) {
		kind, _ := record.Attributes().Get("fpm.record.kind")
		kinds = append(kinds, kind.Str())
	}
	require.Equal(t, []string{"pass", "untimed", "untimed", "heartbeat", "queue_only"}, kinds)
}

// A stream that returns under another name gets new windows too: the open one is
// ended under the old name.
func TestSTR_102_ReturnUnderAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(nobody, nobody+"-2")
		cfg.Traces.Window = time.Hour
		logs, metrics, traces := &consumertest.LogsSink{}, &consumertest.MetricsSink{}, &consumertest.TracesSink{}
		r := startSignals(t, cfg, logs, metrics, traces)
		time.Sleep(time.Second) // so that the end falls between two emissions
		r.feedNumbered(0, 0, pass("7", 0, 0))
		r.feedNumbered(1, 0, pass("7", 0, 0))
		time.Sleep(61 * time.Second)
		require.False(t, newest(metrics)[[2]string{nobody + "-2", "fpm.records pass"}].stale, "not yet emitted as such")
		r.feedNumbered(1, 1, pass("7", 0, 1)) // the first to return gets the worker's name
		time.Sleep(6 * time.Second)
		require.InDelta(t, 2, newest(metrics)[[2]string{"7", "fpm.records pass"}].value, 0, "totals go on")
		require.False(t, newest(metrics)[[2]string{"7", "fpm.records pass"}].stale)
		require.True(t, newest(metrics)[[2]string{nobody + "-2", "fpm.records pass"}].stale)
		require.NoError(t, r.Shutdown(t.Context()))
		windows := map[string]int{}
		for _, batch := range traces.AllTraces() {
			for _, resource := range batch.ResourceSpans().All() {
				instance, _ := resource.Resource().Attributes().Get("service.instance.id")
				for _, s := range resource.ScopeSpans().At(0).Spans().All() {
					if s.Name() == "forward_pass.window" {
						windows[instance.Str()]++
					}
				}
			}
		}
		require.Equal(t, map[string]int{"7": 2, nobody + "-2": 1}, windows)
	})
}
