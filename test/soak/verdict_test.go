// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/xml"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// samplesOf makes a run of 20 minutes whose values follow a curve of the share of
// the run that has passed.
func samplesOf(curve func(share float64) float64) (samples []sample, length time.Duration) {
	length = 20 * time.Minute
	for at := time.Duration(0); at <= length; at += sampleEvery {
		value := 1000 * curve(float64(at)/float64(length))
		s := sample{At: at}
		for _, column := range columns {
			*column.of(&s) = value
		}
		samples = append(samples, s)
	}
	return samples, length
}

func flatNames(findings []finding) (flat []string) {
	for i := range findings {
		if findings[i].flat() {
			flat = append(flat, findings[i].name)
		}
	}
	return flat
}

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		curve func(float64) float64
		flat  int
	}{
		"constant":                    {func(float64) float64 { return 1 }, len(limits)},
		"warm-up does not count":      {func(x float64) float64 { return min(1, 5*x) }, len(limits)},
		"waves do not count":          {func(x float64) float64 { return 1 + 0.3*math.Sin(200*x) }, len(limits)},
		"a single peak does not":      {func(x float64) float64 { return 1 + 9*math.Max(0, 1-1000*math.Abs(x-0.9)) }, len(limits)},
		"shrinking is no leak":        {func(x float64) float64 { return 2 - x }, len(limits)},
		"a leak is none":              {func(x float64) float64 { return 1 + x }, 0},
		"5 % are too many goroutines": {func(x float64) float64 { return 1 + 0.1*x }, len(limits) - 2},
	} {
		t.Run(name, func(t *testing.T) {
			samples, length := samplesOf(test.curve)
			require.Len(t, flatNames(judge(samples, length)), test.flat)
		})
	}
}

func TestValuesThatWereNotReadDoNotCount(t *testing.T) {
	samples, length := samplesOf(func(float64) float64 { return 1 })
	for i := range samples {
		if i%6 != 0 {
			samples[i].LiveHeap = 0
		}
	}
	for _, f := range judge(samples, length) {
		require.InDelta(t, 1000, f.before, 0, f.name)
		require.InDelta(t, 1000, f.after, 0, f.name)
	}
}

func TestReportNamesWhatGrew(t *testing.T) {
	samples, length := samplesOf(func(x float64) float64 { return 1 + x })
	plan := planLoad(length, 31001, "/run/soak")
	text := report(plan, samples, judge(samples, length), []total{{"scrapes", 3, false}}, time.Unix(0, 0))
	require.Equal(t, len(limits), strings.Count(text, "**not flat**"))
	require.Contains(t, text, "run.sh 20m docs`")
	require.Contains(t, text, "512 streams")
	require.Contains(t, text, "| scrapes | 3 |")
	require.Contains(t, text, "| goroutines | 1375 | 1875 | +36.4 % |")
}

func TestChartIsWellFormed(t *testing.T) {
	samples, length := samplesOf(func(x float64) float64 { return x })
	text := chart(samples, length)
	var parsed struct {
		Lines []struct {
			Points string `xml:"points,attr"`
		} `xml:"polyline"`
	}
	require.NoError(t, xml.Unmarshal([]byte(text), &parsed))
	require.Len(t, parsed.Lines, 6)
	for _, l := range parsed.Lines {
		require.Len(t, strings.Fields(l.Points), len(samples)-1, "the first value is 0, which is none")
		require.NotContains(t, l.Points, "NaN")
	}
}

func TestOwnProcessIsRead(t *testing.T) {
	var s sample
	require.NoError(t, s.readProcess(os.Getpid()))
	require.Greater(t, s.RSS, 1e6)
	require.Greater(t, s.FDs, 2.0)
	seconds, err := cpuSeconds("12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20")
	require.NoError(t, err)
	require.InDelta(t, 2, seconds, 0)
	_, err = cpuSeconds("12 (a) S")
	require.Error(t, err)
}

func TestFilesAreCounted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.p.000000.jsonl.gz", "a.p.000001.jsonl.gz", "a.otelcol-fpm.lock"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("12345"), 0o600))
	}
	var s sample
	require.NoError(t, s.readFiles(dir))
	require.InDelta(t, 2, s.Files, 0)
	require.InDelta(t, 10, s.FileBytes, 0)
}

func TestTableHoldsEverySample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "soak.csv")
	rows, err := newTable(path)
	require.NoError(t, err)
	require.NoError(t, rows.add(&sample{At: 5 * time.Second, RSS: 1, LiveHeap: 2, Goroutines: 3, FDs: 4, CPU: 5.5, Messages: 6, Streams: 7, Files: 8, FileBytes: 9}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, rows.close())
	require.Equal(t, "seconds,rss_bytes,live_heap_bytes,goroutines,fds,cpu_seconds,messages,streams,files,file_bytes\n"+
		"5.0,1,2,3,4,5.5,6,7,8,9\n", string(text))
}
