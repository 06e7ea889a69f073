// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

func TestFIL_14_MemberHeader(t *testing.T) {
	t.Parallel()
	for level := 1; level <= 9; level++ {
		member := newCompressor(level).appendMember(nil, fpmtest.GoldenRow())
		xfl := byte(0)
		switch level {
		case 1:
			xfl = 4
		case 9:
			xfl = 2
		}
		require.Equal(t, []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, xfl, 255}, member[:10], level)
	}
}

// TestFIL_15_EveryLevel: the standard library reads every level, whatever the rows (FIL-20: sizes of the golden row).
func TestFIL_15_EveryLevel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for level := 1; level <= 9; level++ {
		c := newCompressor(level)
		golden := c.appendMember(nil, fpmtest.GoldenRow())
		require.LessOrEqual(t, len(golden), 360, level)
		var file, want []byte
		for range 10 {
			rows := bytes.Repeat(fpmtest.GoldenRow(), random.IntN(40)+1)
			noise := make([]byte, random.IntN(8_000))
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			rows = append(rows, noise...)
			want = append(want, rows...)
			file = c.appendMember(file, rows)
		}
		z, err := gzip.NewReader(bytes.NewReader(file))
		require.NoError(t, err)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), level)
	}
}

func TestFIL_15_SameBytesAgain(t *testing.T) {
	t.Parallel()
	c := newCompressor(3)
	first := c.appendMember(nil, fpmtest.GoldenRow())
	c.appendMember(nil, bytes.Repeat([]byte("something else "), 10_000))
	require.Equal(t, first, c.appendMember([]byte{}, fpmtest.GoldenRow()))
}

func TestFIL_17_FlushBySize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, func(s *setup) { s.cfg.FlushInterval = time.Hour })
		for c := range int64(1588) {
			w.enqueue(sized(c+1, 660))
		}
		synctest.Wait()
		require.Zero(t, w.obs.flushes())
		w.enqueue(sized(1589, 660))
		synctest.Wait()
		require.Equal(t, 1, w.obs.flushes())
		require.Equal(t, 1_048_740, w.obs.rawBytes())
		w.shutdown()
	})
}

// TestFIL_16_OneWrite: a member reaches the file in one write call, and each flush is one member.
func TestFIL_16_OneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk = d })
		for c := range int64(4) {
			w.enqueue(run(c*10, c*10+9)...)
			time.Sleep(3 * time.Second)
		}
		require.Equal(t, 4+1, d.count("write"), "four members and the probe")
		require.Len(t, members(t, w.path("4192", 0)), 4)
		require.Equal(t, 4, w.obs.flushes())
		w.shutdown()
	})
}

// TestFR_23_OneRowIsFlushedInTime: FIL-18, CON-3.
func TestFR_23_OneRowIsFlushedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t)
		time.Sleep(1234 * time.Millisecond)
		w.enqueue(pass(1, 1))
		time.Sleep(999 * time.Millisecond)
		require.Empty(t, w.segments())
		time.Sleep(501 * time.Millisecond)
		require.Equal(t, []int64{1}, w.counters("4192", 0))
		w.shutdown()
	})
}

// TestFIL_18_LateTicksDelay: a flush that takes long delays the next one, with no burst behind it.
func TestFIL_18_LateTicksDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk = d })
		d.set(func(op, path string) error {
			if op == "write" && strings.HasSuffix(path, segmentSuffix) {
				time.Sleep(7 * time.Second)
			}
			return nil
		})
		for c := range int64(16) {
			w.enqueue(pass(c, uint64(c)))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		require.Equal(t, sequence(0, 15), w.counters("4192", 0))
		require.Len(t, members(t, w.path("4192", 0)), 2)
		w.shutdown()
	})
}

// TestPERF_24_OneTickOneMember: all rows of a sampler's tick for one producer share a member.
func TestPERF_24_OneTickOneMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t)
		time.Sleep(900 * time.Millisecond)
		for rank := range int64(8) {
			r := pass(1, 1)
			r.DPRank = rank
			w.enqueue(r)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		require.Len(t, members(t, w.path("4192", 0)), 1)
		w.shutdown()
	})
}

// TestFIL_13_ActiveFileIsReadableAtAnyMoment copies the active file while it is being written and reads it strictly.
func TestFIL_13_ActiveFileIsReadableAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.FlushInterval, s.cfg.FlushBytes = time.Millisecond, 5000 })
	var writers sync.WaitGroup
	writers.Go(func() {
		for c := range int64(1500) {
			_ = w.Enqueue([]Record{pass(c, uint64(c))})
			if c%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	looks := 0
	for w.obs.written() < 1500 {
		data, err := os.ReadFile(w.path("4192", 0))
		if err != nil || len(data) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		looks++
		got := counters(t, decodeRows(t, data))
		require.Equal(t, sequence(0, int64(len(got)-1)), got)
	}
	writers.Wait()
	require.Positive(t, looks)
	w.shutdown()
}

// TestFR_21_OtherReaders: gzip -t, zcat and Python read closed segments and the active one (CON-10). It starts processes,
// which hold the locks of other tests for a moment: so it runs before the parallel ones.
func TestFR_21_OtherReaders(t *testing.T) {
	w := newRig(t, func(s *setup) { s.cfg.FlushBytes, s.cfg.RollBytes = 1500, 20_000 })
	w.enqueue(run(1, 100)...)
	w.eventually(func() bool { return w.obs.written() == 100 }, "flushed")
	segments := w.segments()
	require.Greater(t, len(segments), 1)
	const python = `
import gzip, json, sys
for path in sys.argv[1:]:
    with gzip.open(path, "rt", encoding="utf-8") as f:
        for line in f:
            print(json.loads(line)["event"]["fpm"]["counter_id"])`
	for _, name := range segments {
		path := filepath.Join(w.dir, name)
		want := readRows(t, path)
		command(t, nil, "gzip", "-t", path)
		if text, ok := command(t, nil, "zcat", path); ok {
			require.Equal(t, strings.Join(want, "\n")+"\n", text)
		}
		if text, ok := command(t, nil, "python3", "-c", python, path); ok {
			require.Len(t, strings.Fields(text), len(want))
		}
	}
	w.shutdown()
}

// command runs a tool, which need not be installed unless CI_INTEROP_REQUIRED=1.
func command(t *testing.T, env []string, name string, args ...string) (stdout string, installed bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		require.NotEqual(t, "1", os.Getenv("CI_INTEROP_REQUIRED"), "%s is missing", name)
		return "", false
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out), true
}
