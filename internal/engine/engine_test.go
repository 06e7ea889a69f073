// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

func newEngine(tb testing.TB, cfg Config) *Engine {
	tb.Helper()
	e, err := New(cfg)
	require.NoError(tb, err)
	return e
}

// crowded has too little KV cache for its load, so that it preempts.
func crowded() Config {
	cfg := DefaultConfig()
	cfg.RequestRate = 2
	cfg.KVTokens, cfg.MaxContext = 8192, 4096
	cfg.Output.Median = 400
	return cfg
}

// run steps through n records, then through those of an engine that gets no
// further request until it has nothing left to do.
func run(tb testing.TB, e *Engine, n int, see func(Record)) {
	tb.Helper()
	for range n {
		see(e.Step())
	}
	e.work.ended = true
	for i := 0; e.busy || !e.sched.empty(); i++ {
		require.Less(tb, i, 10_000_000, "the engine does not come to an end")
		see(e.Step())
	}
}

func payloadHash(tb testing.TB, cfg Config, n int) string {
	tb.Helper()
	e := newEngine(tb, cfg)
	sum := sha256.New()
	var payload []byte
	for range n {
		record := e.Step()
		payload = fpm.AppendPayload(payload[:0], &record.Pass)
		sum.Write(payload)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func TestEqualConfigurationsYieldEqualPayloads(t *testing.T) {
	cfg := crowded()
	cfg.Seed = 7
	const golden = "e352300932689e8477a2dc5e530249ba3fe1f9dab3bc94e8a2a007eb99fd4401"
	require.Equal(t, golden, payloadHash(t, cfg, 20_000))

	for name, change := range map[string]func(*Config){
		"seed":        func(c *Config) { c.Seed++ },
		"rank":        func(c *Config) { c.Rank++ },
		"incarnation": func(c *Config) { c.Incarnation++ },
	} {
		other := cfg
		change(&other)
		require.NotEqual(t, golden, payloadHash(t, other, 20_000), name)
	}
}

func TestRankAndSeedAreIndependentWorkloads(t *testing.T) {
	lengths := func(seed uint64, rank int64) (out [8]int64) {
		cfg := DefaultConfig()
		cfg.Seed, cfg.Rank = seed, rank
		w := newWorkload(&cfg)
		for i := range out {
			out[i] = w.request().prompt
		}
		return out
	}
	seen := map[[8]int64]bool{}
	for seed := range uint64(8) {
		for rank := range int64(8) {
			seen[lengths(seed, rank)] = true
		}
	}
	require.Len(t, seen, 64)
}

// expected replays the workload alone and tells what an engine must do for the
// requests it took.
type expected struct{ prompt, cached, output int64 }

func replay(cfg Config, arrived int64) (sum expected) {
	w := newWorkload(&cfg)
	for range arrived {
		r := w.due(math.MaxInt64)
		sum.prompt += r.prompt
		sum.cached += r.cached
		sum.output += r.output
	}
	return sum
}

func TestTokensAreConserved(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg      Config
		preempts bool
	}{
		"roomy":   {cfg: DefaultConfig()},
		"crowded": {cfg: crowded(), preempts: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.MaxWaiting = 1 << 20 // nobody is turned away
			e := newEngine(t, tc.cfg)
			var prefill, decodes int64
			run(t, e, 10_000, func(r Record) {
				prefill += r.Pass.Scheduled.PrefillTokens
				decodes += r.Pass.Scheduled.DecodeRequests
			})
			stats, want := e.Stats(), replay(tc.cfg, e.Stats().Arrived)

			require.Positive(t, stats.Arrived)
			require.Equal(t, stats.Arrived, stats.Finished, "every request ends")
			require.Equal(t, want.prompt, stats.PromptTokens)
			require.Equal(t, want.cached, stats.CachedTokens)
			require.Positive(t, want.cached)
			require.Equal(t, want.output, stats.GeneratedTokens)
			require.Equal(t, tc.preempts, stats.Preemptions > 0)
			// Each token is computed once, but for the cached ones, the last one
			// generated, and those a preemption threw away.
			require.Equal(t, want.prompt-want.cached+want.output-stats.Arrived+stats.RecomputedTokens, prefill+decodes)
			if !tc.preempts {
				require.Equal(t, want.prompt-want.cached, prefill)
			}
			require.Equal(t, tc.cfg.KVTokens/blockTokens, e.sched.kv.free, "all KV blocks are free again")
		})
	}
}

