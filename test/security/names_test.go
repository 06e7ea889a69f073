// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// hostileIDs are worker ids of somebody who wants files elsewhere, a log line of
// his own, or a crash.
var hostileIDs = []string{
	"../../etc/x", "/etc/passwd", "..", ".", "/", "", "a\x00b", "../fpm.w", "fpm.w.000000.jsonl.gz",
	"line\n2026-01-01T00:00:00Z\terror\tforged", "\x1b]0;title\x07\x1b[2J", `"},"schema":"x`, "${env:HOME}", "$(touch x)",
	"..%2f..%2fetc", "\u2024\u2024/", "\u202etxt", strings.Repeat("../", 3000) + "etc", strings.Repeat("A", 10_000),
	strings.Repeat("B", 10_000), "-rf", "~root", "con:stream", "*", "\\\\host\\share",
}

// TestFIL_3_AWorkerIDNeverLeavesTheFolder over both transports.
func TestFIL_3_AWorkerIDNeverLeavesTheFolder(t *testing.T) {
	for name, endpoint := range map[string]func(t *testing.T) string{
		"tcp": loopback,
		"ipc": func(t *testing.T) string {
			t.Helper()
			dir, err := os.MkdirTemp("", "fpm") //nolint:usetesting // a socket's path holds about 100 bytes
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			return "ipc://" + filepath.Join(dir, "s")
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			folder := filepath.Join(root, "a", "b", "c") // two levels to escape to
			require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o750))
			require.NoError(t, os.MkdirAll(filepath.Join(root, "a", "etc"), 0o750))
			require.NoError(t, os.MkdirAll(folder, 0o750))
			before := tree(t, root)

			p := publish(t, endpoint(t))
			c := harness.Start(t, pipeline(p.endpoint, filepath.Join(folder, "fpm")))
			p.waitSubscriber()
			for _, id := range hostileIDs {
				p.pass(id)
			}
			waitRows(c, len(hostileIDs))
			c.Stop()

			after := tree(t, root)
			requireKept(t, before, after)
			requireOnlyTraceFiles(t, before, after, "a/b/c")
			requireIDsAreExact(t, harness.Rows(t, filepath.Join(folder, "fpm")))
			requireLogIsSafe(t, c.Log())
		})
	}
}

// requireIDsAreExact: what the file names lose, the rows keep (STR-74).
func requireIDsAreExact(t *testing.T, rows []harness.Row) {
	t.Helper()
	var got []string
	for _, row := range rows {
		var payload struct {
			WorkerID string `json:"worker_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(row.FPM), &payload))
		got = append(got, payload.WorkerID)
	}
	require.ElementsMatch(t, hostileIDs, got)
}

// requireLogIsSafe: no terminal takes an order from it, no line is forged, none is
// long (STR-74).
func requireLogIsSafe(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		require.Less(t, len(line), 4096)
		require.False(t, strings.HasPrefix(line, "2026-01-01T"), "a forged line")
		require.NotContains(t, strings.TrimSuffix(line, "\n"), "\x1b")
		require.NotContains(t, line, "\x00")
	}
}
