// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSMP5NewestByArrivalReplacesWhateverItsCounter(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(0, 7))
		r.send(rank(0, 5))
		tick()
		require.Equal(t, []string{"0:5"}, r.passes())
		require.EqualValues(t, 1, r.count("replaced", ""))
	})
}

func TestSMP5ReplacementWithinOneBatch(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(0, 7), rank(1, 1), rank(0, 8), rank(0, 5))
		tick()
		require.Equal(t, []string{"0:5 1:1"}, r.passes())
		require.EqualValues(t, 2, r.count("replaced", ""))
		require.EqualValues(t, 4, r.count("records_in", ""))
		require.EqualValues(t, 2, r.count("records_out", ""))
	})
}

func TestSMP6OnlyTheLastEmittedCounterIsSuppressed(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(0, 5))
		tick() // emits 5
		r.send(rank(0, 5))
		tick() // nothing changed
		require.EqualValues(t, 1, r.count("suppressed", ""))
		r.send(rank(0, 6))
		r.send(rank(0, 5)) // the pending 6 stays
		tick()
		require.EqualValues(t, 2, r.count("suppressed", ""))
		r.send(rank(0, 2)) // a restarted engine
		tick()
		r.send(rank(0, 5)) // emitted once, but not last
		tick()
		require.Equal(t, []string{"0:5", "0:6", "0:2", "0:5"}, r.passes())
	})
}

func TestSMP7AndSMP8EveryPendingKeyOnceAtTheTick(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(0, 1), rank(1, 1))
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, r.got(), "a new key waits for the tick")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"0:1 1:1"}, r.passes())
		r.send(rank(1, 2))
		tick()
		tick()
		require.Equal(t, []string{"0:1 1:1", "1:2"}, r.passes(), "a key without a pending record emits nothing")
	})
}

func TestSMP9FirstTickAWholeIntervalAfterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "logs", testConfig())
		time.Sleep(70 * time.Millisecond)
		r.start()
		r.send(rank(0, 1))
		time.Sleep(time.Second)
		r.stop()
		require.Equal(t, []emission{{at: 170 * time.Millisecond, passes: "0:1"}}, r.got())
	})
}

func TestSMP9TicksAreKeptOnTheMonotonicClock(t *testing.T) {
	s := newLogState(testConfig())
	s.start(time.Now())
	require.Contains(t, s.nextTick.String(), " m=", "a wall-clock jump must not move a tick")
	require.Contains(t, tickAfter(s.nextTick, time.Now(), time.Second).String(), " m=")
}

func TestSMP10LateTickDelaysTheFollowing(t *testing.T) {
	cfg := createDefaultConfig().(*Config) // 5 s
	onBothSignals(t, cfg, func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error {
			if time.Since(r.began) == 10*time.Second {
				time.Sleep(12 * time.Second) // keeps the 15 s tick until 22 s
			}
			return nil
		})
		for i := range int64(20) { // a record every 2 s, from 1 s on
			time.Sleep(time.Second)
			r.send(rank(0, i))
			time.Sleep(time.Second)
		}
		var at []time.Duration
		for _, e := range r.got() {
			at = append(at, e.at/time.Second)
		}
		require.Equal(t, []time.Duration{5, 10, 22, 27, 32, 37}, at)
	})
}

func TestSMP10TicksOnTimeDoNotDrift(t *testing.T) {
	due := time.Now()
	require.Equal(t, due.Add(5*time.Second), tickAfter(due, due.Add(5*time.Millisecond), 5*time.Second))
	require.Equal(t, due.Add(5*time.Second+6*time.Millisecond), tickAfter(due, due.Add(6*time.Millisecond), 5*time.Second))
	late := due.Add(time.Millisecond)
	require.Equal(t, late.Add(2*time.Millisecond), tickAfter(due, late, 2*time.Millisecond), "no burst at short intervals")
}

