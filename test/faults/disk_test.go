// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// diskRecovery is how soon rows must be written once the disk works again: the
// longest back-off of the writer (FIL-54), and a few seconds for the machine.
const diskRecovery = 35 * time.Second

// eager is a publisher whose first message waits for the collector.
func eager(endpoint string) Engine {
	return Engine{Bind: endpoint, WorkerID: "w", Rate: 200, Wait: true}
}

// rowsWritten is the exporter's own count.
func (s *stage) rowsWritten() int { return int(s.Metrics().Sum(metricRows, nil)) }

// waitRows waits for n further rows.
func (s *stage) waitRows(n int) time.Duration {
	s.t.Helper()
	start, before := time.Now(), s.rowsWritten()
	harness.Eventually(s.t, func() bool { return s.rowsWritten() >= before+n }, "%d rows and no more", before)
	return time.Since(start)
}

// waitErrors waits until the exporter has counted an error of an operation.
func (s *stage) waitErrors(op string) {
	s.t.Helper()
	before := s.Metrics().Sum(metricErrors, harness.Labels{"op": op})
	harness.Eventually(s.t, func() bool {
		return s.Metrics().Sum(metricErrors, harness.Labels{"op": op}) > before
	}, "no error of %s is counted", op)
}

// mountSmall puts a file system of a few MiB into the test's folder.
func mountSmall(t *testing.T) string {
	t.Helper()
	harness.NeedRoot(t, "mounts a tmpfs of 4 MiB")
	dir := t.TempDir()
	harness.Unable(t, "mounts a tmpfs of 4 MiB", syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill takes all space that is left and gives the file that has it.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }() // its last write has failed
	block := make([]byte, 4096)
	for {
		if _, err = file.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return path
		}
	}
}

// TestDiskFull_FR30 fills the disk and empties it again, with each durability.
// Another exporter on the same pipeline goes on meanwhile.
//
// Once the collector's own queue before the trace exporter is full, too, that
// queue refuses, and the receiver offers the batch again, to all exporters: the
// other one waits as well, and gets that batch once for each attempt. Nothing is
// lost.
func TestDiskFull_FR30(t *testing.T) {
	for name, tc := range map[string]struct {
		exporter string
		refuses  bool // its queue is soon full
	}{
		"buffered":          {exporter: "flush_interval: 100ms"},
		"synced":            {exporter: "durability: synced"},
		"synced_queue_full": {exporter: "durability: synced\n    sending_queue: {queue_size: 20}", refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "buffered" {
				harness.Long(t)
			}
			dir := mountSmall(t)
			b := newBackend(t)
			endpoint := address(t)
			p := eager(endpoint).start(t)
			s := newStage(t, setting{
				endpoints: []string{endpoint}, base: filepath.Join(dir, "rows"), exporter: tc.exporter,
				exporters: b.exporter(), pipeline: "fpm_trace, otlp_http",
			})
			s.waitRows(100)
			before := s.usage()
			filler := fill(t, dir)
			s.waitErrors("write")
			if tc.refuses {
				s.WaitLog("sending queue is full")
			} else {
				taken := len(b.arrivals())
				harness.Eventually(t, func() bool { return len(b.arrivals()) >= taken+100 }, "the other exporter is stuck, too")
			}
			time.Sleep(pick(time.Second, 10*time.Second))
			require.NoError(t, os.Remove(filler))
			took := s.waitRows(1)
			require.Less(t, took, diskRecovery)
			s.waitRows(100)
			s.requireNoGrowth(before)
			s.stopPublisher(p)
			account := s.close(p.sent(), true)
			require.Empty(t, account.Totals.Dropped)
			other := requireClosed(t, accounting.Evidence{Sent: p.sent(), Arrived: b.arrivals(), Redelivery: tc.refuses})
			require.Equal(t, len(p.sent()), other.Fates[accounting.Written])
			t.Logf("rows %v after there was space", took)
		})
	}
}

