// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

func newLogState(cfg *Config) *state[plog.LogRecord] {
	return newState(cfg, plog.NewLogRecord)
}

func offer(s *state[plog.LogRecord], now time.Time, passes ...pass) tally {
	return s.ingest(now, func(in *intake[plog.LogRecord]) { intakeLogs(in, logsOf(passes...)) })
}

// serve runs one whole tick and says how many samples it had.
func serve(s *state[plog.LogRecord], now time.Time, o outcome) int {
	s.nextTick = now
	batch, _ := s.fetchTick(now)
	s.settle(batch, o)
	return len(batch)
}

func keyOf(p pass) key {
	rl := logsOf(p).ResourceLogs().At(0)
	k, _ := itemKey(resourceKey(rl.Resource().Attributes()), rl.ScopeLogs().At(0).LogRecords().At(0).Attributes())
	return k
}

func TestSMP2EveryPartOfTheKeyCounts(t *testing.T) {
	base := pass{namespace: "n", component: "c", producer: "p", instance: "w", worker: "w", rank: 1, counter: 1}
	variants := map[string]func(*pass){
		"namespace": func(p *pass) { p.namespace = "x" },
		"component": func(p *pass) { p.component = "x" },
		"producer":  func(p *pass) { p.producer = "x" },
		"worker":    func(p *pass) { p.worker, p.instance = "x", "x" },
		"rank":      func(p *pass) { p.rank = 2 },
	}
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			other := base
			change(&other)
			require.NotEqual(t, keyOf(base), keyOf(other))
			require.NotZero(t, keyOf(base).compare(keyOf(other)))
			require.Equal(t, -keyOf(base).compare(keyOf(other)), keyOf(other).compare(keyOf(base)))
		})
	}
	other := base
	other.counter = 9
	require.Equal(t, keyOf(base), keyOf(other))
	require.Zero(t, keyOf(base).compare(keyOf(other)))
	require.Equal(t, key{namespace: "n", component: "c", producer: "p", worker: "w", rank: 1}, keyOf(base))
}

func TestSMP3InstanceIDTakesThePlaceOfTheWorkerID(t *testing.T) {
	for name, tt := range map[string]struct {
		instance, worker, want string
	}{
		"equal":                         {"w", "w", "w"},
		"worker id empty":               {"10.0.0.1:20380", "", "10.0.0.1:20380"},
		"two endpoints with one id":     {"10.0.0.1:20380", "w", "10.0.0.1:20380"},
		"no instance id":                {"", "w", "w"},
		"neither":                       {"", "", ""},
		"a span, without fpm.worker_id": {"w", "", "w"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, keyOf(pass{instance: tt.instance, worker: tt.worker}).worker)
		})
	}
}

func TestSMP3TwoEndpointsWithEmptyWorkerIDsAreTwoKeys(t *testing.T) {
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		r.send(pass{instance: "10.0.0.1:20380", counter: 1}, pass{instance: "10.0.0.2:20380", counter: 2})
		tick()
		require.Equal(t, []string{"0:1 0:2"}, r.passes())
	})
}

func TestSMP4EqualWorkersNeverSuppressEachOther(t *testing.T) {
	same := []pass{rank(0, 7), rank(1, 7), rank(0, 7), rank(0, 7)}
	same[2].component = "prefill"
	same[3].namespace = "other"
	onBothSignals(t, testConfig(), func(r *rig) {
		t := r.t
		for range 2 {
			r.send(same...)
			tick()
		}
		require.Equal(t, []string{"0:7 1:7 0:7 0:7"}, r.passes())
		require.EqualValues(t, 4, r.count("suppressed", ""))
		require.EqualValues(t, 4, r.count("keys", ""))
	})
}

func TestSMP2AttributesOfAnotherTypeMakeAKeyToo(t *testing.T) {
	attributes := pcommon.NewMap()
	attributes.PutInt(fpmpdata.AttrServiceInstanceID, 17)
	require.Equal(t, "17", resourceKey(attributes).worker)

	attributes = pcommon.NewMap()
	attributes.PutStr(fpmpdata.AttrDPRank, "2")
	attributes.PutStr(fpmpdata.AttrCounterID, "5")
	k, count := itemKey(key{}, attributes)
	require.Zero(t, k.rank)
	require.False(t, count.known)
	require.False(t, count.equals(count), "an item without a counter always counts as changed")
}

