// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	stdgzip "compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// jsonRow is what encoding/json would be given; its text is not a trace row (ROW-19).
type jsonRow struct {
	Timestamp uint64 `json:"timestamp"`
	Event     struct {
		Schema string `json:"schema"`
		Source struct {
			Namespace  string `json:"namespace"`
			Component  string `json:"component"`
			ProducerID string `json:"producer_id"`
		} `json:"source"`
		CaptureMode string `json:"capture_mode"`
		Observed    uint64 `json:"observed_at_unix_ms"`
		FPM         struct {
			Version   int     `json:"version"`
			WorkerID  string  `json:"worker_id"`
			DPRank    int64   `json:"dp_rank"`
			CounterID int64   `json:"counter_id"`
			WallTime  float64 `json:"wall_time"`
			Scheduled struct {
				PrefillRequests int64   `json:"num_prefill_requests"`
				PrefillTokens   int64   `json:"sum_prefill_tokens"`
				PrefillVariance float64 `json:"var_prefill_length"`
				PrefillKV       int64   `json:"sum_prefill_kv_tokens"`
				DecodeRequests  int64   `json:"num_decode_requests"`
				DecodeKV        int64   `json:"sum_decode_kv_tokens"`
				DecodeVariance  float64 `json:"var_decode_kv_tokens"`
			} `json:"scheduled_requests"`
			Queued struct {
				PrefillRequests int64   `json:"num_prefill_requests"`
				PrefillTokens   int64   `json:"sum_prefill_tokens"`
				PrefillVariance float64 `json:"var_prefill_length"`
				DecodeRequests  int64   `json:"num_decode_requests"`
				DecodeKV        int64   `json:"sum_decode_kv_tokens"`
				DecodeVariance  float64 `json:"var_decode_kv_tokens"`
			} `json:"queued_requests"`
		} `json:"fpm"`
	} `json:"event"`
}

