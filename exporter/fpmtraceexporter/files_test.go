// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-fpm/otelcol-fpm/exporter/fpmtraceexporter/internal/metadatatest"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// fileExporter is an exporter as users have it.
type fileExporter struct {
	exporter.Logs
	base      string
	telemetry *componenttest.Telemetry
	logs      *zapobserver.ObservedLogs
}

func newFileExporter(t *testing.T, base string, change func(*Config)) *fileExporter {
	t.Helper()
	telemetry := newTelemetry(t)
	set := metadatatest.NewSettings(telemetry)
	core, logs := zapobserver.New(zapcore.WarnLevel)
	set.Logger = zap.New(core)
	cfg := defaultConfig()
	cfg.Path = base
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	e, err := NewFactory().CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	return &fileExporter{Logs: e, base: base, telemetry: telemetry, logs: logs}
}

func (e *fileExporter) start(t *testing.T) {
	t.Helper()
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
}

// segments of all producers, by name.
func (e *fileExporter) segments(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(e.base + ".*.jsonl.gz")
	require.NoError(t, err)
	return names
}

// rows of all segments; files have many gzip members (FR-26), which the standard library reads as one.
func (e *fileExporter) rows(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range e.segments(t) {
		compressed, err := os.ReadFile(name)
		require.NoError(t, err)
		members, err := gzip.NewReader(bytes.NewReader(compressed))
		require.NoError(t, err)
		text, err := io.ReadAll(members)
		require.NoError(t, err)
		require.True(t, bytes.HasSuffix(text, []byte("\n")))
		all = append(all, strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	return all
}

// counters of the rows in the order of the file.
func (e *fileExporter) counters(t *testing.T) []int64 {
	t.Helper()
	var all []int64
	for _, row := range e.rows(t) {
		var parsed struct {
			Event struct {
				FPM struct {
					CounterID int64 `json:"counter_id"`
				} `json:"fpm"`
			} `json:"event"`
		}
		require.NoError(t, json.Unmarshal([]byte(row), &parsed))
		all = append(all, parsed.Event.FPM.CounterID)
	}
	return all
}

var durabilities = map[string]func(*Config){
	"buffered": nil,
	"flushed":  flushed,
	"synced":   func(cfg *Config) { cfg.Durability = tracefile.Synced.String() },
}

// ROW-24: the golden payload gives the golden row, in both body forms and with every durability. The timestamp is the
// only thing that a clock decides.
func TestROW24GoldenRow(t *testing.T) {
	golden := fpmtest.GoldenRow()
	timestamp := regexp.MustCompile(`^{"timestamp":\d+,`)
	for name, change := range durabilities {
		t.Run(name, func(t *testing.T) {
			for _, form := range []body{asBytes, asMap} {
				e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), change)
				e.start(t)
				b := newLogsBuilder()
				b.add(t, worker("4192"), fpmtest.Golden(), form)
				logs := b.take()
				firstRecord(logs).Attributes().PutStr(fpmpdata.AttrCaptureMode, fpmpdata.CaptureModeSampled)
				logs.MarkReadOnly()
				require.NoError(t, e.ConsumeLogs(t.Context(), logs))
				require.NoError(t, e.Shutdown(t.Context()))

				require.Equal(t, []string{e.base + ".4192.000000.jsonl.gz"}, e.segments(t))
				row := timestamp.ReplaceAllString(strings.Join(e.rows(t), ""), `{"timestamp":1250,`) + "\n"
				require.Equal(t, string(golden), row)
				sum := sha256.Sum256([]byte(row))
				require.Equal(t, "5c8634f0f214d376f8ac8cc194f138d1ea861ff46ba572d1a9c41acc137512ab", hex.EncodeToString(sum[:]))
			}
		})
	}
}

// FR-24, FR-31, FIL-63: what was accepted is on disk after Shutdown, in order, and no gzip tail is missing.
func TestFR31QueuedRecordsAreOnDiskAfterShutdown(t *testing.T) {
	pushes := pushesOf(t, 5000, 250)
	for name, change := range durabilities {
		t.Run(name, func(t *testing.T) {
			e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), change)
			e.start(t)
			for _, logs := range pushes {
				require.NoError(t, e.ConsumeLogs(t.Context(), logs))
			}
			require.NoError(t, e.Shutdown(context.Background()))
			require.Equal(t, counters(0, 5000), e.counters(t))
			require.Equal(t, int64(5000), sumOf(t, e.telemetry, "otelcol_fpm_trace_exporter_rows_written", "", ""))
			for _, reason := range tracefile.DropReasons() {
				require.Zero(t, dropped(t, e.telemetry, reason), reason)
			}
		})
	}
}

