// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// pipeline writes every pass that comes from an endpoint. Further settings are those
// of the exporter.
func pipeline(endpoint, base string, settings ...string) string {
	return fmt.Sprintf(`
receivers: {fpm: {endpoint: '%s', batch: {timeout: 10ms}, connection: {initial_backoff: 50ms, max_backoff: 100ms}}}
exporters: {fpm_trace: {path: '%s', flush_interval: 20ms%s}}
service: {pipelines: {logs: {receivers: [fpm], exporters: [fpm_trace]}}}
`, endpoint, base, strings.Join(append([]string{""}, settings...), ", "))
}

// publisher is one socket of the real libzmq.
type publisher struct {
	*harness.Publisher
	endpoint string
	socket   int
	next     uint64
}

func publish(t *testing.T, endpoint string) *publisher {
	t.Helper()
	p := &publisher{Publisher: harness.StartPublisher(t), endpoint: endpoint}
	p.socket = p.Bind(endpoint)
	return p
}

func loopback(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, 1))
}

func (p *publisher) waitSubscriber() { p.WaitSubscribers(p.socket, 1) }

// pass publishes one record of a worker.
func (p *publisher) pass(worker string) {
	p.Record(p.socket, p.next, "", worker, 0, int64(p.next), 0.01)
	p.next++
}

// waitRows waits until so many rows were written.
func waitRows(c *harness.Collector, n int) {
	c.WaitSum("otelcol_fpm_trace_exporter_rows_written", nil, float64(n))
}

// tree lists what is below a folder, without following links: the path of each
// entry, and what it is.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	entries := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			text, readErr := os.ReadFile(path)
			if readErr != nil {
				return readErr
			}
			what += " " + string(text)
		case info.Mode()&fs.ModeSymlink != 0:
			target, readErr := os.Readlink(path)
			if readErr != nil {
				return readErr
			}
			what += " -> " + target
		}
		relative, err := filepath.Rel(root, path)
		entries[relative] = what
		return err
	}))
	return entries
}

// requireKept requires that everything of an earlier tree is as it was.
func requireKept(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, what := range before {
		require.Equal(t, what, after[path], path)
	}
}

var (
	segmentName = regexp.MustCompile(`^fpm\.[A-Za-z0-9_-]{1,128}\.[0-9]{6,}\.jsonl\.gz$`)
	lockName    = regexp.MustCompile(`^fpm\.(otelcol-fpm|[A-Za-z0-9_-]{1,128}\.000000\.jsonl)\.lock$`)
)

// requireOnlyTraceFiles requires that all that is new lies in one folder and has
// the name of a segment or of a lock (FIL-12).
func requireOnlyTraceFiles(t *testing.T, before, after map[string]string, folder string) {
	t.Helper()
	for path := range after {
		if _, old := before[path]; old {
			continue
		}
		require.Equal(t, folder, filepath.Dir(path), "a new entry outside of the folder: %s", path)
		name := filepath.Base(path)
		require.True(t, segmentName.MatchString(name) || lockName.MatchString(name), "a new entry: %q", name)
	}
}

// throughShell makes the harness start the distribution by a shell that runs some
// lines first, in the same process: $$ is the id of the collector.
func throughShell(t *testing.T, lines string) {
	t.Helper()
	binary := harness.Binary(t)
	wrapper := filepath.Join(t.TempDir(), "wrapper.sh")
	text := "#!/bin/sh\nset -e\n" + lines + "\nexec " + quote(binary) + " \"$@\"\n"
	require.NoError(t, os.WriteFile(wrapper, []byte(text), 0o700))
	t.Setenv("OTELCOL_FPM_BINARY", wrapper)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
