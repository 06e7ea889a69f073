// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tear makes writes to segments put only the first n bytes on the disk.
func tear(n int, err error) func(path string, length int) (int, error, bool) {
	return func(path string, length int) (int, error, bool) {
		return min(n, length), err, strings.HasSuffix(path, segmentSuffix)
	}
}

// newSeries is a series without a writer, for what has to be tried at every byte.
func newSeries(t *testing.T, d *faultDisk, synced bool) (*series, *recorder) {
	t.Helper()
	obs := newRecorder()
	s := &series{
		disk: d, handles: &handles{limit: 1, obs: obs}, obs: obs, dir: t.TempDir(), prefix: "fpm.4192", synced: synced,
		replaced: func(err error) { require.NoError(t, err) },
		left:     func() {},
		confirm:  func() error { return nil },
	}
	s.list = func() ([]foundSegment, error) { return newListings(d, s.dir, "fpm").of("4192") }
	require.NoError(t, s.locate())
	return s, obs
}

// TestFIL_52_TornAtEveryByte: wherever a write breaks off, the file ends with the last complete member again. With failing
// truncation the segment is given up (FIL-53).
func TestFIL_52_TornAtEveryByte(t *testing.T) {
	t.Parallel()
	c := newCompressor(DefaultCompressionLevel)
	var text [3][]byte
	var member [3][]byte
	for i := range member {
		record := pass(int64(i), 1)
		text[i] = appendRecord(appendRowHead(nil, 2000), &record)
		member[i] = c.appendMember(nil, text[i])
	}
	for _, truncates := range []bool{true, false} {
		d := newFaultDisk()
		s, obs := newSeries(t, d, false)
		for n := range len(member[1]) + 1 {
			s.roll()
			torn := s.path()
			require.NoError(t, s.append(member[0]))
			d.setTakes(tear(n, errIO))
			if !truncates {
				d.set(failing(errIO, "truncate"))
			}
			var failure *opError
			require.ErrorAs(t, s.append(member[1]), &failure)
			require.Equal(t, OpWrite, failure.op)
			d.set(nil)
			d.setTakes(nil)
			content, err := os.ReadFile(torn)
			require.NoError(t, err)
			want := member[0]
			if !truncates {
				want = slices.Concat(member[0], member[1][:n])
			}
			require.True(t, bytes.Equal(want, content), n)
			require.Equal(t, truncates, torn == s.path())
			require.NoError(t, s.append(member[1]))
			require.NoError(t, s.append(member[2]))
			content, err = os.ReadFile(s.path())
			require.NoError(t, err)
			rows := string(text[1]) + string(text[2])
			if truncates {
				rows = string(text[0]) + rows
			}
			require.Equal(t, rows, strings.Join(decodeRows(t, content), "\n")+"\n")
		}
		s.close()
		require.Zero(t, s.handles.open)
		if truncates {
			require.Zero(t, obs.fails(OpTruncate))
		}
	}
}

// TestFIL_53_TornThroughTheWriter: the same through everything, at some offsets: every row comes once.
func TestFIL_53_TornThroughTheWriter(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"none", "truncate"} {
		synctest.Test(t, func(t *testing.T) {
			d := newFaultDisk()
			w := newRig(t, func(s *setup) { s.disk = d })
			producers := 0
			for n := 0; n < 400; n += 50 {
				producer := fmt.Sprint("p", n)
				producers++
				w.enqueue(passOf(producer, 1, 1))
				time.Sleep(2 * time.Second)
				d.setTakes(tear(n, errIO))
				d.set(failing(errIO, op))
				w.enqueue(passOf(producer, 2, 2))
				time.Sleep(1500 * time.Millisecond)
				require.Equal(t, producers, w.obs.fails(OpWrite))
				require.Error(t, w.obs.status())
				d.set(nil)
				d.setTakes(nil)
				w.enqueue(passOf(producer, 3, 3))
				time.Sleep(5 * time.Second)
				require.NoError(t, w.obs.status())
				require.Equal(t, 3*producers, w.obs.written())
				if op == "none" {
					require.Equal(t, sequence(1, 3), w.counters(producer, 0))
				} else {
					require.Equal(t, sequence(2, 3), w.counters(producer, 1))
				}
			}
			w.shutdown()
		})
	}
}

