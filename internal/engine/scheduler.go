// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/otelcol-fpm/otelcol-fpm/internal/fpm"

// scheduler is the continuous-batching scheduler of vLLM in its main lines:
// running requests first, then waiting ones, under one token budget; when the KV
// cache is full the last running request is preempted and later recomputed.
type scheduler struct {
	budget   int64
	maxBatch int64
	kv       kvCache

	running   []*request
	preempted []*request // the last one in comes back first
	waiting   []*request // first come, first served
	batch     []work     // of the pass that is planned or runs
	stats     Stats
}

// work is the share of one request in a pass.
type work struct {
	request *request
	tokens  int64
}

// plan chooses the work of the next pass; false: there is none.
func (s *scheduler) plan() bool {
	s.batch = s.batch[:0]
	left := s.budget
	if s.planRunning(&left) {
		s.admitWaiting(&left)
	}
	return len(s.batch) > 0
}

// planRunning reports false when it had to preempt: then the pass admits nobody.
func (s *scheduler) planRunning(left *int64) bool {
	before := s.stats.Preemptions
	for i := 0; i < len(s.running) && *left > 0; i++ {
		r := s.running[i]
		n := min(r.missing(), *left)
		for i < len(s.running) && !s.kv.grow(r, r.computed+n) {
			s.preemptLast()
		}
		if i < len(s.running) { // else r itself was the last one and had to go
			s.take(r, n, left)
		}
	}
	return s.stats.Preemptions == before
}

func (s *scheduler) preemptLast() {
	last := len(s.running) - 1
	r := s.running[last]
	s.running = s.running[:last]
	s.kv.release(r)
	s.stats.Preemptions++
	s.stats.RecomputedTokens += r.computed - r.cached
	s.preempted = append(s.preempted, r)
}

// admitWaiting lets requests in until something is full. Nobody overtakes.
func (s *scheduler) admitWaiting(left *int64) {
	for len(s.preempted) > 0 {
		last := len(s.preempted) - 1
		if !s.admit(s.preempted[last], left) {
			return
		}
		s.preempted = s.preempted[:last]
	}
	for len(s.waiting) > 0 && s.admit(s.waiting[0], left) {
		s.waiting = s.waiting[1:]
	}
}

func (s *scheduler) admit(r *request, left *int64) bool {
	if *left == 0 || int64(len(s.running)) >= s.maxBatch {
		return false
	}
	r.start()
	n := min(r.missing(), *left)
	if !s.kv.grow(r, r.computed+n) {
		return false
	}
	s.running = append(s.running, r)
	s.take(r, n, left)
	return true
}

func (s *scheduler) take(r *request, tokens int64, left *int64) {
	s.batch = append(s.batch, work{request: r, tokens: tokens})
	*left -= tokens
}

// scheduled describes the planned batch in the terms of the payload. It must be
// called before complete.
func (s *scheduler) scheduled() fpm.Scheduled {
	var out fpm.Scheduled
	var prompts, contexts moments
	for _, w := range s.batch {
		if w.request.decoding() {
			contexts.add(w.request.computed)
			continue
		}
		prompts.add(w.request.prompt)
		out.PrefillTokens += w.tokens
		out.PrefillKVTokens += w.request.computed
	}
	out.PrefillRequests, out.PrefillLengthVariance = prompts.count, prompts.variance()
	out.DecodeRequests, out.DecodeKVTokens, out.DecodeKVVariance = contexts.count, contexts.sum, contexts.variance()
	out.HasPrefillLengthVariance, out.HasDecodeKVVariance = true, true
	return out
}

// queued describes who waits now. A request that was preempted before its first
// token waits for a prefill like a new one.
func (s *scheduler) queued() fpm.Queued {
	var out fpm.Queued
	var prompts, contexts moments
	for _, r := range s.waiting {
		prompts.add(r.prompt)
	}
	for _, r := range s.preempted {
		if r.generated == 0 {
			prompts.add(r.prompt)
		} else {
			contexts.add(r.context())
		}
	}
	out.PrefillRequests, out.PrefillTokens, out.PrefillLengthVariance = prompts.count, prompts.sum, prompts.variance()
	out.DecodeRequests, out.DecodeKVTokens, out.DecodeKVVariance = contexts.count, contexts.sum, contexts.variance()
	out.HasPrefillLengthVariance, out.HasDecodeKVVariance = true, true
	return out
}

// complete carries the batch out: tokens are computed and generated, finished
// requests leave.
func (s *scheduler) complete() {
	for _, w := range s.batch {
		before := w.request.generated
		w.request.advance(w.tokens)
		s.stats.GeneratedTokens += w.request.generated - before
	}
	s.batch = s.batch[:0]
	s.leave()
}

func (s *scheduler) leave() {
	stay := s.running[:0]
	for _, r := range s.running {
		if !r.finished() {
			stay = append(stay, r)
			continue
		}
		s.kv.release(r)
		s.stats.Finished++
	}
	clear(s.running[len(stay):])
	s.running = stay
}

func (s *scheduler) empty() bool {
	return len(s.running) == 0 && len(s.preempted) == 0 && len(s.waiting) == 0
}
