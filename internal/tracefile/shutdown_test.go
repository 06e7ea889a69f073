// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFIL_63_ShutdownWritesEverything(t *testing.T) {
	t.Parallel()
	w := newRig(t)
	w.enqueue(run(1, 5000)...)
	w.shutdown()
	require.Equal(t, sequence(1, 5000), w.counters("4192", 0))
	require.Equal(t, 5000, w.obs.written())
	require.ErrorIs(t, w.Enqueue(run(1, 1)), errShutdown)
}
