// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFIL_1_SegmentName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "dynamo-fpm.4192.000000.jsonl.gz", segmentName("dynamo-fpm.4192", 0))
	require.Equal(t, "dynamo-fpm.4192.999999.jsonl.gz", segmentName("dynamo-fpm.4192", 999999))
	require.Equal(t, "dynamo-fpm.4192.1000000.jsonl.gz", segmentName("dynamo-fpm.4192", 1000000))
	require.Equal(t, "dynamo-fpm.4192.18446744073709551615.jsonl.gz", segmentName("dynamo-fpm.4192", math.MaxUint64))
}

func TestFIL_2_BaseFromPath(t *testing.T) {
	t.Parallel()
	for path, first := range map[string]string{
		"/tmp/dynamo-fpm":                "/tmp/dynamo-fpm.4192.000000.jsonl.gz",
		"/tmp/dynamo-fpm.jsonl.gz":       "/tmp/dynamo-fpm.4192.000000.jsonl.gz",
		"/tmp/dynamo-fpm.jsonl":          "/tmp/dynamo-fpm.4192.000000.jsonl.gz",
		"/tmp/dynamo-fpm.jsonl.jsonl.gz": "/tmp/dynamo-fpm.jsonl.4192.000000.jsonl.gz",
		"/tmp/dynamo-fpm.gz":             "/tmp/dynamo-fpm.gz.4192.000000.jsonl.gz",
		"fpm":                            "fpm.4192.000000.jsonl.gz",
	} {
		base, err := BaseFromPath("\t" + path + " ") // trimmed (ENV-7)
		require.NoError(t, err, path)
		dir, name := splitBase(base)
		require.Equal(t, first, filepath.Join(dir, segmentName(name+"."+producerPart("4192"), 0)), path)
	}
}

func TestFIL_62_RejectedPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", " ", "\t\n", "/", "/tmp/", ".jsonl.gz", ".jsonl", "/tmp/.jsonl.gz", "a/.jsonl", "a\x00b", "/tmp/\x00"} {
		_, err := BaseFromPath(path)
		require.ErrorContains(t, err, "path", path)
	}
}

func TestFIL_3_ProducerPart(t *testing.T) {
	t.Parallel()
	for id, part := range map[string]string{
		"4192": "4192", "A-Z_9": "A-Z_9", "a/b": "a_b", "a.b": "a_b", "a b": "a_b", "wörk": "w_rk",
		"../../etc": "______etc", "tcp://127.0.0.1:20380": "tcp___127_0_0_1_20380", "": "unknown", "\xff\xfe": "__",
		"日本\x00": "___",
	} {
		require.Equal(t, part, producerPart(id), id)
	}
}

func TestFIL_4_LongProducerParts(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.Repeat("a", 128), producerPart(strings.Repeat("a", 128)))
	long := producerPart(strings.Repeat("a", 129))
	require.Equal(t, strings.Repeat("a", 119)+"-"+digest([]byte(strings.Repeat("a", 129)))[:8], long)
	require.NotEqual(t, producerPart(strings.Repeat("x", 299)+"1"), producerPart(strings.Repeat("x", 299)+"2"))
	require.Equal(t, strings.Repeat("_", 128), producerPart(strings.Repeat("ö", 128)), "characters, not bytes")
}

func FuzzProducerPart(f *testing.F) {
	f.Add("tcp://127.0.0.1:20380")
	f.Add(strings.Repeat("ö", 200))
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	f.Fuzz(func(t *testing.T, id string) {
		part := producerPart(id)
		require.Regexp(t, valid, part)
		producer, index, ok := parseFamilyName("base.x", segmentName("base.x."+part, 7))
		require.True(t, ok)
		require.Equal(t, part, producer)
		require.Equal(t, uint64(7), index)
	})
}

func TestFIL_35_Match(t *testing.T) {
	t.Parallel()
	const prefix = "dynamo-fpm.4192"
	for index, want := range map[string]uint64{
		"000000": 0, "000042": 42, "999999": 999999, "1000000": 1000000, "18446744073709551615": math.MaxUint64,
	} {
		got, ok := parseSegmentName(prefix, prefix+"."+index+".jsonl.gz")
		require.True(t, ok, index)
		require.Equal(t, want, got)
		require.Equal(t, prefix+"."+index+".jsonl.gz", segmentName(prefix, got))
	}
	for _, name := range []string{
		prefix + ".0000001.jsonl.gz", prefix + ".00001.jsonl.gz", prefix + ".18446744073709551616.jsonl.gz",
		prefix + ".+00001.jsonl.gz", prefix + ".-00001.jsonl.gz", prefix + ".00000a.jsonl.gz",
		prefix + ".٠٠٠٠٠١.jsonl.gz", prefix + "..jsonl.gz", prefix + ".jsonl.gz",
		prefix + ".000001.jsonl", prefix + ".000001.JSONL.GZ", prefix + ".000001.jsonl.gz.bak", prefix + ".000001.jsonl.lock",
		prefix + "_other.000001.jsonl.gz", "dynamo-fpm.41921.000001.jsonl.gz", "dynamo-fpm.x.4192.000001.jsonl.gz",
		"dynamo-fpm-4192.000001.jsonl.gz", ".dynamo-fpm.4192.000001.jsonl.gz", prefix + ".000001.000001.jsonl.gz",
	} {
		_, ok := parseSegmentName(prefix, name)
		require.False(t, ok, name)
	}
}

