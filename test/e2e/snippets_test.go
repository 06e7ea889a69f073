// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// snippet is a block of YAML that users copy from a page.
type snippet struct {
	page, text string
	content    map[string]any
}

var (
	yamlBlock   = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	variable    = regexp.MustCompile(`name: (FPM_[A-Z_]+)`)
	directory   = regexp.MustCompile(`directory: /\S+`)
	inlineQueue = regexp.MustCompile("`(sending_queue: \\{[^`]*\\})`")
)

// snippets reads all pages of the repository.
func snippets(t *testing.T) (found []snippet) {
	t.Helper()
	root := harness.Root(t)
	for _, pattern := range []string{"*.md", "docs/*.md", "*/*/README.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, page := range pages {
			name, err := filepath.Rel(root, page)
			require.NoError(t, err)
			for _, block := range yamlBlock.FindAllStringSubmatch(readFile(t, page), -1) {
				s := snippet{page: name, text: block[1]}
				require.NoError(t, yaml.Unmarshal([]byte(s.text), &s.content), "%s\n%s", name, s.text)
				found = append(found, s)
			}
		}
	}
	return found
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// of tells whether the snippet has one of these keys at its top.
func (s *snippet) of(keys ...string) bool {
	for _, key := range keys {
		if _, has := s.content[key]; has {
			return true
		}
	}
	return false
}

func (s *snippet) isManifest() bool { return strings.Contains(s.text, "gomod:") }

// manifest is the snippet of README.md that adds our components to a collector.
func manifest(t *testing.T) snippet {
	t.Helper()
	for _, s := range snippets(t) {
		if s.page == "README.md" && s.isManifest() {
			return s
		}
	}
	require.FailNow(t, "README.md shows no manifest")
	return snippet{}
}

// pipeline makes a fragment of a configuration a whole one.
const pipeline = `
receivers: {fpm/whole: {endpoint: 'tcp://127.0.0.1:1'}}
exporters: {debug/whole: {}}
service: {pipelines: {logs/whole: {receivers: [fpm/whole], exporters: [debug/whole]}}}
`

// TestSnippetsAreValid_COL18 validates each configuration on a page as it stands.
// A fragment is laid over the example beside the page, or over a small pipeline.
// Of what is for Kubernetes, the variables must be those of the packaged configuration.
func TestSnippetsAreValid_COL18(t *testing.T) {
	root := harness.Root(t)
	packaged := readFile(t, filepath.Join(root, "packaging", "config.yaml"))
	whole := map[string]int{}
	for _, s := range snippets(t) {
		switch {
		case s.isManifest(): // TestForeignManifestBuilds
		case s.of("spec"):
			for _, match := range variable.FindAllStringSubmatch(s.text, -1) {
				require.Contains(t, packaged, "${env:"+match[1], s.page)
			}
		case s.of("receivers") && s.of("service"):
			whole[s.page]++
			requireValid(t, s.page, s.text)
		case s.of("receivers", "processors", "exporters", "connectors", "extensions", "service"):
			requireValid(t, s.page, base(t, s.page), s.text)
		default:
			require.Contains(t, s.page, "examples", "what is this?\n%s", s.text)
		}
	}
	require.Equal(t, 1, whole["README.md"], "the configuration beside a real worker")

	queues := inlineQueue.FindAllStringSubmatch(readFile(t, filepath.Join(root, "docs", "operations.md")), -1)
	require.NotEmpty(t, queues)
	for _, match := range queues {
		requireValid(t, "docs/operations.md", pipeline, "exporters: {otlp_http: {endpoint: 'http://h:1', "+match[1]+"}}")
	}
}

// base is what a fragment on a page belongs to.
func base(t *testing.T, page string) string {
	t.Helper()
	examples, err := filepath.Glob(filepath.Join(harness.Root(t), filepath.Dir(page), "*.yaml"))
	require.NoError(t, err)
	if filepath.Dir(filepath.Dir(page)) != "examples" || len(examples) == 0 {
		return pipeline
	}
	return readFile(t, examples[0])
}

// requireValid has the distribution validate texts that are laid over each other.
func requireValid(t *testing.T, page string, texts ...string) {
	t.Helper()
	args := []string{"validate"}
	for _, text := range texts {
		dir := t.TempDir()
		path := filepath.Join(dir, "config.yaml")
		text = directory.ReplaceAllString(text, "directory: "+dir) // file_storage wants it to exist
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		args = append(args, "--config", path)
	}
	output, code := harness.Run(t, args...)
	require.Zero(t, code, "%s: %s\n%s", page, output, texts[len(texts)-1])
}