// TestFR_30_DiskFullAndBack: FIL-54, FIL-55, FIL-27: 30 s without space, then everything goes on by itself.
func TestFR_30_DiskFullAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk, s.limits.queueRows = d, 20 })
		w.enqueue(run(1, 5)...)
		time.Sleep(2 * time.Second)
		d.setTakes(tear(100, errNoSpace))
		for c := range int64(30) {
			w.enqueue(pass(c+6, uint64(c+6)))
			time.Sleep(time.Second)
		}
		require.ErrorIs(t, w.obs.status(), errNoSpace)
		require.ErrorContains(t, w.obs.status(), w.path("4192", 0))
		require.Equal(t, 5, w.obs.fails(OpWrite), "after 1, 2, 4, 8 and 16 s")
		require.Equal(t, sequence(1, 5), w.counters("4192", 0), "no garbage")
		dropped := w.obs.drops(DropQueueFull)
		d.setTakes(nil)
		time.Sleep(40 * time.Second)
		w.enqueue(pass(100, 100))
		time.Sleep(2 * time.Second)
		got := w.counters("4192", 0)
		require.Len(t, got, 36-dropped, "what was not dropped is there, once")
		require.Equal(t, sequence(1, 6), got[:6], "the batch that failed came first")
		require.Equal(t, sequence(16, 35), got[len(got)-21:len(got)-1], "then the newest of the queue")
		require.NoError(t, w.obs.status())
		require.Len(t, w.obs.reported(), 2)
		require.Equal(t, 1, w.logs.FilterMessageSnippet("Rows can't be written").Len())
		require.Equal(t, 1, w.logs.FilterMessageSnippet("Rows are written again").Len())
		require.Equal(t, 36, w.obs.written()+dropped)
		w.shutdown()
	})
}

// TestFIL_55_CreateFails: no segment can be created for a while.
func TestFIL_55_CreateFails(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EMFILE, syscall.EIO} {
		synctest.Test(t, func(t *testing.T) {
			d := newFaultDisk()
			d.set(failing(errno, "create"))
			w := newRig(t, func(s *setup) { s.disk = d })
			w.enqueue(run(1, 3)...)
			time.Sleep(10 * time.Second)
			require.ErrorIs(t, w.obs.status(), errno)
			require.Empty(t, w.segments())
			d.set(nil)
			time.Sleep(10 * time.Second)
			require.Equal(t, sequence(1, 3), w.counters("4192", 0))
			require.NoError(t, w.obs.status())
			w.shutdown()
		})
	}
}

// TestFIL_6_FirstWriteFails: the segment that was made for it does not stay behind as an empty file.
func TestFIL_6_FirstWriteFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		d.setTakes(tear(50, errNoSpace))
		w := newRig(t, func(s *setup) { s.disk = d })
		w.enqueue(pass(1, 1))
		time.Sleep(10 * time.Second)
		require.Empty(t, w.segments())
		require.Zero(t, w.obs.opens())
		d.setTakes(nil)
		time.Sleep(10 * time.Second)
		require.Equal(t, []int64{1}, w.counters("4192", 0))
		require.Equal(t, 1, w.obs.opens())
		w.shutdown()
	})
}

// TestFIL_27_FailureAtARoll: the roll waits for the batch of the old segment.
func TestFIL_27_FailureAtARoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk, s.cfg.RollBytes = d, 1320 })
		w.enqueue(sized(1, 660))
		synctest.Wait()
		d.setTakes(tear(10, errIO))
		w.enqueue(sized(2, 660), sized(3, 660), sized(4, 660))
		time.Sleep(5 * time.Second)
		require.Empty(t, w.segments())
		d.setTakes(nil)
		time.Sleep(10 * time.Second)
		require.Equal(t, sequence(1, 2), w.counters("4192", 0))
		require.Equal(t, int64(3), w.counters("4192", 1)[0])
		w.shutdown()
	})
}

// TestFIL_56_ChangedFromOutside: also for a segment whose handle was closed meanwhile (FIL-41).
func TestFIL_56_ChangedFromOutside(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Remove(path))
		},
		"renamed": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Rename(path, path+".bak"))
		},
		"replaced": func(t *testing.T, path string) {
			t.Helper()
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.Rename(path, path+".bak"))
			writeFile(t, path, string(content))
		},
		"truncated": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Truncate(path, 10))
		},
		"longer": func(t *testing.T, path string) {
			t.Helper()
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString("x")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
		"a link": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Rename(path, path+".bak"))
			require.NoError(t, os.Symlink(path+".bak", path))
		},
		"a directory": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireNextIndex(t, change)
		})
	}
}

