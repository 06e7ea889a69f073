// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// run starts a program as users do, until the end of the test. Its output is
// shown when the test fails.
func run(t *testing.T, environment []string, name string, arguments ...string) {
	t.Helper()
	logPath := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(logPath)
	require.NoError(t, err)
	command := exec.Command(name, arguments...) //nolint:noctx // its life is managed here
	command.Env = append(os.Environ(), environment...)
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		stuck := time.AfterFunc(harness.Patience, func() { _ = command.Process.Kill() })
		_ = command.Wait() // it is ended by a signal
		stuck.Stop()
		_ = log.Close() // for reading only, the process wrote
		if t.Failed() {
			text, _ := os.ReadFile(logPath)
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
}

// syntheticEngine is the program that make build puts into bin. Without it the
// test is skipped, or fails where CI_E2E_REQUIRED is set.
func syntheticEngine(t *testing.T) string {
	t.Helper()
	file := path(t, "bin/fpmgen")
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI_E2E_REQUIRED") != "" {
			t.Fatalf("%v: run make build", err)
		}
		t.Skipf("%v: run make build", err)
	}
	return file
}
