// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The module and the distribution stand on one release of the Collector (COL-1).
func TestCOL_1_OneReleaseOfTheCollector(t *testing.T) {
	module := regexp.MustCompile(`(go\.opentelemetry\.io/collector|github\.com/open-telemetry/opentelemetry-collector-contrib)(\S*) (v\S+)`)
	allowed := map[string][]string{
		"go.opentelemetry.io/collector":                             {"v0.165.0", "v1.71.0"},
		"github.com/open-telemetry/opentelemetry-collector-contrib": {"v0.165.1"},
	}
	for _, file := range []string{"go.mod", "builder-config.yaml"} {
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		found := module.FindAllStringSubmatch(string(content), -1)
		require.NotEmpty(t, found, file)
		for _, m := range found {
			require.True(t, slices.Contains(allowed[m[1]], m[3]), "%s: %s%s is at %s", file, m[1], m[2], m[3])
		}
	}
}