// requireNextIndex expects rows to go on in the next segment after change has been at the active one.
func requireNextIndex(t *testing.T, change func(t *testing.T, path string)) {
	t.Helper()
	for _, evicted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newRig(t, func(s *setup) { s.cfg.MaxOpenFiles = 1 })
			w.enqueue(run(1, 2)...)
			time.Sleep(2 * time.Second)
			if evicted {
				w.enqueue(passOf("other", 1, 1))
				time.Sleep(2 * time.Second)
			}
			change(t, w.path("4192", 0))
			w.enqueue(run(3, 4)...)
			time.Sleep(2 * time.Second)
			w.enqueue(run(5, 6)...)
			time.Sleep(2 * time.Second)
			require.Equal(t, sequence(3, 6), w.counters("4192", 1))
			require.Equal(t, 1, w.obs.fails(OpReplaced))
			require.Equal(t, 1, w.logs.FilterMessageSnippet("changed from outside").Len())
			require.Empty(t, w.obs.reported())
			w.shutdown()
		})
	}
}

// TestFIL_55_DirectoryIsRemoved: somebody tidied up between two runs of a load test.
func TestFIL_55_DirectoryIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, func(s *setup) { s.cfg.Base = filepath.Join(filepath.Dir(s.cfg.Base), "run", "fpm") })
		w.enqueue(pass(1, 1))
		time.Sleep(2 * time.Second)
		require.NoError(t, os.RemoveAll(w.dir))
		w.enqueue(pass(2, 2))
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{2}, w.counters("4192", 1))
		w.shutdown()
	})
}

// TestFR_25_CutAnywhere: FIL-57, FIL-11: after a crash the old file stays as it is, and all its complete members readable.
func TestFR_25_CutAnywhere(t *testing.T) {
	t.Parallel()
	w := newRig(t, func(s *setup) { s.cfg.FlushBytes = 1500 })
	w.enqueue(run(1, 60)...)
	w.shutdown()
	whole, err := os.ReadFile(w.path("4192", 0))
	require.NoError(t, err)
	ends := memberEnds(t, whole)
	require.Greater(t, len(ends), 10)
	const cuts = 200
	w = w.next()
	for i := range cuts {
		producer := fmt.Sprint("cut-", i)
		require.NoError(t, os.WriteFile(w.path(producer, 0), whole[:len(whole)*i/cuts], 0o600))
		w.enqueue(passOf(producer, 100, 100))
	}
	w.shutdown()
	for i := range cuts {
		producer, cut := fmt.Sprint("cut-", i), len(whole)*i/cuts
		after, err := os.ReadFile(w.path(producer, 0))
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole[:cut], after), "byte for byte")
		require.Equal(t, []int64{100}, w.counters(producer, 1))
		complete := 0
		for _, end := range ends {
			if end <= cut {
				complete = end
			}
		}
		if complete > 0 {
			rows := counters(t, decodeRows(t, after[:complete]))
			require.Equal(t, sequence(1, int64(len(rows))), rows)
		}
	}
}

// memberEnds finds where each gzip member of a file ends.
func memberEnds(t *testing.T, file []byte) (ends []int) {
	t.Helper()
	header := file[:10] // all headers are alike
	for at := 0; at < len(file); {
		next := bytes.Index(file[at+1:], header)
		if next < 0 {
			return append(ends, len(file))
		}
		at += 1 + next
		ends = append(ends, at)
	}
	return ends
}

// TestFIL_61_OneProducerFails, or is stuck, and the others do not notice.
func TestFIL_61_OneProducerFails(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newFaultDisk()
			heal := func() { d.set(nil) }
			if stuck {
				heal = stick(d, "write", "p07")
			} else {
				d.set(func(op, path string) error {
					if op == "write" && strings.Contains(path, ".p07.") {
						return errIO
					}
					return nil
				})
			}
			w := newRig(t, func(s *setup) { s.disk = d })
			for c := range int64(3) {
				for p := range 20 {
					w.enqueue(passOf(fmt.Sprintf("p%02d", p), c, uint64(c)))
				}
				time.Sleep(1500 * time.Millisecond)
				require.Equal(t, 19*(int(c)+1), w.obs.written(), "on time")
			}
			heal()
			time.Sleep(10 * time.Second)
			require.Equal(t, sequence(0, 2), w.counters("p07", 0))
			w.shutdown()
		})
	}
}

