// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestPageSaysWhatTheRunDoes: docs/soak.md is of a run of half an hour as the script
// would do it now.
func TestPageSaysWhatTheRunDoes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(harness.Root(t), "docs", "soak.md"))
	require.NoError(t, err)
	plan := planLoad(30*time.Minute, 0, "")
	require.Contains(t, string(page), plan.describe())
	require.Contains(t, string(page), limitsOfTheRun)
}