func TestPassesStayWithinTheLimits(t *testing.T) {
	cfg := crowded()
	e := newEngine(t, cfg)
	var kinds [4]int
	var preempted, waited, chunked bool
	last := time.Duration(0)
	counter := int64(0)
	run(t, e, 20_000, func(r Record) {
		s, q := r.Pass.Scheduled, r.Pass.Queued
		if s.PrefillTokens+s.DecodeRequests > cfg.TokenBudget || s.PrefillRequests+s.DecodeRequests > cfg.MaxBatch ||
			s.DecodeKVTokens+s.PrefillKVTokens > cfg.KVTokens || e.sched.kv.free < 0 {
			t.Fatalf("over a limit: %+v, %d blocks free", s, e.sched.kv.free)
		}
		if r.At < last || r.Pass.CounterID != counter {
			t.Fatalf("record %d at %v follows one at %v", r.Pass.CounterID, r.At, last)
		}
		last = r.At
		counter++
		preempted = preempted || q.DecodeRequests > 0 && q.DecodeKVTokens > 0
		waited = waited || q.PrefillRequests > 1 && q.PrefillLengthVariance > 0
		chunked = chunked || s.PrefillRequests > 0 && s.PrefillTokens+s.DecodeRequests == cfg.TokenBudget
		if r.Duration > 0 {
			kinds[r.Pass.PassKind()]++
		}
	})
	require.True(t, preempted)
	require.True(t, waited)
	require.True(t, chunked)
	require.Positive(t, kinds[fpm.PassPrefill])
	require.Positive(t, kinds[fpm.PassDecode])
	require.Positive(t, kinds[fpm.PassMixed])
	require.Zero(t, kinds[fpm.PassEmpty])
}

func TestFullQueueTurnsRequestsAway(t *testing.T) {
	cfg := crowded()
	cfg.RequestRate, cfg.MaxWaiting = 200, 5
	e := newEngine(t, cfg)
	run(t, e, 2_000, func(Record) { require.LessOrEqual(t, len(e.sched.waiting), 5) })
	stats := e.Stats()
	require.Positive(t, stats.Rejected)
	require.Equal(t, stats.Arrived, stats.Finished+stats.Rejected)
}

// TestVarianceIsThatOfThePopulation compares with exact arithmetic.
func TestVarianceIsThatOfThePopulation(t *testing.T) {
	exact := func(lengths []int64) float64 {
		n := big.NewInt(int64(len(lengths)))
		sum, squares := new(big.Int), new(big.Int)
		for _, x := range lengths {
			sum.Add(sum, big.NewInt(x))
			squares.Add(squares, new(big.Int).Mul(big.NewInt(x), big.NewInt(x)))
		}
		numerator := new(big.Int).Sub(new(big.Int).Mul(n, squares), new(big.Int).Mul(sum, sum))
		v, _ := new(big.Rat).SetFrac(numerator, new(big.Int).Mul(n, n)).Float64()
		return v
	}
	random := newRandomStream(&Config{Seed: 1}, streamRequests)
	for range 200 {
		lengths := make([]int64, 1+random.IntN(300))
		var m moments
		var sum int64
		for i := range lengths {
			lengths[i] = random.tokens(Lengths{Median: 900, Sigma: 1}, 1<<20)
			m.add(lengths[i])
			sum += lengths[i]
		}
		require.InEpsilon(t, 1+exact(lengths), 1+m.variance(), 1e-12)
		require.Equal(t, sum, m.sum)
	}
	require.Zero(t, new(moments).variance())
}

