// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadata"
)

const benchedRecords = 512 // a batch of the receiver

// batchesOf makes pushes of 512 passes of 8 workers, with rising counters, as a receiver would send them.
func batchesOf(b *testing.B, form body, n int) []plog.Logs {
	b.Helper()
	builder := newLogsBuilder()
	all := make([]plog.Logs, 0, n)
	for batch := range n {
		for i := range benchedRecords {
			id := string(rune('a' + i%8))
			builder.add(b, worker(id), payloadOf(id, 0, int64(batch*benchedRecords+i)), form)
		}
		all = append(all, builder.take())
	}
	return all
}

var benchedBodies = []struct {
	name string
	form body
}{{"body=map", asMap}, {"body=msgpack", asBytes}}

// BenchmarkConvert is the part of a push that is this package's: checking and converting the records.
func BenchmarkConvert(b *testing.B) {
	for _, benched := range benchedBodies {
		b.Run(benched.name, func(b *testing.B) {
			logs := batchesOf(b, benched.form, 1)[0]
			batch := newBatch()
			b.ReportAllocs()
			b.SetBytes(benchedRecords) // MB/s are million records a second
			for b.Loop() {
				batch.fill(logs)
				if len(batch.records) != benchedRecords {
					b.Fatal("records were refused")
				}
				batch.release()
			}
		})
	}
}

// BenchmarkPush is a whole push into the queues of a buffered exporter, whose files are written beside it.
func BenchmarkPush(b *testing.B) {
	for _, benched := range benchedBodies {
		b.Run(benched.name, func(b *testing.B) {
			cfg := defaultConfig()
			cfg.Path = filepath.Join(b.TempDir(), "fpm")
			e, err := newTraceExporter(b.Context(), exportertest.NewNopSettings(metadata.Type), cfg, newFileWriter)
			require.NoError(b, err)
			require.NoError(b, e.Start(b.Context(), componenttest.NewNopHost()))
			pushes := batchesOf(b, benched.form, 64)
			b.ReportAllocs()
			b.SetBytes(benchedRecords)
			for n := 0; b.Loop(); n++ {
				if err := e.pusher.push(b.Context(), pushes[n%len(pushes)]); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			require.NoError(b, e.Shutdown(b.Context()))
		})
	}
}