func TestSMP2KeysKeepNothingOfTheBatchAlive(t *testing.T) {
	s := newLogState(testConfig())
	ld := logsOf(rank(0, 1))
	attributes := ld.ResourceLogs().At(0).Resource().Attributes()
	for _, name := range []string{"service.namespace", "service.name", "service.instance.id", "fpm.producer.id"} {
		attributes.PutStr(name, string([]byte("unshared")))
	}
	view := resourceKey(attributes)
	s.ingest(time.Now(), func(in *intake[plog.LogRecord]) { intakeLogs(in, ld) })
	for k := range s.entries {
		require.NotSame(t, unsafe.StringData(view.namespace), unsafe.StringData(k.namespace))
		require.NotSame(t, unsafe.StringData(view.component), unsafe.StringData(k.component))
		require.NotSame(t, unsafe.StringData(view.producer), unsafe.StringData(k.producer))
		require.NotSame(t, unsafe.StringData(view.worker), unsafe.StringData(k.worker))
	}
	require.Zero(t, s.intake.candidates[:1][0], "the scratch refers to nothing")
	require.Zero(t, s.intake.origins[:1][0])
}

// One copy of an item a key and batch, one of a resource as long as it does not
// change.
func TestSMP19CopiesPerBatch(t *testing.T) {
	s := newLogState(testConfig())
	ld := logsOf(rank(0, 1))
	rank(1, 1).appendTo(ld)
	records := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	ld.ResourceLogs().At(1).ScopeLogs().At(0).LogRecords().MoveAndAppendTo(records)
	records.At(0).CopyTo(records.AppendEmpty())
	take := func() {
		s.ingest(time.Now(), func(in *intake[plog.LogRecord]) {
			intakeLogs(in, ld)
			require.Len(t, in.candidates, 2)
		})
	}
	take()
	kept := s.entries[keyOf(rank(0, 0))].pending.origin
	require.Same(t, kept, s.entries[keyOf(rank(1, 0))].pending.origin)
	take()
	require.Same(t, kept, s.entries[keyOf(rank(0, 0))].pending.origin)
}

// A huge batch leaves no huge scratch behind.
func TestSMP19ScratchIsBounded(t *testing.T) {
	s := newLogState(testConfig())
	fillKeys(s, time.Now(), 2*maxScratch)
	require.LessOrEqual(t, cap(s.intake.candidates), maxScratch)
}

func TestSMP19OnePendingRecordAKey(t *testing.T) {
	s := newLogState(testConfig())
	now := time.Now()
	var sum tally
	for i := range int64(32) {
		for r := range int64(256) {
			sum.replaced += offer(s, now, rank(r, i)).replaced
		}
	}
	require.Len(t, s.entries, 256)
	require.Len(t, s.waiting, 256)
	require.EqualValues(t, 256*31, sum.replaced)
	require.Equal(t, 256, serve(s, now, accepted))
}

func TestSMP20KeyWithoutArrivalForIdleTTLIsForgotten(t *testing.T) {
	cfg := testConfig()
	cfg.IdleTTL = time.Second
	onBothSignals(t, cfg, func(r *rig) {
		t := r.t
		r.send(rank(0, 5), rank(1, 5))
		for range 9 { // suppressed arrivals keep rank 1 alive
			tick()
			r.send(rank(1, 5))
		}
		require.EqualValues(t, 2, r.count("keys", ""))
		tick()
		require.EqualValues(t, 1, r.count("keys", ""))
		require.EqualValues(t, 1, r.count("keys_evicted", ""))
		r.send(rank(0, 5), rank(1, 5)) // rank 0 is the first of a new key
		tick()
		require.Equal(t, []string{"0:5 1:5", "0:5"}, r.passes())
	})
}

func TestSMP20ForgottenKeyIsNewWithoutATickBetween(t *testing.T) {
	cfg := testConfig()
	cfg.IdleTTL = time.Second
	s := newLogState(cfg)
	now := time.Now()
	offer(s, now, rank(0, 5))
	require.Equal(t, 1, serve(s, now, accepted))
	s.nextTick = now.Add(time.Hour)
	require.EqualValues(t, 1, offer(s, now.Add(time.Second-1), rank(0, 5)).suppressed)
	got := offer(s, now.Add(2*time.Second-1), rank(0, 5))
	require.Equal(t, tally{in: 1, evicted: 1, keys: 0}, got)
}

func TestSMP20PendingKeySurvivesItsTTL(t *testing.T) {
	cfg := testConfig()
	cfg.IdleTTL = time.Second
	s := newLogState(cfg)
	now := time.Now()
	s.start(now.Add(time.Hour)) // a tick that never comes in time
	offer(s, now, rank(0, 5))
	later := now.Add(time.Minute)
	require.Zero(t, offer(s, later, rank(1, 1)).evicted)
	require.Equal(t, 2, serve(s, later, refused))
	_, swept := s.fetchTick(later)
	require.EqualValues(t, 1, swept.evicted, "once it has left, the TTL counts")
	require.Len(t, s.entries, 1)
}

