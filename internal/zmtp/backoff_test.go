// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestZMQ47Waits(t *testing.T) {
	b := newBackoff(500*time.Millisecond, 10*time.Second)
	for _, bound := range []time.Duration{500, 1000, 2000, 4000, 8000, 10000, 10000, 10000} {
		d := bound * time.Millisecond
		got := b.wait()
		require.GreaterOrEqual(t, got, d/2)
		require.LessOrEqual(t, got, d)
	}
	b.reset()
	require.LessOrEqual(t, b.wait(), 500*time.Millisecond)
}

func TestZMQ47WaitsAreSpread(t *testing.T) {
	const n = 4000
	below := 0
	for range n {
		b := newBackoff(time.Second, time.Minute)
		if b.wait() < 750*time.Millisecond {
			below++
		}
	}
	require.InDelta(t, n/2, below, n/8, "uniform in the upper half of the bound")
}

func TestZMQ47ExtremeSettings(t *testing.T) {
	b := newBackoff(time.Hour, time.Second)
	require.LessOrEqual(t, b.wait(), time.Second)
	b = newBackoff(1, 1<<63-1)
	for range 100 {
		require.GreaterOrEqual(t, b.wait(), time.Duration(0))
	}
	require.GreaterOrEqual(t, b.wait(), time.Duration(1<<62-1))
}
