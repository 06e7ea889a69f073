// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"math/rand/v2"
	"time"
)

// randomStream keeps the random numbers of one purpose, so that one more draw
// for arrivals does not shift those for durations.
type randomStream struct{ *rand.Rand }

const (
	streamArrivals uint64 = iota + 1
	streamRequests
	streamDurations
)

func newRandomStream(cfg *Config, purpose uint64) randomStream {
	// The four parts are mixed through one generator: equal low bits of seed and
	// rank then do not give related streams.
	mix := rand.NewPCG(cfg.Seed, uint64(cfg.Rank)<<32^cfg.Incarnation<<8^purpose) //nolint:gosec // a simulation, and rank is not negative
	return randomStream{rand.New(rand.NewPCG(mix.Uint64(), mix.Uint64()))}        //nolint:gosec // a simulation needs no secrets
}

// exponential draws the time to the next event of a Poisson process.
func (r randomStream) exponential(perSecond float64) time.Duration {
	return seconds(r.ExpFloat64() / perSecond)
}

// lognormal draws a factor with median 1.
func (r randomStream) lognormal(sigma float64) float64 {
	return math.Exp(float64(sigma * r.NormFloat64()))
}

// tokens draws a length of at least 1 and at most limit.
func (r randomStream) tokens(l Lengths, limit int64) int64 {
	drawn := math.Round(float64(l.Median * r.lognormal(l.Sigma)))
	return int64(min(max(drawn, 1), float64(limit)))
}

// seconds rounds to whole nanoseconds. Last-digit differences of math.Exp
// between processor types thus do not reach the payload.
func seconds(s float64) time.Duration {
	const limit = float64(math.MaxInt64 / 4)
	return time.Duration(min(math.Round(float64(s*float64(time.Second))), limit))
}
