// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// kvCache counts free blocks. A cached prefix is counted for each request that
// uses it, which is on the safe side of a real cache that shares them.
type kvCache struct{ free int64 }

func blocksFor(tokens int64) int64 { return (tokens + blockTokens - 1) / blockTokens }

// grow gives r the blocks for that many tokens, or nothing and false.
func (k *kvCache) grow(r *request, tokens int64) bool {
	need := blocksFor(tokens) - r.blocks
	if need > k.free {
		return false
	}
	if need > 0 {
		k.free -= need
		r.blocks += need
	}
	return true
}

func (k *kvCache) release(r *request) {
	k.free += r.blocks
	r.blocks = 0
}
