// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// identity is what a payload says of itself, in its JSON form.
type identity struct {
	WorkerID  string `json:"worker_id"`
	DPRank    int64  `json:"dp_rank"`
	CounterID int64  `json:"counter_id"`
}

func identityOf(t *testing.T, fpm string) (id identity) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(fpm), &id), fpm)
	return id
}
