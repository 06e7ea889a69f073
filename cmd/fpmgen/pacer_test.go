// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceIsExact(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		at   time.Duration // the engine's clock between records
		want int           // records in 10 s
	}{
		"records a second":           {args: []string{"--passes-per-second", "30000"}, at: time.Hour, want: 300_000},
		"benchmark at an exact rate": {args: []string{"--bench", "--passes-per-second", "7"}, at: time.Hour, want: 70},
		"engine's clock":             {at: 25 * time.Millisecond, want: 400},
		"ten times as fast":          {args: []string{"--speed", "10"}, at: 25 * time.Millisecond, want: 4000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(parse(t, tc.args...), time.Now())
				defer p.stop()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second-time.Nanosecond)
				defer cancel()
				records := 0
				for p.wait(ctx, time.Duration(records)*tc.at) {
					records++
				}
				require.Equal(t, tc.want, records)
			})
		})
	}
}

// TestPaceCatchesUp: a pause shifts nothing that follows.
func TestPaceCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPacer(parse(t, "--passes-per-second", "10"), start)
		defer p.stop()
		for n := range 100 {
			if n == 50 {
				time.Sleep(3 * time.Second)
			}
			require.True(t, p.wait(t.Context(), 0))
		}
		require.Equal(t, 9900*time.Millisecond, time.Since(start))
	})
}

func TestRestartedEngineStartsItsClockNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPacer(parse(t), start)
		defer p.stop()
		require.True(t, p.wait(t.Context(), 2*time.Second))
		time.Sleep(time.Second) // the restart takes a while
		p.restart()
		require.True(t, p.wait(t.Context(), 500*time.Millisecond))
		require.Equal(t, 3500*time.Millisecond, time.Since(start))
	})
}

func TestStopDoesNotWaitForAStuckRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, await(ctx, make(chan error), 3*time.Second), errStuck)
		require.Equal(t, time.Minute+3*time.Second, time.Since(start))

		late := make(chan error)
		go func() { time.Sleep(time.Second); late <- nil }()
		require.NoError(t, await(ctx, late, 3*time.Second))
	})
}