// BenchmarkAppendRow is PERF-5: the golden row, and a row of full digits; encoding/json beside it.
func BenchmarkAppendRow(b *testing.B) {
	varied := variedPayload(rand.New(rand.NewPCG(1, 2)), 1)
	for _, c := range []struct {
		name      string
		canonical []byte
	}{{"golden", fpmtest.Golden()}, {"varied", varied}} {
		row := AppendRow(nil, goldenEnvelope, c.canonical)
		b.Run(c.name+"/append", func(b *testing.B) {
			b.SetBytes(int64(len(row)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = AppendRow(dst[:0], goldenEnvelope, c.canonical)
			}
		})
		b.Run(c.name+"/encoding-json", func(b *testing.B) {
			var value jsonRow
			require.NoError(b, json.Unmarshal(row, &value))
			b.SetBytes(int64(len(row)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := json.Marshal(&value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// variedPayload looks like a busy engine.
func variedPayload(random *rand.Rand, counter int64) []byte {
	p := fpm.ForwardPass{
		WorkerID: []byte("7587886913563146518"), DPRank: counter % 8, CounterID: counter, WallTime: 0.01 + random.Float64()/50,
	}
	p.Scheduled.PrefillRequests, p.Scheduled.PrefillTokens = random.Int64N(4), random.Int64N(8192)
	p.Scheduled.PrefillKVTokens = random.Int64N(1 << 16)
	p.Scheduled.DecodeRequests, p.Scheduled.DecodeKVTokens = random.Int64N(256), random.Int64N(1<<20)
	p.Scheduled.PrefillLengthVariance, p.Scheduled.HasPrefillLengthVariance = random.Float64()*1e6, true
	p.Scheduled.DecodeKVVariance, p.Scheduled.HasDecodeKVVariance = random.Float64()*1e6, true
	p.Queued.PrefillRequests, p.Queued.PrefillTokens = random.Int64N(10), random.Int64N(1<<15)
	p.Queued.HasPrefillLengthVariance, p.Queued.HasDecodeKVVariance = true, true
	return fpm.AppendPayload(nil, &p)
}

// variedRows is n rows of eight ranks, interleaved.
func variedRows(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var rows []byte
	for c := range int64(n) {
		e := goldenEnvelope
		e.TimestampMillis, e.ObservedUnixMillis = uint64(c*5), e.ObservedUnixMillis+uint64(c*5)
		rows = AppendRow(rows, e, variedPayload(random, c))
	}
	return rows
}

// BenchmarkMember is PERF-6 and PERF-7: levels and rows a member, klauspost's gzip beside the standard library's.
func BenchmarkMember(b *testing.B) {
	for _, rows := range []int{1, 5, 10, 27, 50, 100, 1500} {
		text := variedRows(rows)
		for _, level := range []int{1, 3, 6, 9} {
			b.Run(fmt.Sprintf("rows=%d/klauspost-%d", rows, level), func(b *testing.B) {
				c := newCompressor(level)
				var member []byte
				for b.Loop() {
					member = c.appendMember(member[:0], text)
				}
				reportMember(b, rows, len(text), len(member))
			})
			b.Run(fmt.Sprintf("rows=%d/standard-%d", rows, level), func(b *testing.B) {
				var member sliceWriter
				z, err := stdgzip.NewWriterLevel(&member, level)
				require.NoError(b, err)
				for b.Loop() {
					member = member[:0]
					z.Reset(&member)
					_, _ = z.Write(text)
					_ = z.Close()
				}
				reportMember(b, rows, len(text), len(member))
			})
		}
	}
}

func reportMember(b *testing.B, rows, raw, member int) {
	b.Helper()
	b.SetBytes(int64(raw))
	b.ReportMetric(float64(raw)/float64(member), "ratio")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
}

// BenchmarkEnqueueToDisk is the whole way of a row through a buffered writer, 512 rows a push, until all are on disk.
func BenchmarkEnqueueToDisk(b *testing.B) {
	for _, producers := range []int{1, 8} {
		b.Run(fmt.Sprint("producers=", producers), func(b *testing.B) {
			obs := newRecorder()
			w := benchWriter(b, Buffered, obs)
			push := benchPush(producers)
			b.ReportAllocs()
			pushed := 0
			for b.Loop() {
				for w.budget.used.Load() > 4<<20 { // no faster than the disk, so that nothing is dropped
					time.Sleep(50 * time.Microsecond)
				}
				require.NoError(b, w.Enqueue(push))
				advance(push)
				pushed += len(push)
			}
			require.NoError(b, w.Shutdown(b.Context()))
			require.Equal(b, pushed, obs.written())
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(pushed), "ns/row")
		})
	}
}

// BenchmarkWrite is a push of a flushed or synced writer.
func BenchmarkWrite(b *testing.B) {
	for _, durability := range []Durability{Flushed, Synced} {
		b.Run(durability.String(), func(b *testing.B) {
			obs := newRecorder()
			w := benchWriter(b, durability, obs)
			push := benchPush(8)
			b.ReportAllocs()
			for b.Loop() {
				_, err := w.Write(b.Context(), push)
				require.NoError(b, err)
				advance(push)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(push)), "ns/row")
			require.NoError(b, w.Shutdown(b.Context()))
			require.Zero(b, obs.allDrops())
		})
	}
}

func benchWriter(b *testing.B, durability Durability, obs Observer) *Writer {
	b.Helper()
	w := NewWriter(Config{
		Base: filepath.Join(b.TempDir(), "dynamo-fpm"), RollBytes: 64 << 20, MaxSegments: 2,
		FlushInterval: DefaultFlushInterval, FlushBytes: DefaultFlushBytes, CompressionLevel: DefaultCompressionLevel,
		Durability: durability, MaxOpenFiles: DefaultMaxOpenFiles,
	}, obs, zap.NewNop())
	require.NoError(b, w.Start())
	return w
}

// benchPush is rows of eight ranks for each producer.
func benchPush(producers int) []Record {
	random := rand.New(rand.NewPCG(1, 2))
	push := make([]Record, 512)
	for i := range push {
		id := fmt.Sprint("758788691356314651", i*producers/len(push))
		push[i] = Record{
			Source:      fpm.Source{Namespace: "default", Component: "backend", ProducerID: id},
			Worker:      id,
			DPRank:      int64(i % 8),
			CounterID:   int64(i),
			CaptureMode: "full",
			Canonical:   variedPayload(random, int64(i)),
		}
	}
	return push
}

// advance makes push the next one: the same counters again would be duplicates.
func advance(push []Record) {
	for i := range push {
		push[i].CounterID += int64(len(push))
	}
}
