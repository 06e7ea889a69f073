// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// convert gives the records of the logs; they stay valid.
func convert(logs plog.Logs) ([]tracefile.Record, refusals) {
	b := newBatch()
	b.fill(logs)
	return b.records, b.refused
}

func convertOne(t *testing.T, logs plog.Logs) tracefile.Record {
	t.Helper()
	records, refused := convert(logs)
	require.NoError(t, refused.err)
	require.Len(t, records, 1)
	return records[0]
}

func rowOf(record tracefile.Record) string {
	return string(tracefile.AppendRow(nil, tracefile.Envelope{
		TimestampMillis:    1250,
		Source:             record.Source,
		CaptureMode:        record.CaptureMode,
		ObservedUnixMillis: record.ObservedUnixNano / 1e6,
	}, record.Canonical))
}

func TestROW7ProducerID(t *testing.T) {
	const missing = "\x00"
	for _, test := range []struct {
		name                           string
		producerID, workerID, instance string
		want                           string
	}{
		{"configured", "pod-1", "4192", "tcp://10.0.0.7:20380", "pod-1"},
		{"worker id", missing, "4192", "tcp://10.0.0.7:20380", "4192"},
		{"worker id behind an empty producer id", "", "4192", "tcp://10.0.0.7:20380", "4192"},
		{"endpoint", missing, missing, "tcp://10.0.0.7:20380", "tcp://10.0.0.7:20380"},
		{"endpoint behind an empty worker id", "", "", "tcp://10.0.0.7:20380", "tcp://10.0.0.7:20380"},
		{"nothing", missing, missing, missing, ""},
		{"nothing but empty values", "", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			logs := passLogs(t, "other", 0, 1)
			set := func(attributes pcommon.Map, name, value string) {
				if value == missing {
					attributes.Remove(name)
					return
				}
				attributes.PutStr(name, value)
			}
			resource := logs.ResourceLogs().At(0).Resource().Attributes()
			set(resource, fpmpdata.AttrProducerID, test.producerID)
			set(resource, fpmpdata.AttrServiceInstanceID, test.instance)
			set(firstRecord(logs).Attributes(), fpmpdata.AttrWorkerID, test.workerID)
			require.Equal(t, test.want, convertOne(t, logs).Source.ProducerID)
		})
	}
}

func TestROW6SourceIsRaw(t *testing.T) {
	logs := passLogs(t, "4192", 0, 1)
	resource := logs.ResourceLogs().At(0).Resource().Attributes()
	resource.PutStr(fpmpdata.AttrServiceNamespace, "a/b")
	resource.PutStr(fpmpdata.AttrServiceName, "préfill")
	resource.PutStr(fpmpdata.AttrProducerID, "../../etc")
	require.Equal(t, fpm.Source{Namespace: "a/b", Component: "préfill", ProducerID: "../../etc"}, convertOne(t, logs).Source)

	resource.Remove(fpmpdata.AttrServiceNamespace)
	resource.Remove(fpmpdata.AttrServiceName)
	resource.PutInt(fpmpdata.AttrProducerID, 4192)
	require.Equal(t, fpm.Source{ProducerID: "4192"}, convertOne(t, logs).Source)
}

// FIL-28: the stream is named by service.instance.id, else by the worker id.
func TestFIL28Worker(t *testing.T) {
	logs := passLogs(t, "4192", 0, 1)
	resource := logs.ResourceLogs().At(0).Resource().Attributes()
	resource.PutStr(fpmpdata.AttrServiceInstanceID, "tcp://10.0.0.7:20380")
	require.Equal(t, "tcp://10.0.0.7:20380", convertOne(t, logs).Worker)
	resource.Remove(fpmpdata.AttrServiceInstanceID)
	require.Equal(t, "4192", convertOne(t, logs).Worker)
}

func TestRankAndCounterAreThePayloads(t *testing.T) {
	b := newLogsBuilder()
	b.add(t, worker("4192"), payloadOf("4192", 3, math.MaxInt64), asMap)
	logs := b.take()
	firstRecord(logs).Attributes().PutInt(fpmpdata.AttrDPRank, 9)
	firstRecord(logs).Attributes().PutInt(fpmpdata.AttrCounterID, 9)
	record := convertOne(t, logs)
	require.Equal(t, int64(3), record.DPRank)
	require.Equal(t, int64(math.MaxInt64), record.CounterID)
}

func TestROW8CaptureMode(t *testing.T) {
	for value, want := range map[string]string{
		"": "full", "full": "full", "sampled": "sampled", "SAMPLED": "full", "other": "full",
	} {
		t.Run(value, func(t *testing.T) {
			logs := passLogs(t, "4192", 0, 1)
			if value != "" {
				firstRecord(logs).Attributes().PutStr(fpmpdata.AttrCaptureMode, value)
			}
			require.Equal(t, want, convertOne(t, logs).CaptureMode)
		})
	}
}

