// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sequenceOf makes arrivals of one worker and rank, a number higher each time.
func at(moment time.Time, worker string, dpRank, sequence int64) Arrival {
	a := arrival(step{worker: worker, rank: dpRank, sequence: sequence})
	a.ReceivedAt = moment
	return a
}

func newEndpoints(t *testing.T, r *Registry, names ...string) (endpoints []*Endpoint) {
	t.Helper()
	for _, name := range names {
		e, err := r.Add(name)
		require.NoError(t, err)
		endpoints = append(endpoints, e)
	}
	return endpoints
}

func TestSTR_73_EmptyWorkerIDFallsBackToTheEndpoint(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "tcp://a:1", "tcp://b:1")
	a, b := e[0].Observe(at(start, "", 0, 5)), e[1].Observe(at(start, "", 0, 5))
	require.Equal(t, "tcp://a:1", a.Identity)
	require.Equal(t, "tcp://b:1", b.Identity)
	require.NotSame(t, a.Stream, b.Stream)
}

func TestSTR_102_SharedWorkerID(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "tcp://a:1", "tcp://b:1")

	first := e[0].Observe(at(start, "7", 0, 1))
	require.Equal(t, "7", first.Identity)
	require.False(t, first.Shared)
	otherRank := e[1].Observe(at(start, "7", 1, 1))
	require.Equal(t, "7", otherRank.Identity, "another rank is another stream")
	second := e[1].Observe(at(start, "7", 0, 2))
	require.Equal(t, "tcp://b:1", second.Identity)
	require.True(t, second.Shared)

	t.Run("kept while live", func(t *testing.T) {
		require.Equal(t, "7", e[0].Observe(at(start.Add(59*time.Second), "7", 0, 2)).Identity)
		v := e[1].Observe(at(start.Add(59*time.Second), "7", 0, 3))
		require.Equal(t, "tcp://b:1", v.Identity)
		require.False(t, v.Shared, "warned once")
	})
	t.Run("decided anew on the return from stale", func(t *testing.T) {
		back := start.Add(5 * time.Minute)
		v := e[1].Observe(at(back, "7", 0, 4))
		require.True(t, v.Returned)
		require.Equal(t, "7", v.Identity)
		v = e[0].Observe(at(back, "7", 0, 3))
		require.True(t, v.Returned)
		require.Equal(t, "tcp://a:1", v.Identity)
		require.True(t, v.Shared)
	})
}

func TestSTR_99_ForgetAfter(t *testing.T) {
	var forgotten []string
	cfg := testConfig()
	cfg.OnForget = func(s *Stream) { forgotten = append(forgotten, s.Key().WorkerID) }
	r := NewRegistry(cfg)
	e := newEndpoints(t, r, "A")[0]
	e.Observe(at(start, "7", 0, 5))
	e.Observe(at(start.Add(time.Minute), "8", 0, 5))

	r.Sweep(start.Add(time.Hour - 1))
	require.Equal(t, 2, r.Len())
	r.Sweep(start.Add(time.Hour))
	require.Equal(t, []string{"7"}, forgotten)

	v := e.Observe(at(start.Add(time.Hour), "7", 0, 50))
	require.True(t, v.New, "a first record: nothing is missing (STR-65)")
	require.Zero(t, v.Missing)
	require.Equal(t, start.Add(time.Hour), v.Stream.FirstSeen())
	v = e.Observe(at(start.Add(time.Hour), "8", 0, 9))
	require.EqualValues(t, 3, v.Missing, "the stream that was kept goes on")
	require.Equal(t, start.Add(time.Minute), v.Stream.FirstSeen())
}

