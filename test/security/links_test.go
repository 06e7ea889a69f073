// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// trap is a folder in which somebody planted entries before the collector came,
// and what these lead to.
type trap struct {
	t      *testing.T
	root   string
	folder string // of the trace files
	victim string // a file outside of it
	ghost  string // nothing is there yet
}

func setTrap(t *testing.T) *trap {
	t.Helper()
	root := t.TempDir()
	trap := &trap{
		t: t, root: root, folder: filepath.Join(root, "traces"),
		victim: filepath.Join(root, "victim"), ghost: filepath.Join(root, "ghost"),
	}
	require.NoError(t, os.Mkdir(trap.folder, 0o750))
	require.NoError(t, os.WriteFile(trap.victim, []byte("precious"), 0o600))
	return trap
}

func (p *trap) base() string { return filepath.Join(p.folder, "fpm") }

func (p *trap) path(name string) string { return filepath.Join(p.folder, name) }

func (p *trap) link(name, target string) {
	p.t.Helper()
	require.NoError(p.t, os.Symlink(target, p.path(name)))
}

func segment(worker string, index int) string {
	return fmt.Sprintf("fpm.%s.%06d.jsonl.gz", worker, index)
}

// TestFIL_7_PlantedSegmentsAreNeverOpened has every kind of entry in the way.
func TestFIL_7_PlantedSegmentsAreNeverOpened(t *testing.T) {
	trap := setTrap(t)
	trap.link(segment("w", 0), trap.victim)
	trap.link(segment("w", 1), trap.ghost)
	require.NoError(t, os.Mkdir(trap.path(segment("w", 2)), 0o750))
	require.NoError(t, os.Link(trap.victim, trap.path(segment("w", 3))))
	require.NoError(t, unix.Mkfifo(trap.path(segment("w", 4)), 0o600))
	before := tree(t, trap.root)

	p := publish(t, loopback(t))
	c := harness.Start(t, pipeline(p.endpoint, trap.base()))
	p.waitSubscriber()
	p.pass("w")
	waitRows(c, 1)
	c.Stop()

	after := tree(t, trap.root)
	requireKept(t, before, after)
	require.NoFileExists(t, trap.ghost)
	requireOnlyTraceFiles(t, before, after, "traces")
	rows, torn := harness.ReadSegment(t, trap.path(segment("w", 5)))
	require.False(t, torn)
	require.Len(t, rows, 1)
}

// TestFIL_7_PlantedWhileItRuns plants the names that come next, between two rolls.
func TestFIL_7_PlantedWhileItRuns(t *testing.T) {
	trap := setTrap(t)
	p := publish(t, loopback(t))
	c := harness.Start(t, pipeline(p.endpoint, trap.base(), "roll_bytes: 1")) // a row a segment
	p.waitSubscriber()
	p.pass("w")
	waitRows(c, 1)
	trap.link(segment("w", 1), trap.victim)
	trap.link(segment("w", 2), trap.ghost)
	before := tree(t, trap.root)
	p.pass("w")
	waitRows(c, 2)
	c.Stop()

	after := tree(t, trap.root)
	requireKept(t, before, after)
	require.NoFileExists(t, trap.ghost)
	require.FileExists(t, trap.path(segment("w", 3)))
}

// TestFIL_41_TheActiveSegmentReplacedByALink needs a segment that was closed to
// save a descriptor and is opened again.
func TestFIL_41_TheActiveSegmentReplacedByALink(t *testing.T) {
	trap := setTrap(t)
	p := publish(t, loopback(t))
	c := harness.Start(t, pipeline(p.endpoint, trap.base(), "max_open_files: 1"))
	p.waitSubscriber()
	p.pass("w")
	waitRows(c, 1)
	p.pass("other") // closes that of w
	waitRows(c, 2)
	require.NoError(t, os.Rename(trap.path(segment("w", 0)), trap.path("moved")))
	trap.link(segment("w", 0), trap.victim)
	before := tree(t, trap.root)
	p.pass("w")
	waitRows(c, 3)
	c.Stop()

	requireKept(t, before, tree(t, trap.root))
	rows, _ := harness.ReadSegment(t, trap.path(segment("w", 1)))
	require.Len(t, rows, 1)
}

// TestFIL_43_PlantedLockOfTheBase: nothing is written through the link; the
// collector runs on, and writes when the link is gone (FIL-46).
func TestFIL_43_PlantedLockOfTheBase(t *testing.T) {
	for name, target := range map[string]func(*trap) string{
		"to a file": func(p *trap) string { return p.victim },
		"dangling":  func(p *trap) string { return p.ghost },
	} {
		t.Run(name, func(t *testing.T) {
			trap := setTrap(t)
			trap.link("fpm.otelcol-fpm.lock", target(trap))
			before := tree(t, trap.root)
			p := publish(t, loopback(t))
			c := harness.Start(t, pipeline(p.endpoint, trap.base()))
			p.waitSubscriber()
			p.pass("w")
			c.WaitLog("fpm.otelcol-fpm.lock")
			c.WaitSum("otelcol_fpm_receiver_records", nil, 1)
			require.Equal(t, before, tree(t, trap.root))

			require.NoError(t, os.Remove(trap.path("fpm.otelcol-fpm.lock")))
			waitRows(c, 1)
			c.Stop()
			require.NoFileExists(t, trap.ghost)
			require.Equal(t, before["victim"], tree(t, trap.root)["victim"])
		})
	}
}

// TestFIL_42_PlantedLockOfAProducer stops that producer and no other (FIL-61).
func TestFIL_42_PlantedLockOfAProducer(t *testing.T) {
	trap := setTrap(t)
	trap.link("fpm.w.000000.jsonl.lock", trap.ghost)
	before := tree(t, trap.root)
	p := publish(t, loopback(t))
	c := harness.Start(t, pipeline(p.endpoint, trap.base()))
	p.waitSubscriber()
	p.pass("w")
	p.pass("other")
	waitRows(c, 1)
	after := tree(t, trap.root)
	requireKept(t, before, after)
	require.NoFileExists(t, trap.ghost)
	require.Contains(t, after, "traces/"+segment("other", 0))
	require.NotContains(t, after, "traces/"+segment("w", 0))

	require.NoError(t, os.Remove(trap.path("fpm.w.000000.jsonl.lock")))
	waitRows(c, 2)
	c.Stop()
}

// TestFIL_45_PlantedProbes are found under the very process id of the collector.
func TestFIL_45_PlantedProbes(t *testing.T) {
	trap := setTrap(t)
	throughShell(t, fmt.Sprintf(`
ln -s %[1]s %[3]s/.fpm.write-probe-$$-0
ln -s %[2]s %[3]s/.fpm.write-probe-$$-1
ln    %[1]s %[3]s/.fpm.write-probe-$$-2`, quote(trap.victim), quote(trap.ghost), quote(trap.folder)))
	p := publish(t, loopback(t))
	c := harness.Start(t, pipeline(p.endpoint, trap.base()))
	p.waitSubscriber()
	p.pass("w")
	waitRows(c, 1)
	c.Stop()

	after := tree(t, trap.root)
	require.Contains(t, after, fmt.Sprintf("traces/.fpm.write-probe-%d-2", c.PID()), "what was planted is not deleted")
	require.NotContains(t, after, fmt.Sprintf("traces/.fpm.write-probe-%d-3", c.PID()), "its own is")
	require.NoFileExists(t, trap.ghost)
	text, err := os.ReadFile(trap.victim)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
}