// TestDiskFullQueueFull_FR30: more comes than the exporter's queue of 10,240 rows
// holds. What goes is counted.
func TestDiskFullQueueFull_FR30(t *testing.T) {
	harness.Long(t)
	dir := mountSmall(t)
	endpoint := address(t)
	p := Engine{Bind: endpoint, WorkerID: "w", Rate: 3000, Count: 14000, Wait: true}.start(t)
	s := prepare(t, setting{endpoints: []string{endpoint}, base: filepath.Join(dir, "rows")})
	filler := fill(t, dir)
	s.run()
	before := s.usage()
	p.done()
	harness.Eventually(t, func() bool { return s.received() == 14000 }, "not all messages arrive")
	harness.Eventually(t, func() bool { return s.Metrics().Sum(metricRowsDropped, nil) > 0 }, "nothing is dropped")
	require.NoError(t, os.Remove(filler))
	require.Less(t, s.waitRows(1), diskRecovery)
	s.settled()
	s.requireNoGrowth(before)
	account := s.close(p.sent(), true)
	require.Positive(t, account.Totals.Dropped["trace exporter, queue_full"])
	require.Len(t, account.Totals.Dropped, 1)
}

// withoutOverride starts the collectors of this test without the right of root to
// write where the mode of a folder forbids it.
func withoutOverride(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		harness.Unable(t, "drops capabilities", exec.CommandContext(t.Context(), "setpriv", "--bounding-set=-dac_override", "true").Run())
		wrap(t, fmt.Sprintf("exec setpriv --inh-caps=-dac_override,-dac_read_search --bounding-set=-dac_override,-dac_read_search '%s' \"$@\"\n", harness.Binary(t)))
	}
}

// TestDirectoryNotWritable_FR30: the folder is read-only at the start, and once
// more when the next segment is due.
func TestDirectoryNotWritable_FR30(t *testing.T) {
	harness.Long(t)
	withoutOverride(t)
	dir := t.TempDir()
	mode := func(mode os.FileMode) { require.NoError(t, os.Chmod(dir, mode)) }
	mode(0o500)
	t.Cleanup(func() { mode(0o700) })
	endpoint := address(t)
	p := eager(endpoint).start(t)
	s := newStage(t, setting{
		endpoints: []string{endpoint}, base: filepath.Join(dir, "rows"),
		exporter: "flush_interval: 100ms\n    roll_bytes: 50000",
	})
	s.waitReceived(100)
	require.Zero(t, s.rowsWritten())
	before := s.usage()
	mode(0o700)
	first := s.waitRows(1)
	require.Less(t, first, diskRecovery)
	s.waitRows(200)
	mode(0o500)
	s.waitErrors("create")
	time.Sleep(pick(time.Second, 10*time.Second))
	mode(0o700)
	second := s.waitRows(1)
	require.Less(t, second, diskRecovery)
	s.waitRows(100)
	s.stopPublisher(p)
	before.files++ // the segment
	s.requireNoGrowth(before)
	account := s.close(p.sent(), true)
	require.Empty(t, account.Totals.Dropped)
	t.Logf("rows %v and %v after the folder was writable", first, second)
}

// held is an open trace file, which can be read when its name is gone.
type held struct{ *os.File }

func hold(t *testing.T, path string) held {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return held{file}
}

func (h held) rows(t *testing.T) []accounting.Arrival {
	t.Helper()
	rows, torn := harness.ReadSegment(t, fmt.Sprintf("/proc/self/fd/%d", h.Fd()))
	require.False(t, torn)
	return arrivals(rows)
}

// TestDeletedFromOutside deletes the active file, and the whole folder: at most
// the rows in what was deleted are lost (FIL-56), and here even these are known,
// because the test holds the files open.
func TestDeletedFromOutside(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"file":      os.Remove,
		"directory": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "file" {
				harness.Long(t)
			}
			endpoint := address(t)
			p := eager(endpoint).start(t)
			s := newStage(t, setting{endpoints: []string{endpoint}, base: filepath.Join(t.TempDir(), "folder", "rows")})
			s.waitRows(100)
			before := s.usage()
			var deleted []held
			for range brief(1, pick(2, 10)) {
				paths := harness.Segments(t, s.base)
				active := paths[len(paths)-1]
				for _, path := range paths {
					if name == "directory" || path == active {
						deleted = append(deleted, hold(t, path))
					}
				}
				require.NoError(t, remove(active))
				took := s.waitRows(1) // may still have gone to the deleted file
				require.Less(t, took, diskRecovery)
				harness.Eventually(t, func() bool {
					now := harness.Segments(t, s.base)
					return len(now) > 0 && now[len(now)-1] != active
				}, "no new file")
				s.waitRows(20)
			}
			s.stopPublisher(p)
			s.requireNoGrowth(before)
			telemetry := s.settled()
			var found []accounting.Arrival
			for _, file := range deleted {
				found = append(found, file.rows(t)...)
			}
			lost := len(found)
			found = append(found, s.rows()...)
			requireClosed(t, accounting.Evidence{Sent: p.sent(), Arrived: found, Telemetry: telemetry, TraceFiles: true, Unbroken: true})
			t.Logf("%d rows were in what was deleted, %d are left", lost, len(found)-lost)
			s.Stop()
			s.RequireNoPanic()
		})
	}
}

