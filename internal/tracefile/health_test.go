// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFIL_55_StatusOnChangeOnly: one error stands for all that fail, until it is over; well is only when all are.
func TestFIL_55_StatusOnChangeOnly(t *testing.T) {
	t.Parallel()
	obs := newRecorder()
	h := health{obs: obs}
	a, b := errors.New("a"), errors.New("b")
	require.False(t, h.clear("a"))
	require.True(t, h.set("a", a))
	require.False(t, h.set("a", errors.New("a again")))
	for i := range 20 {
		require.True(t, h.set(fmt.Sprint("b", i), b))
	}
	require.Equal(t, []error{a}, obs.statuses)
	require.True(t, h.clear("a"))
	require.Equal(t, []error{a, b}, obs.statuses)
	for i := range 20 {
		require.True(t, h.clear(fmt.Sprint("b", i)))
	}
	require.NoError(t, obs.status())
	require.False(t, h.clear("b0"))
}

// TestFIL_55_StatusesDoNotOverlap, and the last one is true.
func TestFIL_55_StatusesDoNotOverlap(t *testing.T) {
	t.Parallel()
	obs := newRecorder()
	h := health{obs: obs}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				h.set(strconv.Itoa(i), errors.New("failed"))
				h.clear(strconv.Itoa(i))
			}
		})
	}
	all.Wait()
	require.NoError(t, obs.status())
}
