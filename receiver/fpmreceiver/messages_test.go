// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

func frames(t *testing.T, parts ...string) (all [][]byte) {
	t.Helper()
	for _, part := range parts {
		frame, err := hex.DecodeString(strings.ReplaceAll(part, " ", ""))
		require.NoError(t, err)
		all = append(all, frame)
	}
	return all
}

// The frame cases of fpm-stream.md, section 2.
func TestSTR_1_To_STR_7_Frames(t *testing.T) {
	payload := hex.EncodeToString(golden())
	const sequence = "000000000000002a"
	for _, tt := range []struct {
		name   string
		frames []string
		reason string // "" = accepted
		number int64
	}{
		{"STR-3", []string{"", sequence, payload}, "", 42},
		{"STR-2 any topic", []string{"66706d", sequence, payload}, "", 42},
		{"STR-4 24 bytes", []string{"", sequence + strings.Repeat("ff", 16), payload}, "", 42},
		{"STR-5 largest", []string{"", "7fffffffffffffff", payload}, "", 1<<63 - 1},
		{"STR-5 too large", []string{"", "8000000000000000", payload}, "bad_sequence_frame", 0},
		{"STR-4 one byte", []string{"", "2a", payload}, "bad_sequence_frame", 0},
		{"STR-7 order", []string{"", "", ""}, "bad_sequence_frame", 0},
		{"STR-6 empty", []string{"", sequence, ""}, "truncated", 0},
		{"STR-1 one frame", []string{payload}, "bad_frame_count", 0},
		{"STR-1 two frames", []string{sequence, payload}, "bad_frame_count", 0},
		{"STR-1 four frames", []string{"", sequence, payload, ""}, "bad_frame_count", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := &consumertest.LogsSink{}
			r := start(t, testConfig(nobody), sink)
			r.feed(0, frames(t, tt.frames...)...)
			if tt.reason != "" {
				require.EqualValues(t, 1, r.metric("fpm_receiver_invalid_messages", "reason", tt.reason, "endpoint", nobody))
				require.NoError(t, r.Shutdown(t.Context()))
				require.Zero(t, sink.LogRecordCount(), "an invalid message goes nowhere (STR-51)")
				return
			}
			require.NoError(t, r.Shutdown(t.Context()))
			require.Equal(t, 1, sink.LogRecordCount())
			number, _ := records(sink)[0].Attributes().Get("fpm.sequence")
			require.Equal(t, tt.number, number.Int())
		})
	}
}

// Every message has exactly one outcome, whatever it is (STR-50, STR-51, STR-53).
func TestSTR_50_OneOutcome(t *testing.T) {
	sink := &consumertest.LogsSink{}
	cfg := testConfig(nobody)
	cfg.Queue.MaxRecords = 1 << 20
	r := start(t, cfg, sink)
	want := map[string]int64{}
	sent, valid := int64(0), 0
	for i, vector := range fpmtest.Vectors(t) {
		for range 2 { // the second one is a duplicate when it is valid
			r.feed(0, zmtptest.Numbered(uint64(i), vector.Payload)...)
			sent++
			if !vector.Valid {
				want[vector.Reason]++
			}
		}
		if vector.Valid {
			valid++
		}
	}
	total := func(name string) int64 { return r.metric("fpm_receiver_" + name) }
	for reason, count := range want {
		require.Equal(t, count, r.metric("fpm_receiver_invalid_messages", "reason", reason), reason)
	}
	require.Equal(t, sent, total("messages"))
	require.Equal(t, sent, total("records")+total("duplicates")+total("invalid_messages"))
	require.EqualValues(t, valid, total("records"))
	require.NoError(t, r.Shutdown(t.Context()))
	require.Equal(t, valid, sink.LogRecordCount())
}

