// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Set in the environment of a child process, which then writes until it is killed.
const (
	childBase       = "FPM_TEST_CHILD_BASE"
	childDurability = "FPM_TEST_CHILD_DURABILITY"
)

// TestFIL_57_Killed: after SIGKILL no row is missing whose push had returned nil, and every complete member is readable. It
// starts processes, as TestFR_21_OtherReaders does.
func TestFIL_57_Killed(t *testing.T) {
	if os.Getenv(childBase) != "" {
		writeUntilKilled(t)
		return
	}
	for _, durability := range []Durability{Flushed, Synced} {
		t.Run(durability.String(), func(t *testing.T) {
			t.Parallel()
			base := filepath.Join(t.TempDir(), "dynamo-fpm")
			acknowledged := killChild(t, base, durability, 40)
			w := newRig(t, func(s *setup) { s.cfg.Base = base })
			data, err := os.ReadFile(w.path("4192", 0))
			require.NoError(t, err)
			rows := counters(t, wholeRows(t, data))
			require.GreaterOrEqual(t, int64(len(rows)), acknowledged)
			require.Equal(t, sequence(1, int64(len(rows))), rows)

			w.enqueue(pass(1, 1)) // the lock went with the process
			w.shutdown()
			require.Equal(t, []int64{1}, w.counters("4192", 1))
			after, err := os.ReadFile(w.path("4192", 0))
			require.NoError(t, err)
			require.Equal(t, data, after)
		})
	}
}

// killChild lets a child write some rows, kills it and returns the last counter that it acknowledged.
func killChild(t *testing.T, base string, durability Durability, rows int) (last int64) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFIL_57_Killed$")
	child.Env = append(os.Environ(), childBase+"="+base, childDurability+"="+durability.String())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		counter, err := strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
		last = counter
		if seen == rows {
			require.NoError(t, child.Process.Kill()) // the rest of what it said is still read
		}
	}
	require.Error(t, child.Wait(), "killed")
	require.GreaterOrEqual(t, last, int64(rows))
	return last
}

func writeUntilKilled(t *testing.T) {
	t.Helper()
	durability, err := ParseDurability(os.Getenv(childDurability))
	require.NoError(t, err)
	w := newRig(t, func(s *setup) { s.cfg.Base, s.cfg.Durability = os.Getenv(childBase), durability })
	for c := int64(1); ; c++ {
		w.put(pass(c, uint64(c)))
		fmt.Println(c)
	}
}
