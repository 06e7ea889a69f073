// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine simulates the scheduler of an LLM engine and yields the forward
// pass records that such an engine publishes: continuous batching with Poisson
// arrivals, chunked prefill under a token budget, prefix-cache hits, growing
// decodes, queueing and preemption when the KV cache is full, idle phases and
// heartbeats. Time is virtual: a simulation runs as fast as it is asked to, and
// equal configurations yield equal records. Publishing is the caller's affair.
package engine

import (
	"fmt"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// Engine is one simulated rank. It is not safe for concurrent use.
type Engine struct {
	cfg       Config
	work      *workload
	sched     scheduler
	durations randomStream
	workerID  []byte

	now       time.Duration // the scheduler's clock
	published time.Duration // when the last record went out
	counter   int64
	busy      bool // a pass runs: flight
	flight    flight
}

// flight is a pass that runs.
type flight struct {
	end       time.Duration
	duration  time.Duration
	scheduled fpm.Scheduled
}

// Record is what the engine publishes next.
type Record struct {
	// Pass is complete but for its encoding. WorkerID is shared by all records
	// and must not be changed. CounterID counts from 0 (STR-23).
	Pass fpm.ForwardPass
	// At is when the record goes out, since the start of the engine.
	At time.Duration
	// Duration is the pass's duration, 0 for a heartbeat.
	Duration time.Duration
}

// Stats are totals since the start.
type Stats struct {
	Arrived, Rejected, Finished int64 // requests
	PromptTokens, CachedTokens  int64 // of the arrived requests that were not rejected
	GeneratedTokens             int64
	Preemptions                 int64
	RecomputedTokens            int64 // computed tokens that preemptions threw away
}

// New returns an engine at virtual time 0 with nothing to do yet.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{cfg: cfg, workerID: []byte(cfg.WorkerID)}
	e.work = newWorkload(&e.cfg)
	e.durations = newRandomStream(&e.cfg, streamDurations)
	e.sched = scheduler{
		budget:   cfg.TokenBudget,
		maxBatch: cfg.MaxBatch,
		kv:       kvCache{free: cfg.KVTokens / blockTokens},
	}
	return e, nil
}

// Stats returns the totals so far.
func (e *Engine) Stats() Stats { return e.sched.stats }

// Step runs the simulation up to the next record. There always is one: an idle
// engine, or one in a pass longer than the heartbeat interval, sends heartbeats
// (STR-25).
func (e *Engine) Step() Record {
	for {
		beat := e.published + e.cfg.HeartbeatInterval
		if !e.busy && !e.launch() {
			if e.work.ended || e.work.next > beat {
				return e.heartbeat(beat)
			}
			e.now = max(e.now, e.work.next)
			continue
		}
		if e.flight.end > beat {
			return e.heartbeat(beat)
		}
		return e.land()
	}
}

// launch plans the next pass and sets it going, if there is work.
func (e *Engine) launch() bool {
	e.receive()
	if !e.sched.plan() {
		return false
	}
	e.flight.scheduled = e.sched.scheduled()
	e.flight.duration = e.duration(&e.flight.scheduled)
	e.flight.end = e.now + e.flight.duration
	e.busy = true
	return true
}

// land ends the running pass. Its record shows the queue at emit time.
func (e *Engine) land() Record {
	done := &e.flight
	e.busy = false
	e.now = done.end
	e.sched.complete()
	e.receive()
	record := e.record(done.end)
	record.Duration = done.duration
	record.Pass.WallTime = done.duration.Seconds()
	record.Pass.Scheduled = done.scheduled
	record.Pass.Queued = e.sched.queued()
	return record
}

// receive takes in the requests that have arrived by now.
func (e *Engine) receive() {
	stats := &e.sched.stats
	for r := e.work.due(e.now); r != nil; r = e.work.due(e.now) {
		stats.Arrived++
		if len(e.sched.waiting) >= e.cfg.MaxWaiting {
			stats.Rejected++
			continue
		}
		stats.PromptTokens += r.prompt
		stats.CachedTokens += r.cached
		e.sched.waiting = append(e.sched.waiting, r)
	}
}

func (e *Engine) heartbeat(at time.Duration) Record {
	record := e.record(at)
	if !e.busy {
		e.now = max(e.now, at)
	}
	// All-zero, variances included (STR-25).
	record.Pass.Scheduled.HasPrefillLengthVariance, record.Pass.Scheduled.HasDecodeKVVariance = true, true
	record.Pass.Queued.HasPrefillLengthVariance, record.Pass.Queued.HasDecodeKVVariance = true, true
	return record
}

func (e *Engine) record(at time.Duration) Record {
	e.published = at
	record := Record{At: at}
	record.Pass.WorkerID = e.workerID
	record.Pass.DPRank = e.cfg.Rank
	record.Pass.CounterID = e.counter
	e.counter++
	return record
}

func (e *Engine) duration(work *fpm.Scheduled) time.Duration {
	cost := &e.cfg.Cost
	kvTokens := work.PrefillKVTokens + work.DecodeKVTokens
	exact := cost.Fixed +
		time.Duration(work.PrefillTokens)*cost.PerPrefillToken +
		time.Duration(work.DecodeRequests)*cost.PerDecode +
		time.Duration(kvTokens)*cost.PerKVToken
	factor := e.durations.lognormal(cost.NoiseSigma)
	if e.durations.Float64() < cost.StallRatio {
		factor *= cost.StallFactor
	}
	return max(seconds(float64(exact.Seconds()*factor)), time.Nanosecond)
}