func TestROW10ObservedTime(t *testing.T) {
	for name, test := range map[string]struct {
		observed, timestamp pcommon.Timestamp
		want                string
	}{
		"observed":  {observed: 1782777601250999999, timestamp: 5e6, want: `"observed_at_unix_ms":1782777601250,`},
		"timestamp": {timestamp: 5999999, want: `"observed_at_unix_ms":5,`},
		"neither":   {want: `"observed_at_unix_ms":0,`},
		"largest":   {observed: math.MaxUint64, want: `"observed_at_unix_ms":18446744073709,`},
	} {
		t.Run(name, func(t *testing.T) {
			logs := passLogs(t, "4192", 0, 1)
			firstRecord(logs).SetObservedTimestamp(test.observed)
			firstRecord(logs).SetTimestamp(test.timestamp)
			require.Contains(t, rowOf(convertOne(t, logs)), test.want)
		})
	}
}

// ROW-26: a map body and the raw msgpack body of one payload give the same row, which is the one of the vector.
func TestROW26MapAndBytesGiveTheSameRow(t *testing.T) {
	asMaps := 0
	for _, v := range fpmtest.Vectors(t) {
		if !v.Valid {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			b := newLogsBuilder()
			b.add(t, worker("4192"), v.Payload, asBytes)
			row := rowOf(convertOne(t, b.take()))
			if v.RowFPM != "" {
				require.True(t, strings.HasSuffix(row, `,"fpm":`+v.RowFPM+"}}\n"), "row %s", row)
			}

			var pass fpm.ForwardPass
			require.NoError(t, b.decoder.Decode(v.Payload, 0, &pass))
			if pass.BigInt || !fpmpdata.FitsMapBody(b.decoder.Canonical(&pass)) {
				return // the receiver carries such payloads as bytes only
			}
			asMaps++
			b.add(t, worker("4192"), v.Payload, asMap)
			require.Equal(t, row, rowOf(convertOne(t, b.take())))
		})
	}
	require.Greater(t, asMaps, 30)
}

// ROW-26: an integer above 2^63-1 is written exactly.
func TestROW26LargeInteger(t *testing.T) {
	payload := appendEntry(fpmtest.Golden(), "extra", func(dst []byte) []byte { return fpm.AppendUint(dst, math.MaxUint64) })
	b := newLogsBuilder()
	b.add(t, worker("4192"), payload, asBytes)
	require.Contains(t, rowOf(convertOne(t, b.take())), `"extra":18446744073709551615`)
}

// appendEntry adds one entry to a payload with a fixmap header.
func appendEntry(payload []byte, key string, value func([]byte) []byte) []byte {
	out := append([]byte(nil), payload...)
	out[0]++
	return value(fpm.AppendString(out, key))
}

// One push holds many records: none may overwrite the payload of another, whatever owns it.
func TestRecordsOfOnePushKeepTheirPayloads(t *testing.T) {
	b := newLogsBuilder()
	var want []string
	for n := range 300 {
		id := strings.Repeat("w", n%7+1)
		payload := payloadOf(id, 0, int64(n))
		if n%3 == 0 { // a nil for the NaN makes the canonical payload differ
			payload = appendEntry(payload, "extra", func(dst []byte) []byte { return fpm.AppendFloat(dst, math.NaN()) })
		}
		b.add(t, worker(id), payload, n%2 == 0)
		single := newLogsBuilder()
		single.add(t, worker(id), payload, asBytes)
		want = append(want, rowOf(convertOne(t, single.take())))
	}
	records, refused := convert(b.take())
	require.Zero(t, refused.n)
	got := make([]string, 0, len(records))
	for _, record := range records {
		got = append(got, rowOf(record))
	}
	require.ElementsMatch(t, want, got)
}

func TestROW27RefusedRecords(t *testing.T) {
	for name, change := range map[string]func(plog.LogRecord){
		"no event name":    func(r plog.LogRecord) { r.SetEventName("") },
		"other event name": func(r plog.LogRecord) { r.SetEventName("fpm.other") },
		"no body":          func(r plog.LogRecord) { pcommon.NewValueEmpty().CopyTo(r.Body()) },
		"text body":        func(r plog.LogRecord) { r.Body().SetStr("{}") },
		"list body":        func(r plog.LogRecord) { r.Body().SetEmptySlice() },
		"number body":      func(r plog.LogRecord) { r.Body().SetInt(1) },
		"empty map":        func(r plog.LogRecord) { r.Body().SetEmptyMap() },
		"empty bytes":      func(r plog.LogRecord) { r.Body().SetEmptyBytes() },
		"version 2":        func(r plog.LogRecord) { r.Body().Map().PutInt("version", 2) },
		"no version":       func(r plog.LogRecord) { r.Body().Map().Remove("version") },
		"wrong type":       func(r plog.LogRecord) { r.Body().Map().PutStr("counter_id", "7") },
		"negative count": func(r plog.LogRecord) {
			scheduled, _ := r.Body().Map().Get("scheduled_requests")
			scheduled.Map().PutInt("num_decode_requests", -1)
		},
		"not a number":   func(r plog.LogRecord) { r.Body().Map().PutDouble("wall_time", math.NaN()) },
		"trailing bytes": func(r plog.LogRecord) { r.Body().SetEmptyBytes().FromRaw(append(payloadOf("w", 0, 1), 0)) },
		"too deep": func(r plog.LogRecord) {
			at := r.Body().Map().PutEmptySlice("deep")
			for range 100_000 {
				at = at.AppendEmpty().SetEmptySlice()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			logs := passLogs(t, "4192", 0, 3)
			change(logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(1))
			records, refused := convert(logs)
			require.Equal(t, 1, refused.n)
			require.Error(t, refused.err)
			require.Len(t, records, 2, "the others are kept")
			require.Equal(t, int64(0), records[0].CounterID)
			require.Equal(t, int64(2), records[1].CounterID)
		})
	}
}

