// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// What TestWallClockSteps changes in package time.
const (
	readsClock = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	stepsClock = "\tsec, nsec, mono := runtimeNow()\n\tsec += wallStep.Load()\n\tif mono == 0 {"
	stepper    = `package time

import "sync/atomic"

var wallStep atomic.Int64 // seconds

// StepWall moves the wall clock of this process, and leaves the monotonic one.
func StepWall(seconds int64) { wallStep.Add(seconds) }
`
)

// TestWallClockSteps runs the test of package wallclock. A static binary can't be
// told another time from outside, so the components are built with a package time
// whose wall clock steps: sampling, flushing, back-off, silence and the state of
// streams must not notice. The first build of it takes a minute or two.
func TestWallClockSteps(t *testing.T) {
	harness.Long(t)
	harness.Binary(t) // not run here: a machine without it runs no long tests
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	folder := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	source, err := os.ReadFile(filepath.Join(folder, "time.go"))
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(source, []byte(readsClock)), "time.Now reads the clock in another way in this release of Go: adapt this test")

	// Equal contents in equal places, so that Go's build cache serves again.
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "otelcol-fpm-wallclock")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(folder, "time.go"):     write("time.go", bytes.Replace(source, []byte(readsClock), []byte(stepsClock), 1)),
		filepath.Join(folder, "stepwall.go"): write("stepwall.go", []byte(stepper)),
	}})
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-v", "-tags=wallclock",
		"-overlay="+write("overlay.json", overlay), "./test/faults/wallclock")
	command.Dir = harness.Root(t)
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "--- PASS: TestSteps", string(output))
	t.Log(string(output))
}
