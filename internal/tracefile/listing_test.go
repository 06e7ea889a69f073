// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// slowListing takes a second to hand over what it has read.
type slowListing struct {
	*faultDisk
}

func (d slowListing) ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := d.faultDisk.ReadDir(dir)
	time.Sleep(time.Second)
	return entries, err
}

// TestFIL_9_NewProducersShareListings: else the cost of many new producers grows with their square.
func TestFIL_9_NewProducersShareListings(t *testing.T) {
	t.Parallel()
	for _, durability := range []Durability{Buffered, Flushed} {
		synctest.Test(t, func(t *testing.T) {
			disk := newFaultDisk()
			w := newRig(t, func(s *setup) { s.disk, s.cfg.Durability = slowListing{disk}, durability })
			var records []Record
			for n := range 200 {
				records = append(records, passOf(fmt.Sprint("worker", n), 1, 1))
			}
			w.put(records...)
			time.Sleep(time.Minute)
			require.Equal(t, 200, w.obs.written())
			require.LessOrEqual(t, disk.count("readdir"), 2, "one for whoever comes first, one for all who came meanwhile")
			w.shutdown()
			require.Len(t, w.segments(), 200)
		})
	}
}

// TestFIL_9_ASharedListingIsNotStale: what was there when a producer asked is seen, also if a listing was on its way.
func TestFIL_9_ASharedListingIsNotStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, func(s *setup) { s.idle, s.disk = true, slowListing{newFaultDisk()} })
		early := make(chan []foundSegment)
		go func() {
			found, err := w.listings.of("4192")
			if err != nil {
				found = append(found, foundSegment{})
			}
			early <- found
		}()
		time.Sleep(time.Second / 2)
		writeFile(t, w.path("4192", 7), "")
		writeFile(t, w.path("other", 9), "")
		found, err := w.listings.of("4192")
		require.NoError(t, err)
		require.Equal(t, []foundSegment{{index: 7, regular: true}}, found)
		require.Empty(t, <-early)
	})
}

// TestFIL_30_FirstSegmentAfterFew: the listing is left out only where nothing can be too much.
func TestFIL_30_FirstSegmentAfterFew(t *testing.T) {
	t.Parallel()
	for old, want := range map[uint64]struct{ listings, left int }{0: {1, 1}, 3: {1, 4}, 4: {2, 4}, 6: {2, 4}} {
		w := newRig(t, func(s *setup) { s.idle = true })
		for index := range old {
			writeFile(t, w.path("4192", index), "old")
		}
		w.shutdown()
		disk := newFaultDisk()
		w = w.next(func(s *setup) { s.disk = disk })
		w.enqueue(pass(1, 1))
		w.shutdown()
		require.Equal(t, want.listings, disk.count("readdir"), old)
		require.Len(t, w.segments(), want.left, old)
	}
}

// BenchmarkNewProducers shows that a new producer costs about the same however many there are.
func BenchmarkNewProducers(b *testing.B) {
	for _, producers := range []int{500, 4000} {
		b.Run(strconv.Itoa(producers), func(b *testing.B) {
			for b.Loop() {
				benchmarkNewProducers(b, producers)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*producers), "µs/producer")
		})
	}
}

func benchmarkNewProducers(b *testing.B, producers int) {
	b.Helper()
	cfg := Config{
		Base: filepath.Join(b.TempDir(), "dynamo-fpm"), RollBytes: DefaultRollBytes, MaxSegments: DefaultMaxSegments,
		FlushInterval: DefaultFlushInterval, FlushBytes: DefaultFlushBytes,
		CompressionLevel: DefaultCompressionLevel, MaxOpenFiles: DefaultMaxOpenFiles,
	}
	obs := newRecorder()
	w := NewWriter(cfg, obs, zap.NewNop())
	require.NoError(b, w.Start())
	for n := range producers {
		require.NoError(b, w.Enqueue([]Record{passOf(fmt.Sprint("worker", n), 1, 1)}))
	}
	require.NoError(b, w.Shutdown(b.Context()))
	require.Equal(b, producers, obs.written())
}
