// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fairqueue

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// atMost limits the items that are taken out, and nothing else.
func atMost(items int) Limits { return Limits{Items: items, Bytes: 1 << 60} }

func TestPopIsBoundedByBytes(t *testing.T) {
	q := New[int](Limits{Items: 10, Bytes: 1000}, nil)
	s := q.NewSource()
	for i, size := range []int64{500, 10, 40, 60, 1} {
		s.Push(i, size)
	}
	limits := Limits{Items: 10, Bytes: 100}
	require.Equal(t, []int{0}, q.Pop(nil, limits), "one item may be larger")
	require.Equal(t, []int{1, 2}, q.Pop(nil, limits))
	require.Equal(t, []int{3, 4}, q.Pop(nil, limits))
	require.Empty(t, q.Pop(nil, limits))
}

func TestSTR_100_FirstInFirstOut(t *testing.T) {
	q := New[int](Limits{Items: 10, Bytes: 100}, nil)
	a, b := q.NewSource(), q.NewSource()
	a.Push(1, 1)
	b.Push(2, 1)
	a.Push(3, 1)
	require.Equal(t, []int{1, 2}, q.Pop(nil, atMost(2)))
	a.Push(4, 1)
	require.Equal(t, []int{3, 4}, q.Pop(nil, atMost(10)))
	require.Empty(t, q.Pop(nil, atMost(10)))
}

func TestSTR_100_RecordsRunOut(t *testing.T) {
	var dropped []int
	q := New(Limits{Items: 4, Bytes: 1000}, func(v int) { dropped = append(dropped, v) })
	quiet, flood := q.NewSource(), q.NewSource()
	quiet.Push(-1, 100) // most bytes, but records run out
	for i := range 6 {
		flood.Push(i, 1)
	}
	require.Equal(t, []int{0, 1, 2}, dropped)
	quiet.Push(-2, 1)
	require.Equal(t, []int{0, 1, 2, 3}, dropped, "a newcomer displaces the one that holds most, not itself")
	require.Equal(t, []int{-1, 4, 5, -2}, q.Pop(nil, atMost(10)))
}

func TestSTR_100_BytesRunOut(t *testing.T) {
	var dropped []int
	q := New(Limits{Items: 100, Bytes: 100}, func(v int) { dropped = append(dropped, v) })
	many, big := q.NewSource(), q.NewSource()
	for i := range 10 {
		many.Push(i, 1)
	}
	big.Push(100, 50)
	big.Push(101, 40)
	big.Push(102, 60)
	require.Equal(t, []int{100}, dropped[:1])
	require.Equal(t, []int{100, 101}, dropped, "until the new one fits")
	big.Push(103, 101)
	require.Equal(t, []int{100, 101, 103}, dropped, "larger than the whole queue")
	items, bytes := q.Len()
	require.Equal(t, 11, items)
	require.EqualValues(t, 70, bytes)
}

func TestRemovedSourceGoesWithItsLastItem(t *testing.T) {
	q := New[int](Limits{Items: 4, Bytes: 100}, nil)
	empty, full := q.NewSource(), q.NewSource()
	full.Push(1, 1)
	q.RemoveSource(empty)
	q.RemoveSource(full)
	require.Len(t, q.sources, 1)
	require.Equal(t, []int{1}, q.Pop(nil, atMost(1)))
	require.Empty(t, q.sources)
}

func TestLimitsHoldAndNothingIsLostUncounted(t *testing.T) {
	limits := Limits{Items: 50, Bytes: 500}
	dropped := 0
	q := New(limits, func(int) { dropped++ })
	var sources []*Source[int]
	for range 5 {
		sources = append(sources, q.NewSource())
	}
	random := rand.New(rand.NewPCG(1, 2))
	pushed, popped := 0, 0
	for i := range 20_000 {
		sources[random.IntN(len(sources))].Push(i, random.Int64N(60))
		pushed++
		if random.IntN(10) == 0 {
			popped += len(q.Pop(nil, atMost(random.IntN(20))))
		}
		items, bytes := q.Len()
		require.LessOrEqual(t, items, limits.Items)
		require.LessOrEqual(t, bytes, limits.Bytes)
		require.Equal(t, pushed, popped+dropped+items)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int](Limits{Items: 10, Bytes: 100}, nil)
		s := q.NewSource()
		stop := make(chan struct{})
		begin := time.Now()

		go func() {
			time.Sleep(time.Minute)
			s.Push(1, 1)
		}()
		require.True(t, q.Wait(atMost(2), 200*time.Millisecond, stop))
		require.Equal(t, time.Minute+200*time.Millisecond, time.Since(begin), "the timeout runs from the first item")

		go func() {
			time.Sleep(50 * time.Millisecond)
			s.Push(2, 1)
		}()
		begin = time.Now()
		require.True(t, q.Wait(atMost(2), 200*time.Millisecond, stop))
		require.Equal(t, 50*time.Millisecond, time.Since(begin), "enough items wait for nothing")

		q.Pop(nil, atMost(10))
		s.Push(3, 50)
		begin = time.Now()
		require.True(t, q.Wait(Limits{Items: 2, Bytes: 50}, 200*time.Millisecond, stop))
		require.Zero(t, time.Since(begin), "enough bytes wait for nothing")

		q.Pop(nil, atMost(10))
		go func() {
			time.Sleep(time.Second)
			close(stop)
		}()
		require.False(t, q.Wait(atMost(2), 200*time.Millisecond, stop))
	})
}

func BenchmarkPushPop(b *testing.B) {
	q := New[int](Limits{Items: 65536, Bytes: 64 << 20}, nil)
	s := q.NewSource()
	dst := make([]int, 0, 512)
	b.ReportAllocs()
	b.SetBytes(1)
	for i := 0; b.Loop(); i++ {
		s.Push(i, 416)
		if i%512 == 511 {
			dst = q.Pop(dst[:0], atMost(512))
		}
	}
}
