// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

const (
	exactRanks  = 4
	exactPasses = 5000 // of each rank
	exactWorker = "4192"
)

// TestTotalsAreExact_STR101 publishes 20,000 random records on four ranks while
// Prometheus scrapes. What it has stored in the end is exactly what was sent:
// every counter, every bucket, count and sum of every histogram; gauges as the
// last record left them; no other series.
func TestTotalsAreExact_STR101(t *testing.T) {
	s := newStage(t, setup{endpoints: exactRanks, metrics: "idle_after: 1h"})
	server := s.prometheus()
	started := time.Now()
	streams := newExactStreams()
	for _, half := range []int{0, 1} {
		for i := half * exactPasses / 2; i < (half+1)*exactPasses/2; i++ {
			for rank := range streams {
				streams[rank].sendNext(s, rank, i == exactPasses-1)
			}
		}
		s.arrived() // every series has been scraped while there was more to come
		requireStored(t, server, s, streams)
	}
	requireMonotonic(t, server)
	for _, series := range server.Query("fpm_endpoint_last_record_time_seconds") {
		require.Greater(t, series.Last(), float64(started.UnixNano())/1e9)
		require.Less(t, series.Last(), float64(time.Now().UnixNano())/1e9)
	}
}

// requireStored waits until what Prometheus has equals what was sent so far.
func requireStored(t *testing.T, server *promtest.Server, s *stage, streams []*exactStream) {
	t.Helper()
	want := expected{}
	for rank, stream := range streams {
		maps.Copy(want, stream.want)
		endpoint := labels{"job": "default/backend", "instance": s.instance(rank)}
		want.set("fpm_endpoint_up", endpoint, 1)
		want.set("fpm_endpoint_restarts_total", endpoint, 0)
	}
	deadline := time.Now().Add(harness.Patience)
	for {
		differences := want.differences(server.Query(`{__name__=~"fpm_.*",__name__!="fpm_endpoint_last_record_time_seconds"}`))
		if len(differences) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d series differ:\n%s", len(differences), len(want), strings.Join(differences[:min(40, len(differences))], "\n"))
		}
		time.Sleep(promtest.ScrapeInterval)
	}
}

// exactStream publishes one rank and adds up what it sent.
type exactStream struct {
	labels labels
	rank   int64
	random *rand.Rand
	want   expected
	began  bool
}

func newExactStreams() (all []*exactStream) {
	for rank := range exactRanks {
		stream := &exactStream{
			rank: int64(rank), want: expected{}, random: rand.New(rand.NewPCG(101, uint64(rank))),
			labels: labels{
				"job": "default/backend", "instance": exactWorker, "fpm_backend": "vllm", "fpm_dp_rank": strconv.Itoa(rank),
			},
		}
		stream.want.begin(stream.labels)
		all = append(all, stream)
	}
	return all
}

// sendNext publishes a record, sometimes after a hole, and sometimes a duplicate
// behind it, which must change nothing whatever it holds (STR-66). The last one of
// a rank is of another kind on each.
func (x *exactStream) sendNext(s *stage, endpoint int, last bool) {
	kind := x.random.Float64()
	if last {
		kind = []float64{0, .75, .85, .95}[x.rank]
	}
	r := x.record(kind)
	missing := uint64(0)
	if x.began && x.random.IntN(100) == 0 {
		missing = 1 + x.random.Uint64N(5)
	}
	x.began = true
	s.sendAs(endpoint, s.sequences[endpoint]+missing, r)
	x.want.fold(x.labels, &r, missing)
	if x.random.IntN(200) == 0 {
		duplicate := x.record(0)
		s.sendAs(endpoint, s.sequences[endpoint]-1, duplicate)
	}
}

// record is random, of a kind that a number from 0 to 1 chooses.
func (x *exactStream) record(kind float64) record {
	r := heartbeat(exactWorker)
	r.DPRank = x.rank
	r.TimingScope = []string{"", "", "", "execute_model_cuda", "step_cpu"}[x.random.IntN(5)]
	switch {
	case kind < .7:
		x.work(&r)
		r.WallTime = x.wallTime()
	case kind < .8: // STR-63c
		x.work(&r)
		r.Scheduled.DecodeKVTokens++
		r.WallTime = []float64{0, 86400.5}[x.random.IntN(2)]
	case kind < .9:
		r.Queued.PrefillRequests = 1 + x.random.Int64N(9)
	}
	return r
}

// work fills in a composition: of both phases, of one, or of none.
func (x *exactStream) work(r *record) {
	if x.random.IntN(2) == 0 {
		r.Scheduled.PrefillRequests = x.count(1, 1500)
		r.Scheduled.PrefillTokens = x.count(1, 20_000)
		r.Scheduled.PrefillKVTokens = x.count(0, 100_000)
		r.Scheduled.PrefillLengthVariance = x.random.Float64() * 1e6
	}
	if x.random.IntN(3) > 0 {
		r.Scheduled.DecodeRequests = x.count(1, 1500)
		r.Scheduled.DecodeKVTokens = x.count(0, 1e9)
	}
	r.Queued = queued{
		PrefillRequests: x.count(0, 50), PrefillTokens: x.count(0, 50_000),
		DecodeRequests: x.count(0, 50), DecodeKVTokens: x.count(0, 50_000),
	}
}

// count is random over all magnitudes, and often just a bound of a bucket.
func (x *exactStream) count(low, high int64) int64 {
	if x.random.IntN(4) == 0 {
		return min(high, max(low, 1<<x.random.IntN(15)))
	}
	return min(high, low+x.random.Int64N(1+x.random.Int64N(high)))
}

// wallTime is that of an engine, or just a bound of a bucket, or extreme.
func (x *exactStream) wallTime() float64 {
	switch x.random.IntN(10) {
	case 0:
		return durationBounds[x.random.IntN(len(durationBounds))]
	case 1:
		return slices.Max([]float64{1e-9, x.random.ExpFloat64() * 100})
	default:
		return x.random.ExpFloat64() * .03
	}
}