// FR-26: a segment of three members gives all rows to a reader of ours; a reader of the first member alone gets a third.
func TestFR26SegmentsHaveManyMembers(t *testing.T) {
	e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), flushed)
	e.start(t)
	for n := range int64(3) {
		require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", n, 1)))
	}
	require.NoError(t, e.Shutdown(context.Background()))
	require.Equal(t, counters(0, 3), e.counters(t))
	require.Equal(t, int64(3), sumOf(t, e.telemetry, "otelcol_fpm_trace_exporter_flushes", "", ""))

	compressed, err := os.ReadFile(e.segments(t)[0])
	require.NoError(t, err)
	first, err := gzip.NewReader(bytes.NewReader(compressed))
	require.NoError(t, err)
	first.Multistream(false)
	text, err := io.ReadAll(first)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(text, []byte("\n")))
}

// COL-75: the telemetry of an exporter at work.
func TestTelemetryOfRealFiles(t *testing.T) {
	e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), func(cfg *Config) {
		flushed(cfg)
		cfg.RollBytes, cfg.MaxSegments = 1, 2
	})
	e.start(t)
	for n := range int64(5) {
		require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", n, 1)))
	}
	other := passLogs(t, "4192", 9, 1)
	firstRecord(other).SetEventName("other")
	require.NoError(t, e.ConsumeLogs(t.Context(), other))
	require.NoError(t, e.Shutdown(context.Background()))

	var raw, compressed int64
	for _, row := range e.rows(t) {
		raw += int64(len(strings.TrimSuffix(row, "\n"))) + 1
	}
	for _, name := range e.segments(t) {
		info, err := os.Stat(name)
		require.NoError(t, err)
		compressed += info.Size()
	}
	require.Len(t, e.segments(t), 2)
	sum := func(metric, key, value string) int64 {
		return sumOf(t, e.telemetry, "otelcol_fpm_trace_exporter_"+metric, key, value)
	}
	require.Equal(t, int64(5), sum("rows_written", "", ""))
	require.Equal(t, int64(5), sum("flushes", "", ""))
	require.Equal(t, int64(5), sum("segments_opened", "", ""))
	require.Equal(t, int64(3), sum("segments_pruned", "cause", "max_segments"))
	require.Equal(t, int64(1), sum("rows_dropped", "reason", "not_fpm"))
	// Two of five rows are left, and all are alike except for the digits of the timestamp.
	require.InDelta(t, float64(raw)*5/2, sum("bytes", "kind", "raw"), 20)
	require.InDelta(t, float64(compressed)*5/2, sum("bytes", "kind", "gzip"), 40)
}

// FIL-46, FR-30, COL-62: a path that can't be written is a recoverable error, rows wait, and writing begins by itself.
func TestFIL46PathThatIsRepairedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		inTheWay := filepath.Join(folder, "traces")
		require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
		e := newFileExporter(t, filepath.Join(inTheWay, "fpm"), nil)
		host := &statusHost{}
		require.NoError(t, e.Start(t.Context(), host))
		require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 10)))
		time.Sleep(10 * time.Minute)
		require.Len(t, host.reported(), 1, "on change only")
		require.Equal(t, componentstatus.StatusRecoverableError, host.reported()[0].Status())
		require.ErrorContains(t, host.reported()[0].Err(), inTheWay)
		attempts := sumOf(t, e.telemetry, "otelcol_fpm_trace_exporter_errors", "op", "preflight")
		require.Greater(t, attempts, int64(10))

		require.NoError(t, os.Remove(inTheWay))
		time.Sleep(time.Minute)
		require.Equal(t, counters(0, 10), e.counters(t))
		require.Len(t, host.reported(), 2)
		require.Equal(t, componentstatus.StatusOK, host.reported()[1].Status())
		require.NoError(t, e.Shutdown(context.Background()))
		require.Len(t, host.reported(), 2)
	})
}

