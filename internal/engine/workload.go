// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

// workload makes the requests of one rank: when they arrive and how long they are.
type workload struct {
	cfg      *Config
	arrivals randomStream
	lengths  randomStream
	next     time.Duration // arrival of the next request, virtual time
	ended    bool          // no further request arrives
}

func newWorkload(cfg *Config) *workload {
	w := &workload{
		cfg:      cfg,
		arrivals: newRandomStream(cfg, streamArrivals),
		lengths:  newRandomStream(cfg, streamRequests),
		ended:    cfg.RequestRate == 0,
	}
	w.schedule(0)
	return w
}

// due returns the next request that has arrived by now, nil when there is none.
func (w *workload) due(now time.Duration) *request {
	if w.ended || w.next > now {
		return nil
	}
	w.schedule(w.next)
	return w.request()
}

func (w *workload) schedule(after time.Duration) {
	if w.ended {
		return
	}
	w.next = w.afterIdle(after + w.arrivals.exponential(w.cfg.RequestRate))
}

// afterIdle moves an arrival that falls into an idle phase behind it. The time
// between arrivals has no memory, so a fresh draw there stays a Poisson process.
func (w *workload) afterIdle(at time.Duration) time.Duration {
	for w.cfg.IdleFor > 0 && at >= w.cfg.IdleEvery {
		phase := at % w.cfg.IdleEvery
		if phase >= w.cfg.IdleFor {
			return at
		}
		at += w.cfg.IdleFor - phase + w.arrivals.exponential(w.cfg.RequestRate)
	}
	return at
}

func (w *workload) request() *request {
	prompt := w.lengths.tokens(w.cfg.Prompt, w.cfg.MaxContext-1)
	output := w.lengths.tokens(w.cfg.Output, w.cfg.MaxContext-prompt)
	return &request{prompt: prompt, output: output, cached: w.cachedPrefix(prompt)}
}

// cachedPrefix draws whole blocks; at least one token is left to compute.
func (w *workload) cachedPrefix(prompt int64) int64 {
	hit, share := w.lengths.Float64() < w.cfg.PrefixHitRatio, w.lengths.Float64()
	if !hit {
		return 0
	}
	return int64(float64(share*float64(prompt-1))) / blockTokens * blockTokens
}