func TestSTR_99_AtTheCap(t *testing.T) {
	cfg := testConfig()
	cfg.MaxStreams = 4

	t.Run("the stale stream silent longest gives way", func(t *testing.T) {
		r := NewRegistry(cfg)
		e := newEndpoints(t, r, "A", "B")
		e[1].Observe(at(start, "old", 0, 1)) // the only one of its endpoint
		now := start.Add(cfg.StaleAfter)
		for rank := range int64(3) {
			e[0].Observe(at(now, "fresh", rank, 1))
		}
		v := e[0].Observe(at(now, "new", 0, 1))
		require.NotNil(t, v.Stream)
		require.Equal(t, 1, v.Overflow)
		require.Equal(t, 4, r.Len())
		for rank := range int64(3) {
			require.False(t, e[0].Observe(at(now, "fresh", rank, 2)).New)
		}
		require.True(t, e[1].Observe(at(now, "old", 0, 2)).New)
	})
	t.Run("else the longest silent one of the endpoint that holds most", func(t *testing.T) {
		r := NewRegistry(cfg)
		e := newEndpoints(t, r, "flood", "A")
		e[1].Observe(at(start, "live", 0, 1))
		for i := range int64(3) {
			e[0].Observe(at(start.Add(time.Second), strconv.FormatInt(i, 10), 0, 1))
		}
		v := e[0].Observe(at(start.Add(2*time.Second), "3", 0, 1))
		require.NotNil(t, v.Stream)
		require.Equal(t, 1, v.Overflow)
		require.False(t, e[1].Observe(at(start.Add(2*time.Second), "live", 0, 2)).New, "other endpoints keep their state (STR-90)")
		require.True(t, e[0].Observe(at(start.Add(2*time.Second), "0", 0, 2)).New)
	})
	t.Run("else the newcomer has no state", func(t *testing.T) {
		r := NewRegistry(cfg)
		e := newEndpoints(t, r, "A", "B", "C", "D", "E")
		for _, live := range e[:4] {
			live.Observe(at(start, "w", 0, 1))
		}
		for sequence := range int64(3) {
			v := e[4].Observe(at(start, "w2", 0, sequence))
			require.Nil(t, v.Stream)
			require.Equal(t, 1, v.Overflow)
			require.Equal(t, "w2", v.Identity)
			require.False(t, v.Duplicate)
		}
		require.Equal(t, 4, r.Len())
	})
}

func TestSTR_90_EndlessWorkers(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "hostile", "good")
	e[1].Observe(at(start, "live", 0, 1))
	for i := range int64(20 * testConfig().MaxStreams) {
		e[0].Observe(at(start.Add(time.Second), strconv.FormatInt(i, 36), 0, 0))
	}
	require.Equal(t, testConfig().MaxStreams, r.Len())
	require.Len(t, e[0].streams, testConfig().MaxStreams-1)
	require.Len(t, r.workers, testConfig().MaxStreams)
	require.False(t, e[1].Observe(at(start.Add(time.Second), "live", 0, 2)).New)
}

func TestZMQ_58_RemovedEndpointStartsAnew(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "A")[0]
	e.Observe(at(start, "7", 0, 5))
	_, err := r.Add("A")
	require.ErrorContains(t, err, `"A"`)
	r.Remove(e)
	require.Zero(t, r.Len())
	require.Empty(t, r.workers)
	require.True(t, newEndpoints(t, r, "A")[0].Observe(at(start, "7", 0, 50)).New)
}

func TestListKeepsTheOrderOfRecords(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "A")[0]
	for _, worker := range []string{"a", "b", "c"} {
		e.Observe(at(start, worker, 0, 1))
	}
	for i, tt := range []struct{ touched, want string }{
		{"b", "a c b"}, {"a", "c b a"}, {"a", "c b a"}, {"c", "b a c"},
	} {
		e.Observe(at(start, tt.touched, 0, int64(i)+2))
		require.Equal(t, tt.want, workersFromOldest(&r.recent))
		require.Equal(t, tt.want, workersFromOldest(&e.recent))
	}
}

func workersFromOldest(l *list) (workers string) {
	for s := l.oldest; s != nil; s = l.links(s).newer {
		if workers != "" {
			workers += " "
		}
		workers += s.key.WorkerID
	}
	return workers
}

func ExampleRegistry() {
	r := NewRegistry(Config{StaleAfter: time.Minute, ForgetAfter: time.Hour, MaxStreams: 4096})
	e, err := r.Add("tcp://127.0.0.1:20380")
	if err != nil {
		panic(err)
	}
	now := time.Now()
	for _, sequence := range []int64{10, 15} {
		v := e.Observe(Arrival{WorkerID: []byte("4192"), Sequence: sequence, CounterID: sequence, ReceivedAt: now})
		fmt.Println(v.Identity, v.Missing)
	}
	// Output:
	// 4192 0
	// 4192 4
}