func TestPayloadFieldsOfAKnownBatch(t *testing.T) {
	decoding := func(context int64) *request {
		return &request{prompt: context - 9, generated: 10, output: 99, computed: context, prefill: context - 9}
	}
	s := scheduler{
		batch: []work{
			{request: &request{prompt: 120, computed: 64, prefill: 120}, tokens: 56},
			{request: &request{prompt: 100, computed: 0, prefill: 100}, tokens: 100},
			{request: decoding(200), tokens: 1},
			{request: decoding(400), tokens: 1},
			{request: decoding(300), tokens: 1},
		},
		waiting:   []*request{{prompt: 10}, {prompt: 30}},
		preempted: []*request{{prompt: 50}, {prompt: 50, generated: 7}},
	}
	require.Equal(t, fpm.Scheduled{
		PrefillRequests: 2, PrefillTokens: 156, PrefillKVTokens: 64, PrefillLengthVariance: 100, HasPrefillLengthVariance: true,
		DecodeRequests: 3, DecodeKVTokens: 900, DecodeKVVariance: 20000.0 / 3, HasDecodeKVVariance: true,
	}, s.scheduled())
	require.Equal(t, fpm.Queued{
		PrefillRequests: 3, PrefillTokens: 90, PrefillLengthVariance: 800.0 / 3, HasPrefillLengthVariance: true,
		DecodeRequests: 1, DecodeKVTokens: 57, DecodeKVVariance: 0, HasDecodeKVVariance: true,
	}, s.queued())
}

func TestIdleEngineSendsHeartbeats(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RequestRate = 0
	e := newEngine(t, cfg)
	for i := range 5 {
		r := e.Step()
		require.Equal(t, time.Duration(i+1)*time.Second, r.At)
		require.Equal(t, fpm.RecordHeartbeat, r.Pass.RecordKind())
		require.Zero(t, r.Duration)
		require.Equal(t, "4192", string(r.Pass.WorkerID))
	}
}

// TestLongPassIsAccompaniedByHeartbeats is STR-25: they are sent during a pass
// longer than the interval, too.
func TestLongPassIsAccompaniedByHeartbeats(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Cost.Fixed, cfg.Cost.NoiseSigma, cfg.Cost.StallRatio = 3500*time.Millisecond, 0, 0
	cfg.Cost.PerPrefillToken, cfg.Cost.PerDecode, cfg.Cost.PerKVToken = 0, 0, 0
	e := newEngine(t, cfg)
	var record Record
	for record.Duration == 0 { // the first one
		record = e.Step()
	}
	for range 3 {
		for beat := range 3 {
			r := e.Step()
			require.Equal(t, fpm.RecordHeartbeat, r.Pass.RecordKind())
			require.Equal(t, record.At+time.Duration(beat+1)*time.Second, r.At)
		}
		next := e.Step()
		require.Equal(t, fpm.RecordPass, next.Pass.RecordKind())
		require.Equal(t, record.At+3500*time.Millisecond, next.At)
		require.InDelta(t, 3.5, next.Pass.WallTime, 1e-12)
		record = next
	}
}

func TestIdlePhasesHaveNoArrivals(t *testing.T) {
	cfg := DefaultConfig()
	cfg.IdleEvery, cfg.IdleFor = 30*time.Second, 10*time.Second
	w := newWorkload(&cfg)
	var before, after int
	for w.next < 10*time.Minute {
		phase := w.next % cfg.IdleEvery
		if w.next >= cfg.IdleEvery {
			require.GreaterOrEqual(t, phase, cfg.IdleFor)
			after++
		} else {
			before++
		}
		w.due(w.next)
	}
	require.Positive(t, before)
	require.InDelta(t, 19*20*cfg.RequestRate, after, 200, "the other phases keep their rate")

	e := newEngine(t, cfg)
	beats := 0
	for r := e.Step(); r.At < 2*time.Minute; r = e.Step() {
		if r.Pass.RecordKind() == fpm.RecordHeartbeat {
			beats++
		}
	}
	require.Positive(t, beats)
}

