// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// request is one generation: a prompt to prefill, then tokens to decode.
type request struct {
	prompt int64 // tokens
	output int64 // tokens to generate, at least 1
	cached int64 // leading prompt tokens that the prefix cache holds, less than prompt

	generated int64 // tokens generated so far
	computed  int64 // tokens whose KV is in the cache
	prefill   int64 // tokens to compute before the next token is generated: prompt, after a preemption also what was generated
	blocks    int64 // KV blocks held
}

// start makes the request ready to be prefilled, the first time or again.
func (r *request) start() {
	r.computed = r.cached
	r.prefill = r.prompt + r.generated
}

func (r *request) decoding() bool { return r.computed >= r.prefill }

// missing is the number of tokens that stand but whose KV is not computed.
func (r *request) missing() int64 { return r.prompt + r.generated - r.computed }

func (r *request) context() int64 { return r.prompt + r.generated }

func (r *request) finished() bool { return r.generated == r.output }

// advance computes n tokens; the pass generates one when nothing is missing then.
func (r *request) advance(n int64) {
	r.computed += n
	if r.missing() == 0 {
		r.generated++
	}
}
