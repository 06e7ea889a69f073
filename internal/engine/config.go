// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// blockTokens is the size of a KV-cache block, as in vLLM's default.
const blockTokens = 16

// Config describes one data-parallel rank of a simulated engine.
type Config struct {
	// Seed, Rank and Incarnation select the random streams: equal values give
	// equal records. Incarnation counts the lives of a restarted engine.
	Seed        uint64
	Rank        int64
	Incarnation uint64

	WorkerID string

	// RequestRate is the mean number of requests a second (virtual time); they
	// arrive as a Poisson process. 0: no requests, heartbeats only.
	RequestRate float64
	// IdleEvery and IdleFor describe phases without arrivals: in each period of
	// IdleEvery the first IdleFor get none. The first period has no such
	// phase. 0: no idle phases.
	IdleEvery, IdleFor time.Duration

	Prompt, Output Lengths
	// PrefixHitRatio is the share of requests that find a prefix of their prompt
	// in the cache, in [0, 1].
	PrefixHitRatio float64

	// TokenBudget is the most tokens that one pass computes; longer prefills are
	// chunked. MaxBatch bounds the running requests.
	TokenBudget, MaxBatch int64
	// KVTokens is the size of the KV cache. It must hold at least one request of
	// MaxContext tokens, to which prompt + output are cut.
	KVTokens, MaxContext int64
	// MaxWaiting bounds the queue; requests beyond it are turned away and counted.
	MaxWaiting int

	// HeartbeatInterval is the silence after which the publisher repeats an
	// all-zero record (STR-25).
	HeartbeatInterval time.Duration

	Cost Cost
}

// Lengths is a lognormal distribution of token counts.
type Lengths struct {
	Median float64
	Sigma  float64 // standard deviation of the logarithm
}

// Cost models the duration of a pass: a constant part and one for each kind of
// work, with lognormal noise and rare stalls of the host.
type Cost struct {
	Fixed           time.Duration
	PerPrefillToken time.Duration
	PerDecode       time.Duration // for each decoding request
	PerKVToken      time.Duration // for each KV token read
	NoiseSigma      float64       // standard deviation of the logarithm of the noise factor
	StallRatio      float64       // share of the passes that take StallFactor times as long
	StallFactor     float64
}

// DefaultConfig is a mid-size model on one GPU with about 60 % load.
func DefaultConfig() Config {
	return Config{
		WorkerID:          "4192",
		RequestRate:       4,
		Prompt:            Lengths{Median: 700, Sigma: 1},
		Output:            Lengths{Median: 180, Sigma: 0.8},
		PrefixHitRatio:    0.35,
		TokenBudget:       2048,
		MaxBatch:          256,
		KVTokens:          131072,
		MaxContext:        32768,
		MaxWaiting:        1024,
		HeartbeatInterval: time.Second,
		Cost:              DefaultCost(),
	}
}

// DefaultCost is the cost of a mid-size model on one GPU.
func DefaultCost() Cost {
	return Cost{
		Fixed:           6 * time.Millisecond,
		PerPrefillToken: 40 * time.Microsecond,
		PerDecode:       50 * time.Microsecond,
		PerKVToken:      15 * time.Nanosecond,
		NoiseSigma:      0.04,
		StallRatio:      0.001,
		StallFactor:     8,
	}
}

// Validate names the first value that makes no engine.
func (c *Config) Validate() error {
	switch {
	case c.Rank < 0:
		return fmt.Errorf("rank %d is negative", c.Rank)
	case !(c.RequestRate >= 0) || c.RequestRate > 1e6:
		return fmt.Errorf("request rate %v is not in 0..1e6 requests/s", c.RequestRate)
	case c.PrefixHitRatio < 0 || c.PrefixHitRatio > 1:
		return fmt.Errorf("prefix hit ratio %v is not in 0..1", c.PrefixHitRatio)
	case c.TokenBudget < 1 || c.MaxBatch < 1:
		return errors.New("token budget and batch size must be at least 1")
	case c.MaxContext < 2:
		return fmt.Errorf("a context of %d tokens has no room for a prompt and an output token", c.MaxContext)
	case c.KVTokens/blockTokens < blocksFor(c.MaxContext):
		return fmt.Errorf("a KV cache of %d tokens cannot hold one context of %d", c.KVTokens, c.MaxContext)
	case c.MaxWaiting < 1:
		return errors.New("the queue must hold at least 1 request")
	case c.HeartbeatInterval <= 0:
		return fmt.Errorf("heartbeat interval %v is not positive", c.HeartbeatInterval)
	case c.IdleEvery < 0 || c.IdleFor < 0:
		return errors.New("idle phases cannot be negative")
	case c.IdleFor > 0 && c.IdleFor >= c.IdleEvery:
		return fmt.Errorf("idle for %v does not fit into idle every %v", c.IdleFor, c.IdleEvery)
	}
	if err := c.Prompt.validate(); err != nil {
		return fmt.Errorf("prompt %w", err)
	}
	if err := c.Output.validate(); err != nil {
		return fmt.Errorf("output %w", err)
	}
	return c.Cost.validate()
}

func (l Lengths) validate() error {
	if !(l.Median >= 1) || l.Median > 1e9 || !(l.Sigma >= 0) || l.Sigma > 10 {
		return fmt.Errorf("lengths of median %v and sigma %v are not in 1..1e9 and 0..10", l.Median, l.Sigma)
	}
	return nil
}

func (c Cost) validate() error {
	if c.Fixed <= 0 || c.PerPrefillToken < 0 || c.PerDecode < 0 || c.PerKVToken < 0 {
		return errors.New("the fixed cost must be positive and the others not negative")
	}
	if !(c.NoiseSigma >= 0) || c.NoiseSigma > 2 || !(c.StallFactor >= 0) || math.IsInf(c.StallFactor, 1) {
		return errors.New("noise sigma must be in 0..2 and the stall factor finite")
	}
	return nil
}