// A duplicate is dropped, so it must not decide an identity that nobody hears of,
// nor keep a stream live.
func TestSTR_102_DuplicateIsNoReturn(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "tcp://a:1", "tcp://b:1")
	e[0].Observe(at(start, "7", 0, 0))
	later := start.Add(testConfig().StaleAfter)
	require.Equal(t, "7", e[1].Observe(at(later, "7", 0, 0)).Identity, "the first one is stale")

	v := e[0].Observe(at(later, "7", 0, 0))
	require.True(t, v.Duplicate)
	require.False(t, v.Returned)
	v = e[0].Observe(at(later.Add(time.Second), "7", 0, 1))
	require.True(t, v.Returned, "the first record that is forwarded")
	require.True(t, v.Shared)
	require.Equal(t, "tcp://a:1", v.Identity)
}

func TestSTR_73_WorkerIDThatNamesAnotherEndpoint(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "tcp://a:1", "tcp://b:1")
	require.Equal(t, "tcp://a:1", e[0].Observe(at(start, "", 0, 1)).Identity)
	v := e[1].Observe(at(start, "tcp://a:1", 0, 1))
	require.Equal(t, "tcp://b:1", v.Identity)
	require.True(t, v.Shared)
	v = e[1].Observe(at(start, "tcp://b:1", 0, 1))
	require.Equal(t, "tcp://b:1", v.Identity)
	require.False(t, v.Shared, "its own name takes nobody else's")
}

// forget_after holds to the moment, not to the next Sweep.
func TestSTR_99_ForgottenBeforeTheSweep(t *testing.T) {
	var forgotten int
	cfg := testConfig()
	cfg.OnForget = func(*Stream) { forgotten++ }
	r := NewRegistry(cfg)
	e := newEndpoints(t, r, "A")[0]
	e.Observe(at(start, "7", 0, 0))
	v := e.Observe(at(start.Add(cfg.ForgetAfter), "7", 0, 50))
	require.True(t, v.New)
	require.Zero(t, v.Missing)
	require.Equal(t, 1, forgotten)
	require.Equal(t, 1, r.Len())
}

// State repeats the worker_id: a giant one gets none, so that max_streams bounds
// memory.
func TestSTR_90_GiantWorkerID(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "A")[0]
	v := e.Observe(at(start, strings.Repeat("x", MaxWorkerID), 0, 0))
	require.NotNil(t, v.Stream)
	giant := strings.Repeat("x", MaxWorkerID+1)
	v = e.Observe(at(start, giant, 0, 0))
	require.Nil(t, v.Stream)
	require.False(t, v.New)
	require.Equal(t, 1, v.Overflow)
	require.Equal(t, giant, v.Identity)
	require.True(t, v.Restart, "another worker_id all the same (STR-72)")
	require.Equal(t, 1, r.Len())
}

// Two live streams of one endpoint and rank are never known by one name, also
// when both fall back to the endpoint's (STR-E17, STR-73, STR-102).
func TestSTR_102_OneNameForEachStreamOfAnEndpoint(t *testing.T) {
	r := NewRegistry(testConfig())
	e := newEndpoints(t, r, "A", "B")
	for _, worker := range []string{"7", "8"} {
		e[0].Observe(at(start, worker, 0, 1))
	}
	require.Equal(t, "B", e[1].Observe(at(start, "7", 0, 1)).Identity)
	require.Equal(t, "B/8", e[1].Observe(at(start, "8", 0, 1)).Identity)
	require.Equal(t, "B/", e[1].Observe(at(start, "", 0, 1)).Identity)
	require.Equal(t, "B", e[1].Observe(at(start, "", 1, 1)).Identity, "another rank is another series")
	require.Equal(t, "B", e[1].Observe(at(start, "7", 0, 2)).Identity, "kept while live")

	back := start.Add(testConfig().StaleAfter)
	require.Equal(t, "B", e[1].Observe(at(back, "", 0, 2)).Identity, "the holder is stale")
	require.Equal(t, "7", e[1].Observe(at(back, "7", 0, 3)).Identity, "A's is stale too")
	require.Equal(t, "B", e[1].Observe(at(back, "", 0, 3)).Identity)

	forgotten := back.Add(testConfig().ForgetAfter)
	r.Sweep(forgotten)
	require.Empty(t, e[1].named)
}