// The worked examples are tested in internal/stream; here, that the counts come
// out in the collector's own telemetry, per endpoint.
func TestLossIsVisible(t *testing.T) {
	r := start(t, testConfig(nobody, nobody+"-2"), &consumertest.LogsSink{})
	for _, name := range []string{"missing_records", "gaps", "duplicates", "restarts", "counter_mismatches", "records", "messages"} {
		require.Zero(t, r.metric("fpm_receiver_"+name, "endpoint", nobody), "there from the start, at 0")
	}
	for _, sequence := range []int64{10, 15, 15, 16, 3} {
		r.feed(0, zmtptest.Numbered(uint64(sequence), pass("7", 0, sequence))...)
	}
	r.feed(0, zmtptest.Numbered(4, pass("7", 0, 99))...)
	r.feed(1, zmtptest.Numbered(1, pass("8", 0, 1))...)
	for name, want := range map[string]int64{
		"missing_records": 4, "gaps": 1, "duplicates": 1, "restarts": 1, "counter_mismatches": 1, "records": 5, "messages": 6,
	} {
		require.Equal(t, want, r.metric("fpm_receiver_"+name, "endpoint", nobody), name)
	}
	require.Zero(t, r.metric("fpm_receiver_missing_records", "endpoint", nobody+"-2"))
	require.EqualValues(t, 2, r.metric("fpm_receiver_streams"))
}

func TestBodies_STR_57_STR_104(t *testing.T) {
	bigInt := fpm.AppendMapHeader(nil, 8)
	bigInt = append(bigInt, golden()[1:]...)
	bigInt = fpm.AppendUint(fpm.AppendString(bigInt, "extra"), 1<<63)
	manyKeys := fpm.AppendMapHeader(nil, 8)
	manyKeys = append(manyKeys, golden()[1:]...)
	manyKeys = fpm.AppendMapHeader(fpm.AppendString(manyKeys, "extra"), 20_000)
	for i := range int64(20_000) {
		manyKeys = fpm.AppendNil(fpm.AppendString(manyKeys, "k"+string(fpm.AppendString(nil, time.Duration(i).String())[1:])))
	}
	twice := fpm.AppendMapHeader(nil, 9)
	twice = append(twice, golden()[1:]...)
	for _, value := range []float64{1, math.NaN()} {
		twice = fpm.AppendFloat(fpm.AppendString(twice, "extra"), value)
	}
	for _, tt := range []struct {
		name, body string
		payload    []byte
		want       pcommon.ValueType
	}{
		{"map", bodyMap, golden(), pcommon.ValueTypeMap},
		{"msgpack", bodyMsgpack, golden(), pcommon.ValueTypeBytes},
		{"msgpack of a payload that is not canonical", bodyMsgpack, twice, pcommon.ValueTypeBytes},
		{"an integer above 2^63-1", bodyMap, bigInt, pcommon.ValueTypeBytes},
		{"a map of many keys", bodyMap, manyKeys, pcommon.ValueTypeBytes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := &consumertest.LogsSink{}
			cfg := testConfig(nobody)
			cfg.Logs.Body = tt.body
			r := start(t, cfg, sink)
			r.feedNumbered(0, 42, tt.payload)
			require.NoError(t, r.Shutdown(t.Context()))
			body := records(sink)[0].Body()
			require.Equal(t, tt.want, body.Type())
			if tt.want == pcommon.ValueTypeBytes {
				require.True(t, bytes.Equal(tt.payload, body.Bytes().AsRaw()), "frame 2 as received")
			}
		})
	}
}

func TestSTR_79_STR_80_Legacy(t *testing.T) {
	legacy := legacyPayload(t)
	t.Run("refused by default", func(t *testing.T) {
		r := start(t, testConfig(nobody), &consumertest.LogsSink{})
		r.feedNumbered(0, 7, legacy)
		require.EqualValues(t, 1, r.metric("fpm_receiver_invalid_messages", "reason", "missing_field"))
	})
	for _, body := range []string{bodyMap, bodyMsgpack} {
		t.Run("accepted as "+body, func(t *testing.T) {
			sink := &consumertest.LogsSink{}
			cfg := testConfig(nobody)
			cfg.AcceptLegacy, cfg.Logs.Body = true, body
			r := start(t, cfg, sink)
			r.feedNumbered(0, 7, legacy)
			require.EqualValues(t, 1, r.metric("fpm_receiver_legacy_records"))
			require.NoError(t, r.Shutdown(t.Context()))
			counter, _ := records(sink)[0].Attributes().Get("fpm.counter_id")
			require.EqualValues(t, 7, counter.Int())
			if body == bodyMsgpack {
				var decoder fpm.Decoder
				require.NoError(t, decoder.Decode(records(sink)[0].Body().Bytes().AsRaw(), 0, new(fpm.ForwardPass)), "any reader can take it")
			}
		})
	}
}