// TestCON_5_NoRowTwice: after any failures, no key stands twice and nothing is lost uncounted.
func TestCON_5_NoRowTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, func(s *setup) { s.disk, s.cfg.RollBytes, s.cfg.MaxSegments = d, 5000, 1000 })
		for round := range 60 {
			switch round % 4 {
			case 0:
				d.setTakes(tear(round*7, errNoSpace))
			case 1:
				d.set(failing(errIO, "truncate"))
			case 2:
				d.set(failing(errReadOnly, "create"))
			case 3:
				d.set(nil)
				d.setTakes(nil)
			}
			first := int64(round)*5 + 1
			w.enqueue(run(first, first+4)...)
			time.Sleep(time.Duration(round%7) * time.Second)
		}
		d.set(nil)
		d.setTakes(nil)
		time.Sleep(time.Minute)
		w.shutdown()
		seen := map[int64]bool{}
		for _, index := range indexesOf(w.segments(), "dynamo-fpm.4192") {
			data, err := os.ReadFile(w.path("4192", index))
			require.NoError(t, err)
			for _, c := range counters(t, wholeRows(t, data)) {
				require.False(t, seen[c], c)
				seen[c] = true
			}
		}
		require.Len(t, seen, 300)
		require.Zero(t, w.obs.allDrops())
	})
}

// wholeRows reads the complete members of a file whose end may be torn.
func wholeRows(t *testing.T, data []byte) []string {
	t.Helper()
	end := 0
	for _, e := range memberEnds(t, data) {
		if isMember(data[end:e]) {
			end = e
		}
	}
	if end == 0 {
		return nil
	}
	return decodeRows(t, data[:end])
}

// TestFIL_55_TextsSayWhatHappensToTheRows: only buffered rows wait in a queue of the writer.
// TestFIL_55_AFailingProducerIsForgotten: with nothing left to write it fails no more.
func TestFIL_55_AFailingProducerIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFaultDisk()
		w := newRig(t, durable(Flushed, d))
		d.set(failing(errNoSpace, "create"))
		_, err := w.Write(t.Context(), []Record{pass(1, 1)})
		require.ErrorIs(t, err, errNoSpace)
		require.ErrorIs(t, w.obs.status(), errNoSpace)
		time.Sleep(61 * time.Minute)
		require.Empty(t, w.everyProducer())
		require.NoError(t, w.obs.status())
		w.shutdown()
	})
}

func TestFIL_55_TextsSayWhatHappensToTheRows(t *testing.T) {
	t.Parallel()
	for durability, want := range map[Durability]struct{ log, blocked string }{
		Buffered: {"the oldest are dropped when the queue is full", "rows wait until they can"},
		Flushed:  {"their pushes fail", "pushes fail until they can"},
		Synced:   {"their pushes fail", "pushes fail until they can"},
	} {
		t.Run(durability.String(), func(t *testing.T) {
			t.Parallel()
			for op, expect := range map[string]func(*rig){
				"segment": func(w *rig) {
					w.eventually(func() bool { return w.logs.FilterMessageSnippet("Rows can't be written").Len() == 1 }, "logged")
					require.Contains(t, w.logs.FilterMessageSnippet("Rows can't be written").All()[0].Message, want.log)
				},
				"probe": func(w *rig) {
					w.eventually(func() bool { return w.obs.status() != nil }, "reported")
					require.ErrorContains(t, w.obs.status(), want.blocked)
				},
			} {
				disk := newFaultDisk()
				disk.set(func(what, path string) error {
					if what == "create" && strings.HasSuffix(path, segmentSuffix) == (op == "segment") {
						return errNoSpace
					}
					return nil
				})
				w := newRig(t, func(s *setup) { s.cfg.Durability, s.disk = durability, disk })
				if durability == Buffered {
					w.enqueue(pass(1, 1))
				} else {
					_, err := w.Write(t.Context(), []Record{pass(1, 1)})
					require.ErrorIs(t, err, errNoSpace)
				}
				expect(w)
				disk.set(nil)
				w.shutdown()
			}
		})
	}
}
