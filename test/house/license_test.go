// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are the hand-written files that can hold a comment, from the root.
func sources(t *testing.T) []string {
	t.Helper()
	return files(t, func(path string) bool {
		if strings.Contains(path, "/testdata/") || strings.HasPrefix(filepath.Base(path), "generated_") {
			return false
		}
		switch filepath.Ext(path) {
		case ".go", ".sh", ".py", ".yaml", ".yml", ".service", ".sysusers", ".dockerignore":
			return true
		default:
			name := filepath.Base(path)
			return name == "Makefile" || name == "Dockerfile" || path == ".ci/run"
		}
	})
}

func TestCOL_41_LicenseHeaders(t *testing.T) {
	const header = "Copyright The otelcol-fpm Authors\n%SPDX-License-Identifier: Apache-2.0\n"
	slashes := []byte("// " + strings.ReplaceAll(header, "%", "// "))
	hashes := []byte("# " + strings.ReplaceAll(header, "%", "# "))
	for _, file := range sources(t) {
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		if bytes.HasPrefix(content, []byte("#!")) {
			_, content, _ = bytes.Cut(content, []byte("\n"))
		}
		require.True(t, bytes.HasPrefix(content, slashes) || bytes.HasPrefix(content, hashes), "%s has no license header", file)
	}
}

// Nothing that lands may point at one machine or leave an open end.
func TestNoOpenEnds(t *testing.T) {
	words := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|/wo` + `rk/|/ro` + `ot/`)
	documents := files(t, func(path string) bool { return filepath.Ext(path) == ".md" })
	for _, file := range append(sources(t), documents...) {
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		require.Empty(t, words.FindString(string(content)), file)
	}
}