// TestPrunedFromOutside lets another process keep only the two newest segments,
// while the exporter keeps three: neither stumbles over the other.
func TestPrunedFromOutside(t *testing.T) {
	harness.Long(t)
	endpoint := address(t)
	p := eager(endpoint).start(t)
	s := newStage(t, setting{
		endpoints: []string{endpoint},
		exporter:  "flush_interval: 100ms\n    roll_bytes: 50000\n    max_segments: 3",
	})
	// A second name for each segment keeps its rows whoever deletes the first.
	archive := filepath.Join(t.TempDir(), "rows")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go prune(s.base, archive, stop, stopped)
	s.waitRows(100)
	before := s.usage()
	s.waitRows(pick(1500, 6000))
	s.requireNoGrowth(before)
	s.stopPublisher(p)
	telemetry := s.settled()
	close(stop)
	<-stopped
	rows := arrivals(harness.Rows(t, archive))
	requireClosed(t, accounting.Evidence{Sent: p.sent(), Arrived: rows, Telemetry: telemetry, TraceFiles: true, Unbroken: true})
	require.Zero(t, telemetry.Sum(metricErrors, nil))
	t.Logf("%d segments, %d left", len(harness.Segments(t, archive)), len(harness.Segments(t, s.base)))
	s.Stop()
	s.RequireNoPanic()
}

// prune does until it is stopped what a cron job does.
func prune(base, archive string, stop, stopped chan struct{}) {
	defer close(stopped)
	for {
		paths, _ := filepath.Glob(base + ".*.jsonl.gz") // six digits: in index order
		for i, path := range paths {
			_ = os.Link(path, archive+strings.TrimPrefix(path, base)) // may be there, or the segment gone
			if i < len(paths)-2 {
				_ = os.Remove(path)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestTwoCollectorsOnOnePath: the second one waits, loses nothing, and takes over
// when the first one ends.
func TestTwoCollectorsOnOnePath(t *testing.T) {
	harness.Long(t)
	base := filepath.Join(t.TempDir(), "rows")
	var publishers []*process
	var stages []*stage
	for i := range 2 {
		engine := eager(address(t))
		engine.WorkerID = fmt.Sprintf("w%d", i)
		publishers = append(publishers, engine.start(t))
		stages = append(stages, newStage(t, setting{endpoints: []string{engine.Bind}, base: base}))
		stages[i].waitReceived(100)
	}
	first, second := stages[0], stages[1]
	first.waitRows(200)
	before := []usage{first.usage(), second.usage()}
	require.Zero(t, second.rowsWritten())
	second.WaitLog("rows.otelcol-fpm.lock")
	require.Positive(t, second.Metrics().Sum(metricErrors, harness.Labels{"op": "lock"}))

	first.stopPublisher(publishers[0])
	ofFirst := func(row harness.Row) bool { return row.ProducerID == "w0" }
	account := requireClosed(t, accounting.Evidence{
		Sent: publishers[0].sent(), Arrived: arrivals(filter(harness.Rows(t, base), ofFirst)),
		Telemetry: first.settled(), TraceFiles: true, Unbroken: true,
	})
	require.Empty(t, account.Totals.Dropped)
	first.requireNoGrowth(before[0])
	first.Stop()
	first.RequireNoPanic()
	took := second.waitRows(1)
	require.Less(t, took, diskRecovery)
	second.stopPublisher(publishers[1])
	second.requireNoGrowth(before[1])
	account = requireClosed(t, accounting.Evidence{
		Sent: publishers[1].sent(), Arrived: arrivals(filter(harness.Rows(t, base), func(row harness.Row) bool { return !ofFirst(row) })),
		Telemetry: second.settled(), TraceFiles: true, Unbroken: true,
	})
	require.Empty(t, account.Totals.Dropped)
	second.Stop()
	second.RequireNoPanic()
	t.Logf("the second one writes %v after the end of the first", took)
}

func filter(rows []harness.Row, keep func(harness.Row) bool) (kept []harness.Row) {
	for _, row := range rows {
		if keep(row) {
			kept = append(kept, row)
		}
	}
	return kept
}