func TestArrivalsArePoisson(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RequestRate = 50
	w := newWorkload(&cfg)
	const n = 20_000
	var sum, squares float64
	last := time.Duration(0)
	for range n {
		gap := (w.next - last).Seconds()
		sum += gap
		squares += gap * gap
		last = w.next
		w.due(w.next)
	}
	mean := sum / n
	require.InEpsilon(t, 0.02, mean, 0.03)
	require.InEpsilon(t, mean, math.Sqrt(squares/n-mean*mean), 0.03, "standard deviation = mean")
}

func TestLengthsAreLognormal(t *testing.T) {
	random := newRandomStream(&Config{Seed: 3}, streamRequests)
	const n = 20_000
	below := 0
	var logs, squares float64
	for range n {
		x := random.tokens(Lengths{Median: 1000, Sigma: 0.5}, 1<<40)
		if x < 1000 {
			below++
		}
		l := math.Log(float64(x))
		logs += l
		squares += l * l
	}
	require.InDelta(t, n/2, below, n/50)
	require.InEpsilon(t, 0.5, math.Sqrt(squares/n-logs/n*logs/n), 0.03)
	require.Equal(t, int64(1), random.tokens(Lengths{Median: 1, Sigma: 0}, 1))
	require.Equal(t, int64(10), random.tokens(Lengths{Median: 1e9, Sigma: 0}, 10))
}

// TestRecordsAreValidPayloads sends 100,000 records through the decoder.
func TestRecordsAreValidPayloads(t *testing.T) {
	cfg := crowded()
	cfg.RequestRate = 1.2 // about what it can serve
	e := newEngine(t, cfg)
	var payload []byte
	var decoder fpm.Decoder
	var decoded fpm.ForwardPass
	for range 100_000 {
		record := e.Step()
		payload = fpm.AppendPayload(payload[:0], &record.Pass)
		if err := decoder.Decode(payload, 0, &decoded); err != nil {
			require.NoError(t, err)
		}
		want := record.Pass
		same := want.CounterID == decoded.CounterID && want.DPRank == decoded.DPRank &&
			want.WallTime == decoded.WallTime &&
			want.Scheduled == decoded.Scheduled && want.Queued == decoded.Queued &&
			string(want.WorkerID) == string(decoded.WorkerID)
		if !same {
			require.Equal(t, want, decoded)
		}
	}
	require.Positive(t, e.Stats().Preemptions)
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"rank -1 is negative":              func(c *Config) { c.Rank = -1 },
		"request rate -1":                  func(c *Config) { c.RequestRate = -1 },
		"request rate NaN":                 func(c *Config) { c.RequestRate = math.NaN() },
		"prefix hit ratio 1.5":             func(c *Config) { c.PrefixHitRatio = 1.5 },
		"token budget and batch size":      func(c *Config) { c.TokenBudget = 0 },
		"a context of 1 tokens":            func(c *Config) { c.MaxContext = 1 },
		"cannot hold one context of 32768": func(c *Config) { c.KVTokens = 32767 },
		"the queue must hold":              func(c *Config) { c.MaxWaiting = 0 },
		"heartbeat interval 0s":            func(c *Config) { c.HeartbeatInterval = 0 },
		"idle phases cannot be negative":   func(c *Config) { c.IdleFor = -1 },
		"idle for 2s does not fit":         func(c *Config) { c.IdleFor, c.IdleEvery = 2*time.Second, time.Second },
		"prompt lengths of median 0":       func(c *Config) { c.Prompt.Median = 0 },
		"output lengths":                   func(c *Config) { c.Output.Sigma = math.NaN() },
		"fixed cost must be positive":      func(c *Config) { c.Cost.Fixed = 0 },
		"noise sigma":                      func(c *Config) { c.Cost.NoiseSigma = 3 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func BenchmarkStep(b *testing.B) {
	e := newEngine(b, DefaultConfig())
	var payload []byte
	b.ReportAllocs()
	for b.Loop() {
		record := e.Step()
		payload = fpm.AppendPayload(payload[:0], &record.Pass)
	}
}
