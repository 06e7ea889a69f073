// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSamplesAreReadWithTheirLabels(t *testing.T) {
	samples, err := parseSamples(`# HELP x y
# TYPE x counter
x_total{endpoint="tcp://h:1",reason="a\"b,c}"} 3
x{endpoint="tcp://h:2",reason="r",} 4 1700000000
plain 1.5e3
empty{} +Inf
`)
	require.NoError(t, err)
	require.Len(t, samples, 4)
	require.Equal(t, 7.0, samples.Sum("x", nil))                        //nolint:testifylint // exact
	require.Equal(t, 3.0, samples.Sum("x", Labels{"reason": `a"b,c}`})) //nolint:testifylint // exact
	require.Equal(t, 1500.0, samples.Sum("plain", nil))                 //nolint:testifylint // exact
	require.Equal(t, map[string]float64{"tcp://h:1": 3, "tcp://h:2": 4}, samples.By("x", "endpoint", nil))
	require.Zero(t, samples.Sum("absent", nil))
	_, err = parseSamples("x{a=b} 1\n")
	require.Error(t, err)
}

func member(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

const line = `{"timestamp":5,"event":{"schema":"s","source":{"namespace":"n","component":"c","producer_id":"p"},` +
	`"capture_mode":"full","observed_at_unix_ms":7,"fpm":{"wall_time":0.10,"b":[]}}}` + "\n"

func TestSegmentIsReadUpToATornTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.p.000000.jsonl.gz")
	whole := append(member(t, line+line), member(t, line)...)
	for cut := range len(whole) + 1 {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		rows, torn := ReadSegment(t, path)
		first := len(member(t, line+line))
		switch {
		case cut == 0:
			require.Empty(t, rows)
			require.False(t, torn)
		case cut < first:
			require.Empty(t, rows)
			require.True(t, torn)
		case cut == first || cut == len(whole):
			require.False(t, torn)
		default:
			require.Len(t, rows, 2)
			require.True(t, torn)
		}
	}
	rows := Rows(t, filepath.Join(filepath.Dir(path), "x"))
	require.Len(t, rows, 3)
	require.Equal(t, Row{
		File: path, Timestamp: 5, Schema: "s", Namespace: "n", Component: "c", ProducerID: "p", CaptureMode: "full",
		ObservedMS: 7, FPM: `{"wall_time":0.10,"b":[]}`,
	}, rows[0])
}

func TestSegmentsAreInIndexOrder(t *testing.T) {
	dir := t.TempDir()
	names := []string{"b.p.000002.jsonl.gz", "b.p.000010.jsonl.gz", "b.p.1000000.jsonl.gz", "b.q.000000.jsonl.gz"}
	for _, name := range append(names, "b.otelcol-fpm.lock", "other.p.000000.jsonl.gz") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	var got []string
	for _, path := range Segments(t, filepath.Join(dir, "b")) {
		got = append(got, filepath.Base(path))
	}
	require.Equal(t, names, got)
}

func TestFreePortsDiffer(t *testing.T) {
	first, second := FreePorts(t, 3), FreePorts(t, 3)
	require.GreaterOrEqual(t, max(first-second, second-first), 3)
}
