// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// wire is a record in the order of the wire table, without the variances, which
// nothing here turns on.
type wire struct {
	Version   int           `msgpack:"version"`
	WorkerID  string        `msgpack:"worker_id"`
	DPRank    int64         `msgpack:"dp_rank"`
	CounterID int64         `msgpack:"counter_id"`
	WallTime  float64       `msgpack:"wall_time"`
	Scheduled wireScheduled `msgpack:"scheduled_requests"`
	Queued    wireQueued    `msgpack:"queued_requests"`
}

type wireScheduled struct {
	PrefillRequests int64   `msgpack:"num_prefill_requests"`
	PrefillTokens   int64   `msgpack:"sum_prefill_tokens"`
	PrefillVariance float64 `msgpack:"var_prefill_length"`
	PrefillKVTokens int64   `msgpack:"sum_prefill_kv_tokens"`
	DecodeRequests  int64   `msgpack:"num_decode_requests"`
	DecodeKVTokens  int64   `msgpack:"sum_decode_kv_tokens"`
	DecodeVariance  float64 `msgpack:"var_decode_kv_tokens"`
}

type wireQueued struct {
	PrefillRequests int64   `msgpack:"num_prefill_requests"`
	PrefillTokens   int64   `msgpack:"sum_prefill_tokens"`
	PrefillVariance float64 `msgpack:"var_prefill_length"`
	DecodeRequests  int64   `msgpack:"num_decode_requests"`
	DecodeKVTokens  int64   `msgpack:"sum_decode_kv_tokens"`
	DecodeVariance  float64 `msgpack:"var_decode_kv_tokens"`
}

// TestOnlyTimedPassesBecomeSpans_FR15 publishes one record of every kind, and
// passes around min_duration, to two receivers.
func TestOnlyTimedPassesBecomeSpans_FR15(t *testing.T) {
	decode, queue := wireScheduled{DecodeRequests: 2, DecodeKVTokens: 200}, wireQueued{PrefillRequests: 3, PrefillTokens: 30}
	cases := []struct {
		name   string
		record wire
		spans  bool // without min_duration
		long   bool // at least the min_duration of 20 ms
		kind   string
		log    string
	}{
		{name: "heartbeat", log: "heartbeat"},
		{name: "queue_only", record: wire{Queued: queue}, log: "queue_only"},
		{name: "untimed", record: wire{Scheduled: decode, Queued: queue}, log: "untimed"},
		{name: "over 24 h", record: wire{WallTime: 86400.5, Scheduled: decode}, log: "untimed"},
		{name: "over 24 h and idle", record: wire{WallTime: 1e100}, log: "untimed"},
		{name: "24 h", record: wire{WallTime: 86400, Scheduled: decode}, spans: true, long: true, kind: "decode", log: "pass"},
		{name: "timed and idle", record: wire{WallTime: 0.5}, spans: true, long: true, kind: "empty", log: "pass"},
		{name: "min_duration", record: wire{WallTime: 0.02, Scheduled: decode}, spans: true, long: true, kind: "decode", log: "pass"},
		{name: "under min_duration", record: wire{WallTime: 0.019999999, Scheduled: decode}, spans: true, kind: "decode", log: "pass"},
		{name: "shorter than a clock", record: wire{WallTime: 1e-12, Scheduled: wireScheduled{PrefillRequests: 1}}, spans: true, kind: "prefill", log: "pass"},
	}
	all, long := startBackend(t), startBackend(t)
	publisher := harness.StartPublisher(t)
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, 1))
	socket := publisher.Bind(endpoint)
	collector := harness.Start(t, fmt.Sprintf(`
receivers:
  fpm: {endpoint: '%[1]s'}
  fpm/long: {endpoint: '%[1]s', traces: {min_duration: 20ms}}
exporters: {otlp_grpc: %[2]s, otlp_grpc/long: %[3]s}
service:
  pipelines:
    logs: {receivers: [fpm], exporters: [otlp_grpc]}
    traces: {receivers: [fpm], exporters: [otlp_grpc]}
    traces/long: {receivers: [fpm/long], exporters: [otlp_grpc/long]}
`, endpoint, all.exporter(), long.exporter()))
	publisher.WaitSubscribers(socket, 2)

	var wantAll, wantLong []string
	var wantLogs []string
	for i, tc := range cases {
		tc.record.Version, tc.record.WorkerID, tc.record.CounterID = 1, "w", int64(i)
		encoded, err := msgpack.Marshal(tc.record)
		require.NoError(t, err)
		publisher.Payload(socket, uint64(i), tc.name, hex.EncodeToString(encoded))
		describe := fmt.Sprintf("%d %s %s", i, tc.kind, tc.name)
		wantLogs = append(wantLogs, tc.log)
		if tc.spans {
			wantAll = append(wantAll, describe)
		}
		if tc.long {
			wantLong = append(wantLong, describe)
		}
	}
	collector.WaitSum(metricRecords, nil, float64(2*len(cases)))
	collector.Stop()

	names := func(b *backend) (got []string) {
		for _, s := range b.passes() {
			counter := integer(s.Attributes(), "fpm.counter_id")
			got = append(got, fmt.Sprintf("%d %s %s", counter, text(s.Attributes(), "fpm.pass.kind"), cases[counter].name))
		}
		return got
	}
	require.Equal(t, wantAll, names(all))
	require.Equal(t, wantLong, names(long))
	var logs []string
	for _, r := range all.logRecords() {
		logs = append(logs, text(r.Attributes(), "fpm.record.kind"))
	}
	require.Equal(t, wantLogs, logs)
	for _, b := range []*backend{all, long} {
		for _, of := range tracesOf(t, b.all()) {
			require.EqualValues(t, len(of.passes), integer(of.root.Attributes(), "fpm.window.passes"), "a root counts the spans of its trace")
		}
	}
}