// An arrival may serve a late tick before the emitter does; the emitter must
// not sleep over it.
func TestSMP10LateTickServedByAnArrivalIsSentAtOnce(t *testing.T) {
	now := time.Now()
	s := newLogState(testConfig())
	s.start(now)
	offer(s, now, rank(0, 1))
	late := now.Add(time.Second)
	offer(s, late, rank(0, 2))
	require.Zero(t, s.untilTick(late))
	batch, _ := s.fetchTick(late)
	require.Len(t, batch, 1)
	require.EqualValues(t, 1, batch[0].counter.id)
	require.Equal(t, s.interval, s.untilTick(late))
}

func TestSMP11KeyOrder(t *testing.T) {
	ordered := []pass{
		{namespace: "a", component: "b", producer: "c", instance: "10", rank: 9},
		{namespace: "a", component: "b", producer: "c", instance: "9", rank: -1},
		{namespace: "a", component: "b", producer: "c", instance: "9", rank: 2},
		{namespace: "a", component: "b", producer: "c", instance: "9", rank: 10},
		{namespace: "a", component: "b", producer: "c", instance: "\uffff"},     // ef bf bf
		{namespace: "a", component: "b", producer: "c", instance: "\U00010000"}, // f0 90 80 80; before ffff in UTF-16
		{namespace: "a", component: "b", producer: "d", instance: "1"},
		{namespace: "a", component: "c", producer: "a", instance: "1"},
		{namespace: "b", component: "a", producer: "a", instance: "1"},
	}
	for i := range ordered {
		ordered[i].counter = int64(i)
	}
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		for round := range 5 {
			shuffled := slices.Clone(ordered)
			rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			for _, p := range shuffled {
				p.counter += int64(round * 100)
				r.send(p)
			}
			tick()
			got := strings.Fields(r.passes()[round])
			require.Len(t, got, len(ordered))
			for i, text := range got {
				require.Equal(t, fmt.Sprintf("%d:%d", ordered[i].rank, i+round*100), text)
			}
		}
	})
}

func TestSMP12ArrivalTogetherWithATickBelongsToTheNext(t *testing.T) {
	// Both wake at the same fake instant, in any order; several rounds let both
	// orders happen.
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		for i := range int64(50) {
			time.Sleep(100 * time.Millisecond)
			r.send(rank(0, i))
		}
		synctest.Wait()
		got := r.got()
		require.Len(t, got, 49)
		for i, e := range got {
			require.Equal(t, fmt.Sprintf("0:%d", i), e.passes)
			require.Equal(t, time.Duration(i+2)*100*time.Millisecond, e.at)
		}
	})
}

func TestSMP12ShutdownGoesBeforeTheTick(t *testing.T) {
	e := newEmitter(newLogState(testConfig()), recorder{}, nil, nil)
	for range 50 { // both are ready: a plain select would take either
		timer := time.NewTimer(0)
		time.Sleep(time.Millisecond)
		e.last <- t.Context()
		require.NotNil(t, e.wait(timer))
	}
}

func TestSMP13OnlyAcceptanceMovesTheLastEmittedCounter(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error { return errors.New("full") })
		r.send(rank(0, 5))
		tick()
		r.setDecide(nil)
		r.send(rank(0, 5)) // the same again: 5 was never accepted
		tick()
		require.Equal(t, []string{"0:5", "0:5"}, r.passes())
		require.Zero(t, r.count("suppressed", ""))
		require.EqualValues(t, 1, r.count("records_out", ""))
	})
}

func TestSMP13CounterOnItsWayIsNotTakenAgain(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error {
			time.Sleep(50 * time.Millisecond)
			return nil
		})
		r.send(rank(0, 5))
		tick() // 5 is on its way now
		r.send(rank(0, 6))
		r.send(rank(0, 5))
		tick()
		tick()
		require.Equal(t, []string{"0:5", "0:6"}, r.passes())
		require.EqualValues(t, 1, r.count("suppressed", ""))
	})
}

