// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestComponentsAreListed_COL18 looks at what the binary says it has: these
// components and no other.
func TestComponentsAreListed_COL18(t *testing.T) {
	output, code := harness.Run(t, "components")
	require.Zero(t, code, output)
	type component struct{ Name string }
	var listed struct{ Receivers, Processors, Exporters, Connectors, Extensions []component }
	require.NoError(t, yaml.Unmarshal([]byte(output), &listed))
	for _, section := range []struct {
		listed []component
		want   string
	}{
		{listed.Receivers, "fpm otlp kafka"},
		{listed.Processors, "fpm_sampler batch memory_limiter resource groupbyattrs"},
		{listed.Exporters, "fpm_trace debug otlp_grpc otlp_http prometheus prometheus_remote_write kafka"},
		{listed.Connectors, "forward span_metrics"},
		{listed.Extensions, "healthcheckv2 pprof zpages file_storage"},
	} {
		var names []string
		for _, c := range section.listed {
			names = append(names, c.Name)
		}
		require.ElementsMatch(t, strings.Fields(section.want), names)
	}
}

// TestExamplesAreValid_COL18 runs the service's validation on every example.
func TestExamplesAreValid_COL18(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(harness.Root(t), "examples", "*", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		output, code := harness.Run(t, "validate", "--config", example)
		require.Zero(t, code, "%s: %s", example, output)
	}
}

// TestQuickstartRuns_COL18 starts an example as it is, on ports of its own.
func TestQuickstartRuns_COL18(t *testing.T) {
	config, err := os.ReadFile(filepath.Join(harness.Root(t), "examples", "quickstart", "config.yaml"))
	require.NoError(t, err)
	base := filepath.Join(t.TempDir(), "fpm")
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, 2))
	publisher := harness.StartPublisher(t)
	socket := publisher.Bind(endpoint)
	collector := harness.Start(t, string(config), "FPM_ENDPOINT="+endpoint, "FPM_PATH="+base, "FPM_INTERVAL=100ms",
		fmt.Sprintf("FPM_METRICS_ENDPOINT=127.0.0.1:%d", harness.FreePorts(t, 1)))
	publisher.WaitSubscribers(socket, 1)
	publisher.Passes(socket, harness.Passes{Count: 10, WorkerID: "w"})
	harness.Eventually(t, func() bool { return len(harness.Rows(t, base)) > 0 }, "no row")
	collector.Stop()
}

// TestBadConfigurationNamesTheKey_COL18 wants exit code 1 and the key.
func TestBadConfigurationNamesTheKey_COL18(t *testing.T) {
	dir := t.TempDir()
	for i, tc := range []struct{ receiver, sampler, exporter, key string }{
		{receiver: "{endpoint: 'http://host:1'}", key: "http://host:1"},
		{receiver: "{endpoint: 'a:1', endpoints: [{endpoint: 'b:1'}]}", key: "endpoints"},
		{receiver: "{endpoints: [{endpoint: 'b:1', dp_size: 0}]}", key: "dp_size"},
		{receiver: "{endpoints: [{endpoint: 'b:1'}, {endpoint: 'b:1'}]}", key: "b:1"},
		{receiver: "{logs: {body: text}}", key: "logs::body"},
		{receiver: "{max_message_size: -1}", key: "max_message_size"},
		{receiver: "{endpiont: 'a:1'}", key: "endpiont"},
		{sampler: "{interval: 0s}", key: "interval"},
		{sampler: "{mode: some}", key: "mode"},
		{exporter: "{roll_bytes: 0}", key: "roll_bytes"},
		{exporter: "{durability: eternal}", key: "durability"},
		{exporter: "{compression_level: 10}", key: "compression_level"},
		{exporter: "{sending_queue: {num_consumers: 2}}", key: "num_consumers"},
		{exporter: "{flush_bytes: 1XB}", key: "flush_bytes"},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		config := fmt.Sprintf("receivers: {fpm: %s}\nprocessors: {fpm_sampler: %s}\nexporters: {fpm_trace: %s}\n"+
			"service: {pipelines: {logs: {receivers: [fpm], processors: [fpm_sampler], exporters: [fpm_trace]}}}\n",
			tc.receiver, tc.sampler, tc.exporter)
		require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
		for _, args := range [][]string{{"validate", "--config", path}, {"--config", path}} {
			output, code := harness.Run(t, args...)
			require.Equal(t, 1, code, "%s\n%s", config, output)
			require.Contains(t, output, tc.key, config)
		}
	}
}

// TestNoLibraryClientIsLinked_ZMQ70: go-zeromq stands beside the product, in tests.
func TestNoLibraryClientIsLinked_ZMQ70(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "go", "version", "-m", harness.Binary(t)).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "go.opentelemetry.io/collector/otelcol")
	for line := range strings.Lines(string(output)) {
		require.NotContains(t, line, "zeromq")
		require.NotContains(t, line, "pebbe/zmq4")
	}
}

// foreignManifest is what somebody else has already.
const foreignManifest = `
dist:
  name: foreign
  module: example.com/foreign
  output_path: %[1]s/foreign
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v0.165.0
processors: []
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter v0.165.0
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.71.0
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.71.0
replaces:
  - github.com/otelcol-fpm/otelcol-fpm => %[2]s
`

// mergeManifest adds the lines that README.md shows to a manifest of somebody else.
func mergeManifest(t *testing.T, text string) []byte {
	t.Helper()
	var merged map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &merged))
	ours := manifest(t).content
	require.Len(t, ours, 3, "README.md says three lines")
	for section, lines := range ours {
		require.Len(t, lines, 1, section)
		merged[section] = append(merged[section].([]any), lines.([]any)...)
	}
	out, err := yaml.Marshal(merged)
	require.NoError(t, err)
	return out
}

// TestForeignManifestBuilds builds a distribution of somebody else, outside the
// repository, that adds our components by the lines of README.md.
func TestForeignManifestBuilds(t *testing.T) {
	harness.Long(t)
	if os.Getenv("E2E_FOREIGN") == "" {
		t.Skip("a build takes a minute: set E2E_FOREIGN=1")
	}
	dir, root := t.TempDir(), harness.Root(t)
	path := filepath.Join(dir, "builder-config.yaml")
	require.NoError(t, os.WriteFile(path, mergeManifest(t, fmt.Sprintf(foreignManifest, dir, root)), 0o600))
	build := exec.CommandContext(t.Context(), "go", "tool", "-modfile=internal/tools/go.mod", "builder", "--config="+path)
	build.Dir = root
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	t.Setenv("OTELCOL_FPM_BINARY", filepath.Join(dir, "foreign", "foreign"))
	components, code := harness.Run(t, "components")
	require.Zero(t, code, components)
	for _, name := range []string{"fpm", "fpm_sampler", "fpm_trace", "otlp", "debug"} {
		require.Contains(t, components, "- name: "+name+"\n")
	}
	collector := harness.Start(t, fmt.Sprintf(`
receivers: {fpm: {endpoint: 127.0.0.1:%d}}
processors: {fpm_sampler: {}}
exporters: {debug: {}, fpm_trace: {path: %s}}
service: {pipelines: {logs: {receivers: [fpm], processors: [fpm_sampler], exporters: [debug, fpm_trace]}}}
`, harness.FreePorts(t, 1), filepath.Join(dir, "fpm")))
	collector.Stop()
}