func TestFIL_37_FamilyNames(t *testing.T) {
	t.Parallel()
	producer, index, ok := parseFamilyName("dynamo-fpm", "dynamo-fpm.tcp___a_1.000012.jsonl.gz")
	require.True(t, ok)
	require.Equal(t, "tcp___a_1", producer)
	require.Equal(t, uint64(12), index)
	for _, name := range []string{
		"dynamo-fpm.000001.jsonl.gz", "dynamo-fpm..000001.jsonl.gz", "dynamo-fpm.a b.000001.jsonl.gz",
		"dynamo-fpm.x.y.000001.jsonl.gz", "dynamo-fpm2.x.000001.jsonl.gz", "dynamo-fpm.otelcol-fpm.lock",
		"dynamo-fpm.4192.000000.jsonl.lock",
	} {
		_, _, ok := parseFamilyName("dynamo-fpm", name)
		require.False(t, ok, name)
	}
}

// TestFR_28_NamesOfConsumers: the globs and the parse of known consumers find every segment and nothing else (CON-1, CON-2).
func TestFR_28_NamesOfConsumers(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.RollBytes = 1 })
	w.enqueue(run(1, 3)...)
	w.enqueue(passOf("tcp://10.0.0.7:20380", 1, 1), passOf("", 1, 1))
	w.shutdown()
	want := []string{
		"dynamo-fpm.4192.000000.jsonl.gz", "dynamo-fpm.4192.000001.jsonl.gz", "dynamo-fpm.4192.000002.jsonl.gz",
		"dynamo-fpm.tcp___10_0_0_7_20380.000000.jsonl.gz", "dynamo-fpm.unknown.000000.jsonl.gz",
	}
	require.Equal(t, want, baseNames(t, w.cfg.Base+".*.jsonl.gz"))
	require.Equal(t, want[:3], baseNames(t, w.cfg.Base+".4192.*.jsonl.gz"))

	digits := regexp.MustCompile("^[0-9]+$")
	var ready []string
	for _, name := range baseNames(t, filepath.Join(w.dir, "*")) {
		rest, ok := strings.CutPrefix(name, "dynamo-fpm.")
		rest, isSegment := strings.CutSuffix(rest, ".jsonl.gz")
		if i := strings.LastIndexByte(rest, '.'); ok && isSegment && i > 0 && digits.MatchString(rest[i+1:]) {
			ready = append(ready, name)
		}
	}
	require.Equal(t, want, ready)
}

func baseNames(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

func TestFIL_5_SharedPart(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	w.enqueue(passOf("a/b", 1, 1), passOf("a_b", 1, 1), passOf("a.b", 1, 1), passOf("a_b", 2, 2))
	w.shutdown()
	require.Equal(t, []string{"dynamo-fpm.a_b.000000.jsonl.gz"}, w.segments())
	var ids []string
	for _, line := range readRows(t, w.path("a_b", 0)) {
		ids = append(ids, parseRow(t, line).Event.Source.ProducerID)
	}
	require.Equal(t, []string{"a/b", "a_b", "a.b", "a_b"}, ids)
	require.Equal(t, 1, w.logs.FilterMessageSnippet("share the same trace files").Len())
}

// TestFIL_5_ROW_7_AnyRowOfAPush: not only the first row of a producer is looked at.
func TestFIL_5_ROW_7_AnyRowOfAPush(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Buffered, Flushed, Synced} {
		t.Run(durability.String(), func(t *testing.T) {
			t.Parallel()
			w := newRig(t, durable(durability, disk{}))
			for c := range int64(3) {
				nameless := passOf("a_b", 100+c, uint64(100+c))
				nameless.Source.Namespace = ""
				w.put(passOf("a/b", 1+c, uint64(1+c)), nameless)
			}
			w.shutdown()
			require.Equal(t, 1, w.logs.FilterMessageSnippet("share the same trace files").Len())
			require.Equal(t, 1, w.logs.FilterMessageSnippet("empty source field").Len())
		})
	}
}

func TestROW_7_OneWarningForAnEmptySource(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	nameless := pass(1, 1)
	nameless.Source.Namespace = ""
	w.enqueue(nameless, pass(2, 2), nameless)
	nameless.Source = pass(3, 3).Source
	nameless.Source.Component = ""
	w.enqueue(nameless, pass(4, 4), passOf("other", 1, 1))
	w.shutdown()
	require.Equal(t, 1, w.logs.FilterMessageSnippet("empty source field").Len())
}