// A repetition is judged when what it repeats is settled: refused, it was none.
func TestSMP13RepetitionOfARefusedCounterIsEmitted(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile []pass
		emitted   string
		replaced  int64
	}{
		"once":        {[]pass{rank(0, 5)}, "0:5", 0},
		"often":       {[]pass{rank(0, 5), rank(0, 5), rank(0, 5)}, "0:5", 2},
		"newest":      {[]pass{rank(0, 6), rank(0, 5)}, "0:5", 1},
		"not newest":  {[]pass{rank(0, 5), rank(0, 6)}, "0:6", 1},
		"in the same": {[]pass{rank(0, 5), rank(0, 6), rank(0, 5)}, "0:5", 2},
	} {
		t.Run(name, func(t *testing.T) {
			onBothSignals(t, testConfig(), func(r *rig) {
				t := r.t
				r.setDecide(func(context.Context) error {
					time.Sleep(50 * time.Millisecond)
					return errors.New("full")
				})
				r.send(rank(0, 5))
				tick() // 5 is on its way now
				r.send(c.meanwhile...)
				require.Zero(t, r.count("suppressed", ""), "not before 5 is settled")
				time.Sleep(60 * time.Millisecond)
				r.setDecide(nil)
				tick()
				tick()
				require.Equal(t, []string{"0:5", c.emitted}, r.passes())
				require.Equal(t, c.replaced, r.count("replaced", ""))
				require.Zero(t, r.count("suppressed", ""))
				require.EqualValues(t, 1, r.count("records_out", ""))
				require.EqualValues(t, 1, r.count("dropped", "downstream"))
			})
		})
	}
}

// A repetition that nothing is known about at the end is dropped like what it repeats.
func TestSMP15RepetitionAtTheShutdownIsCounted(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		free := make(chan struct{})
		r.setDecide(func(context.Context) error {
			<-free
			return nil
		})
		r.send(rank(0, 5))
		tick()
		r.send(rank(0, 5), rank(0, 5))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, r.Shutdown(ctx), "3 forward passes")
		require.EqualValues(t, 3, r.count("dropped", "shutdown"))
		close(free)
	})
}

func TestSMP14RefusedTickIsDroppedAndTheSamplerGoesOn(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.setDecide(func(context.Context) error { return errors.New("full") })
		r.send(rank(0, 1), rank(1, 1))
		tick()
		r.setDecide(nil)
		tick()
		require.Equal(t, []string{"0:1 1:1"}, r.passes(), "not sent again")
		require.EqualValues(t, 2, r.count("dropped", "downstream"))
		require.Zero(t, r.count("records_out", ""))
		r.send(rank(0, 2))
		tick()
		require.Equal(t, []string{"0:1 1:1", "0:2"}, r.passes())
	})
}

func TestSMP16WorkedExample(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(rank(0, 1))
		r.send(rank(0, 2))
		r.send(rank(1, 1))
		tick()
		r.send(rank(0, 2))
		r.send(rank(0, 3))
		r.stop()
		require.Equal(t, []string{"0:2 1:1", "0:3"}, r.passes())
	})
}

func TestSMP18IdleRankYieldsOneRecordAnInterval(t *testing.T) {
	cfg := createDefaultConfig().(*Config) // 5 s
	onBothSignals(t, cfg, func(r *rig) {
		t := r.t
		for i := range int64(30) { // one heartbeat a second
			time.Sleep(time.Second)
			r.send(rank(0, i))
		}
		synctest.Wait()
		require.Len(t, r.got(), 6)
	})
}

// CAP-9: 50 ms over 10 s gives 200 records of a busy key, plus at most one.
func TestSMP7RecordsOfABusyKey(t *testing.T) {
	cfg := testConfig()
	cfg.Interval = 50 * time.Millisecond
	onBothSignals(t, cfg, func(r *rig) {
		t := r.t
		for i := range int64(1000) {
			r.send(rank(0, i))
			time.Sleep(10 * time.Millisecond)
		}
		r.stop()
		require.GreaterOrEqual(t, len(r.got()), 200)
		require.LessOrEqual(t, len(r.got()), 201)
	})
}