func TestSMP20ShortLivedWorkersDoNotAddUp(t *testing.T) {
	cfg := testConfig()
	cfg.IdleTTL = time.Second
	s := newLogState(cfg)
	now := time.Now()
	s.start(now)
	var keys, evicted, most int64
	ld := logsOf(rank(0, 1))
	resource := ld.ResourceLogs().At(0).Resource().Attributes()
	for i := range 100_000 { // 1000 new workers a second
		now = now.Add(time.Millisecond)
		resource.PutStr(fpmpdata.AttrServiceInstanceID, strconv.Itoa(i))
		got := s.ingest(now, func(in *intake[plog.LogRecord]) { intakeLogs(in, ld) })
		keys, evicted, most = keys+got.keys, evicted+got.evicted, max(most, keys+got.keys)
		if batch, swept := s.fetchTick(now); len(batch) > 0 {
			s.settle(batch, accepted)
			keys, evicted = keys+swept.keys, evicted+swept.evicted
		}
	}
	require.LessOrEqual(t, most, int64(1201), "idle_ttl plus one interval of workers")
	require.EqualValues(t, len(s.entries), keys)
	require.EqualValues(t, 100_000, keys+evicted)
	require.Equal(t, len(s.entries), s.idle.list.Len()+len(s.waiting))
}

// fillKeys makes n keys, ranks 0 to n-1, all pending, and no room for more.
func fillKeys(s *state[plog.LogRecord], now time.Time, n int) {
	s.limit = n
	ld := logsOf(rank(0, 1))
	records := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	for records.Len() < n {
		records.At(0).CopyTo(records.AppendEmpty())
	}
	for i, record := range records.All() {
		record.Attributes().PutInt(fpmpdata.AttrDPRank, int64(i))
	}
	s.ingest(now, func(in *intake[plog.LogRecord]) { intakeLogs(in, ld) })
}

// fewKeys stands for maxKeys, so that the tests don't take seconds.
const fewKeys = 512

func TestSMP21NewKeyEvictsTheLongestIdle(t *testing.T) {
	s := newLogState(testConfig())
	now := time.Now()
	fillKeys(s, now, fewKeys)
	require.Equal(t, tally{in: 1, droppedMaxKeys: 1}, offer(s, now, rank(fewKeys, 1)), "all have something pending")
	require.Equal(t, fewKeys, serve(s, now, accepted))

	offer(s, now, rank(0, 1))              // suppressed, yet no longer the longest idle
	offer(s, now, rank(1, 2))              // pending
	got := offer(s, now, rank(fewKeys, 1)) // evicts rank 2
	require.Equal(t, tally{in: 1, evicted: 1}, got, "one key more, one less")
	require.Len(t, s.entries, fewKeys)
	require.Contains(t, s.entries, keyOf(rank(0, 0)))
	require.Contains(t, s.entries, keyOf(rank(1, 0)))
	require.NotContains(t, s.entries, keyOf(rank(2, 0)))
	require.Contains(t, s.entries, keyOf(rank(fewKeys, 0)))
}

func TestSMP21MaxKeysIsWhatTheDocumentsSay(t *testing.T) {
	require.Equal(t, 65536, maxKeys)
	require.Equal(t, maxKeys, newLogState(testConfig()).limit)
}

// A key that is on its way is not idle yet.
func TestSMP21KeysOnTheirWayAreNotEvicted(t *testing.T) {
	s := newLogState(testConfig())
	now := time.Now()
	fillKeys(s, now, fewKeys)
	s.nextTick = now
	batch, _ := s.fetchTick(now)
	require.EqualValues(t, 1, offer(s, now, rank(fewKeys, 1)).droppedMaxKeys)
	s.settle(batch, accepted)
	require.EqualValues(t, 1, offer(s, now, rank(fewKeys, 1)).evicted)
}

// The idle keys stay in the order of their last arrivals whatever happens.
func TestSMP21IdleOrderIsThatOfTheLastArrivals(t *testing.T) {
	s := newLogState(testConfig())
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	var away []outgoing[plog.LogRecord]
	for range 5000 {
		now = now.Add(time.Millisecond)
		switch random.IntN(20) {
		case 0:
			if away == nil {
				s.nextTick = now
				away, _ = s.fetchTick(now)
			}
		case 1:
			s.settle(away, outcome(random.IntN(2)))
			away = nil
		default:
			offer(s, now, rank(random.Int64N(50), random.Int64N(3)))
		}
		require.True(t, slices.IsSorted(idleArrivals(s)))
	}
}

func idleArrivals(s *state[plog.LogRecord]) []uint64 {
	var arrivals []uint64
	for e := s.idle.list.Front(); e != nil; e = e.Next() {
		arrivals = append(arrivals, e.Value.(*entry[plog.LogRecord]).arrival)
	}
	return arrivals
}