func legacyPayload(t *testing.T) []byte {
	t.Helper()
	for _, vector := range fpmtest.Vectors(t) {
		if vector.Name == "legacy_no_version_no_counter" {
			return vector.Payload
		}
	}
	t.Fatal("no such vector")
	return nil
}

func TestSTR_63b_Heartbeats(t *testing.T) {
	for _, keep := range []bool{true, false} {
		sink := &consumertest.LogsSink{}
		cfg := testConfig(nobody)
		if !keep {
			cfg.Logs.Heartbeats = heartbeatsDrop
		}
		r := start(t, cfg, sink)
		untimed := fpm.AppendPayload(nil, &fpm.ForwardPass{WorkerID: []byte("7"), CounterID: 3, Scheduled: fpm.Scheduled{DecodeRequests: 1}})
		queueOnly := fpm.AppendPayload(nil, &fpm.ForwardPass{WorkerID: []byte("7"), CounterID: 4, Queued: fpm.Queued{DecodeRequests: 1}})
		r.feedNumbered(0, 0, pass("7", 0, 0), heartbeat("7", 1), heartbeat("7", 2), untimed, queueOnly)
		require.EqualValues(t, 5, r.metric("fpm_receiver_records"), "of nothing else but the logs")
		require.NoError(t, r.Shutdown(t.Context()))
		if keep {
			require.Equal(t, 5, sink.LogRecordCount())
		} else {
			require.Equal(t, 3, sink.LogRecordCount(), "no work in time is no heartbeat")
		}
	}
}

func TestSTR_54_SkippedFieldsAreCounted(t *testing.T) {
	payload := append(fpm.AppendMapHeader(nil, 8), golden()[1:]...)
	payload = fpm.AppendBinary(fpm.AppendString(payload, "extra"), []byte{1})
	r := start(t, testConfig(nobody), &consumertest.LogsSink{})
	r.feedNumbered(0, 42, payload)
	require.EqualValues(t, 1, r.metric("fpm_receiver_skipped_fields"))
}

// A message that is too large ends the connection, and is counted (STR-8, STR-70).
func TestSTR_8_Oversize(t *testing.T) {
	publisher := listen(t)
	cfg := testConfig(publisher.Endpoint())
	cfg.MaxMessageSize = 1000
	sink := &consumertest.LogsSink{}
	r := start(t, cfg, sink)
	waitForSubscribers(t, publisher, 1)
	publisher.Publish(zmtptest.Numbered(10, pass("7", 0, 10))...)
	publisher.Publish(zmtptest.Numbered(11, make([]byte, 2000))...)
	eventually(t, func() bool { return r.metric("fpm_receiver_invalid_messages", "reason", "oversize") == 1 }, "counted")
	waitForSubscribers(t, publisher, 1)
	publisher.Publish(zmtptest.Numbered(12, pass("7", 0, 12))...)
	eventually(t, func() bool { return sink.LogRecordCount() == 2 }, "the connection is made again")
	require.EqualValues(t, 1, r.metric("fpm_receiver_missing_records"), "STR-E14")
	require.EqualValues(t, 3, r.metric("fpm_receiver_messages"))
	require.EqualValues(t, 1, r.metric("fpm_receiver_disconnects", "reason", "too_large"))
	lines := r.lines.FilterMessage("Invalid message").All()
	require.Len(t, lines, 1, "STR-52")
	require.Equal(t, "oversize", lines[0].ContextMap()["reason"])
	require.Contains(t, lines[0].ContextMap()["error"], "max_message_size is 1000")
}

func TestSTR_52_OneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, testConfig(nobody), &consumertest.LogsSink{})
		for range 3 * 60 {
			for i := range uint64(100) {
				r.feed(0, zmtptest.Numbered(i, []byte{0x90})...)
				r.feed(0, zmtptest.Numbered(i, nil)...)
			}
			time.Sleep(time.Second)
		}
		invalid := r.lines.FilterMessage("Invalid message")
		require.Equal(t, 6, invalid.Len(), "3 minutes, 2 reasons")
		counted := int64(0)
		for _, line := range invalid.All() {
			fields := line.ContextMap()
			require.Equal(t, nobody, fields["endpoint"])
			require.Contains(t, []string{"not_a_map", "truncated"}, fields["reason"])
			require.Contains(t, fields, "length")
			counted += fields["count"].(int64)
		}
		require.Equal(t, int64(2*(100*120+1)), counted, "each line counts what came since the last")
		require.NoError(t, r.Shutdown(t.Context()))
	})
}