// FIL-46, FIL-64: the path is never repaired: the rows that waited are counted as lost.
func TestFIL64RowsThatNeverFoundAPathAreCounted(t *testing.T) {
	for name, change := range durabilities {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inTheWay := filepath.Join(t.TempDir(), "traces")
				require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
				e := newFileExporter(t, filepath.Join(inTheWay, "fpm"), change)
				e.start(t)
				for n := range int64(5) {
					require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 10*n, 10)))
				}
				time.Sleep(time.Hour)
				began := time.Now()
				_ = e.Shutdown(context.Background())
				require.Less(t, time.Since(began), 30*time.Second)
				require.Equal(t, int64(50), dropped(t, e.telemetry, tracefile.DropShutdown))
				require.Zero(t, sumOf(t, e.telemetry, "otelcol_fpm_trace_exporter_rows_written", "", ""))
			})
		})
	}
}

// FIL-43: a second exporter with the same path writes nothing, and takes over when the first one ends.
func TestFIL43SecondExporterTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := filepath.Join(t.TempDir(), "fpm")
		first := newFileExporter(t, base, nil)
		first.start(t)
		require.NoError(t, first.ConsumeLogs(t.Context(), passLogs(t, "4192", 0, 10)))
		time.Sleep(time.Minute)
		second := newFileExporter(t, base, nil)
		host := &statusHost{}
		require.NoError(t, second.Start(t.Context(), host))
		require.NoError(t, second.ConsumeLogs(t.Context(), passLogs(t, "4192", 10, 10)))
		time.Sleep(time.Minute)
		require.Equal(t, counters(0, 10), first.counters(t))
		require.Len(t, host.reported(), 1)

		require.NoError(t, first.Shutdown(t.Context()))
		time.Sleep(10 * time.Second)
		require.Equal(t, counters(0, 20), second.counters(t))
		require.Len(t, host.reported(), 2)
		require.NoError(t, second.Shutdown(t.Context()))
	})
}

// ROW-7: one warning per producer whose rows lack a namespace, a component or an id.
func TestROW7OneWarningPerProducer(t *testing.T) {
	e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), nil)
	e.start(t)
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "complete", 0, 3)))
	for _, missing := range []string{fpmpdata.AttrServiceNamespace, fpmpdata.AttrServiceName} {
		for first := range int64(2) {
			incomplete := passLogs(t, "no-"+missing, first, 1)
			incomplete.ResourceLogs().At(0).Resource().Attributes().Remove(missing)
			require.NoError(t, e.ConsumeLogs(t.Context(), incomplete))
		}
	}
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "", 0, 1)))
	require.NoError(t, e.Shutdown(context.Background()))

	var producers []string
	for _, entry := range e.logs.FilterMessageSnippet("source").All() {
		producers = append(producers, entry.ContextMap()["producer_id"].(string))
	}
	require.Equal(t, []string{"no-service.namespace", "no-service.name", ""}, producers)
	require.Contains(t, strings.Join(e.rows(t), ""), `"source":{"namespace":"","component":"backend","producer_id":"no-service.namespace"}`)
}

// CON-5, FIL-29: the same pass twice is one row.
func TestDuplicatesAreCounted(t *testing.T) {
	e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), nil)
	e.start(t)
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 7, 1)))
	require.NoError(t, e.ConsumeLogs(t.Context(), passLogs(t, "4192", 7, 1)))
	require.NoError(t, e.Shutdown(context.Background()))
	require.Equal(t, []int64{7}, e.counters(t))
	require.Equal(t, int64(1), dropped(t, e.telemetry, tracefile.DropDuplicate))
}

// Rows of one push go to the files of their producers, whatever the order of the records.
func TestProducersOfOnePush(t *testing.T) {
	for name, change := range durabilities {
		t.Run(name, func(t *testing.T) {
			e := newFileExporter(t, filepath.Join(t.TempDir(), "fpm"), change)
			e.start(t)
			b := newLogsBuilder()
			for counter := range int64(50) {
				for _, id := range []string{"a", "b", "c"} {
					b.add(t, worker(id), payloadOf(id, 0, counter), counter%2 == 0)
				}
			}
			require.NoError(t, e.ConsumeLogs(t.Context(), b.take()))
			require.NoError(t, e.Shutdown(context.Background()))
			require.Equal(t, append(append(counters(0, 50), counters(0, 50)...), counters(0, 50)...), e.counters(t))
			require.Len(t, e.segments(t), 3)
		})
	}
}
