// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// highestExposure is what systemd-analyze may give at most, in tenths, as SECURITY.md
// has it; it says "OK" below 50. What is left is the network, which the collector is
// for.
const highestExposure = "11"

// TestUnitFile needs systemd-analyze, not a running systemd.
func TestUnitFile(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	text, err := os.ReadFile(filepath.Join(harness.Root(t), "packaging", "otelcol-fpm.service"))
	require.NoError(t, err)
	const installed = "ExecStart=/usr/bin/otelcol-fpm "
	require.Equal(t, 1, strings.Count(string(text), installed))
	here := strings.Replace(string(text), installed, "ExecStart="+harness.Binary(t)+" ", 1)
	unit := filepath.Join(t.TempDir(), "otelcol-fpm.service")
	require.NoError(t, os.WriteFile(unit, []byte(here), 0o644))

	output, err := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Empty(t, string(output))
	output, err = exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--offline=yes", "--threshold="+highestExposure, unit).CombinedOutput()
	require.NoError(t, err, string(output))
}

// TestPackagedConfigIsValid with the distribution's own validation.
func TestPackagedConfigIsValid(t *testing.T) {
	output, code := harness.Run(t, "validate", "--config", filepath.Join(harness.Root(t), "packaging", "config.yaml"))
	require.Zero(t, code, output)
}
