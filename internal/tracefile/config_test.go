// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFIL_58_DurabilityWords(t *testing.T) {
	t.Parallel()
	for word, durability := range map[string]Durability{"buffered": Buffered, "flushed": Flushed, "synced": Synced} {
		parsed, err := ParseDurability(word)
		require.NoError(t, err)
		require.Equal(t, durability, parsed)
		require.Equal(t, word, durability.String())
	}
	for _, word := range []string{"", "Synced", "fsync", " synced"} {
		_, err := ParseDurability(word)
		require.ErrorContains(t, err, "durability must be one of buffered, flushed, synced", word)
	}
	require.Equal(t, "Durability(7)", Durability(7).String())
}

// TestObserverWords: these are attribute values of the collector's own telemetry, which users build alerts on.
func TestObserverWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"queue_full", "not_fpm", "duplicate", "producer_limit", "shutdown"}, words(DropReasons()))
	require.Equal(t, []string{"max_segments", "max_total_bytes", "max_age"}, words(PruneCauses()))
	require.Equal(t, []string{
		"preflight", "lock", "list", "create", "reopen", "write", "sync", "truncate", "close", "prune", "replaced",
	}, words(Ops()))
}

func words[T interface{ String() string }](values []T) (all []string) {
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}
