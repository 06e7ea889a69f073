// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

// promtool comes with the Prometheus that the tests use.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	tool := filepath.Join(filepath.Dir(promtest.Binary(t)), "promtool")
	output, err := exec.CommandContext(t.Context(), tool, arguments...).CombinedOutput()
	require.NoError(t, err, "promtool %v: %s", arguments, output)
	t.Logf("%s", output)
}

func TestRulesAreWellFormed(t *testing.T) {
	promtool(t, "check", "rules", path(t, recordingFile), path(t, alertsFile))
}

func TestPrometheusTakesTheConfiguration(t *testing.T) {
	promtool(t, "check", "config", path(t, scrapeFile))
}

func TestRulesDoWhatTheyShould(t *testing.T) {
	promtool(t, "test", "rules", path(t, ruleTestsFile))
}

// TestEveryAlertIsSeenToFireAndNotToFire, and every recording rule has a value.
func TestEveryAlertIsSeenToFireAndNotToFire(t *testing.T) {
	fires, quiet, recorded := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, test := range readRuleTests(t).Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				quiet[a.Name] = true
			}
		}
		for _, e := range test.Expressions {
			recorded[e.Expr] = len(e.Expected) > 0
		}
	}
	for _, r := range rules(t, alertsFile) {
		require.True(t, fires[r.Alert], "%s is never expected to fire", r.Alert)
		require.True(t, quiet[r.Alert], "%s is never expected not to fire", r.Alert)
	}
	for _, r := range rules(t, recordingFile) {
		require.True(t, recorded[r.Record], "%s has no expected value", r.Record)
	}
}
