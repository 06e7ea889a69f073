// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package pooling runs the tests of the components with a feature gate of the
// Collector that reuses the memory of pdata: whoever keeps a reference to what it
// handed on, or was handed, sees it change.
package pooling

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// gate turns pooling on in a package of tests. Their TestMain is generated, so
// it can't be done there.
const gate = `package %s

import (
	"testing"

	"go.opentelemetry.io/collector/featuregate"
)

const pooling = "pdata.useProtoPooling"

func init() {
	if err := featuregate.GlobalRegistry().Set(pooling, true); err != nil {
		panic(err)
	}
}

func TestPoolingIsOn(t *testing.T) {
	featuregate.GlobalRegistry().VisitAll(func(g *featuregate.Gate) {
		if g.ID() == pooling && !g.IsEnabled() {
			t.Fatal("it is off")
		}
	})
}
`

// TestComponentsPassWithPooling_COL54 lays the file over each package, and runs all
// of its tests.
func TestComponentsPassWithPooling_COL54(t *testing.T) {
	root, dir := harness.Root(t), t.TempDir()
	packages := []string{"receiver/fpmreceiver", "processor/fpmsampler", "exporter/fpmtraceexporter"}
	args := []string{"test", "-count=1", "-vet=off", "-v", "-overlay=" + filepath.Join(dir, "overlay.json")}
	replace := map[string]string{}
	for _, folder := range packages {
		name := filepath.Base(folder)
		path := filepath.Join(dir, name+".go")
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, gate, name), 0o600))
		replace[filepath.Join(root, folder, "pooling_test.go")] = path
		args = append(args, "./"+folder)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = root
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, len(packages), strings.Count(string(output), "--- PASS: TestPoolingIsOn"), string(output))
}