func TestROW27InvalidVectorsAreRefused(t *testing.T) {
	for _, v := range fpmtest.Vectors(t) {
		if v.Valid || v.Reason == fpm.ReasonOversize.String() {
			continue // the size is the receiver's to judge
		}
		t.Run(v.Name, func(t *testing.T) {
			logs := passLogs(t, "4192", 0, 1)
			firstRecord(logs).Body().SetEmptyBytes().FromRaw(v.Payload)
			records, refused := convert(logs)
			require.Equal(t, 1, refused.n)
			require.Empty(t, records)
		})
	}
}

// ROW-27: whatever arrives, nothing panics, and every record is a row or refused.
func TestROW27RandomRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 1))
	names := []string{"version", "worker_id", "dp_rank", "counter_id", "wall_time", "scheduled_requests", "queued_requests", "x"}
	var value func(into pcommon.Value, depth int)
	value = func(into pcommon.Value, depth int) {
		switch kind := random.IntN(9); {
		case kind == 0:
			into.SetStr(string(make([]byte, random.IntN(40))) + "\xff")
		case kind == 1:
			into.SetInt(int64(random.Uint64()))
		case kind == 2:
			into.SetDouble(math.Float64frombits(random.Uint64()))
		case kind == 3:
			into.SetBool(true)
		case kind == 4:
			into.SetEmptyBytes().FromRaw(make([]byte, random.IntN(9)))
		case kind < 7 && depth > 0:
			for range random.IntN(8) {
				value(mapOf(into).PutEmpty(names[random.IntN(len(names))]), depth-1)
			}
		case depth > 0:
			for range random.IntN(4) {
				value(sliceOf(into).AppendEmpty(), depth-1)
			}
		}
	}
	for range 3000 {
		logs := passLogs(t, "4192", 0, 2)
		record := firstRecord(logs)
		switch random.IntN(3) {
		case 0:
			value(record.Body(), 20)
		case 1:
			value(record.Body().Map().PutEmpty(names[random.IntN(len(names))]), 3)
		default:
			raw := payloadOf("4192", 0, 1)
			raw[random.IntN(len(raw))] = byte(random.IntN(256))
			record.Body().SetEmptyBytes().FromRaw(raw[:random.IntN(len(raw)+1)])
		}
		value(record.Attributes().PutEmpty(fpmpdata.AttrCaptureMode), 1)
		value(record.Attributes().PutEmpty(fpmpdata.AttrWorkerID), 1)
		value(logs.ResourceLogs().At(0).Resource().Attributes().PutEmpty(fpmpdata.AttrProducerID), 2)
		records, refused := convert(logs)
		require.Equal(t, 2, len(records)+refused.n)
	}
}

func mapOf(value pcommon.Value) pcommon.Map {
	if value.Type() != pcommon.ValueTypeMap {
		return value.SetEmptyMap()
	}
	return value.Map()
}

func sliceOf(value pcommon.Value) pcommon.Slice {
	if value.Type() != pcommon.ValueTypeSlice {
		return value.SetEmptySlice()
	}
	return value.Slice()
}

// A payload above the receiver's default limit is written: the limit can be raised there.
func TestLargePayload(t *testing.T) {
	payload := appendEntry(payloadOf("4192", 0, 1), "extra", func(dst []byte) []byte {
		return fpm.AppendString(dst, strings.Repeat("x", 2<<20))
	})
	b := newLogsBuilder()
	b.add(t, worker("4192"), payload, asBytes)
	require.Len(t, convertOne(t, b.take()).Canonical, len(payload))
}

func TestReleaseForgetsTheLogsAndBoundsItsMemory(t *testing.T) {
	b := newBatch()
	b.records = make([]tracefile.Record, 1, maxKeptRecords+1)
	b.origins = make([]origin, 1, maxKeptRecords+1)
	b.bodies = make([]byte, 1, maxKeptBodies+1)
	b.release()
	require.Zero(t, cap(b.records))
	require.Zero(t, cap(b.origins))
	require.Zero(t, cap(b.bodies))

	b.fill(passLogs(t, "4192", 0, 3))
	require.Len(t, b.records, 3)
	kept := b.records
	b.release()
	require.Empty(t, b.records)
	require.Equal(t, make([]tracefile.Record, 3), kept)
}
