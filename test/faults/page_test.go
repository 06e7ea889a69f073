// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

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

const fieldReports = 34

var (
	namedTest    = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/[a-z_]+)?`")
	declaredTest = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// testsIn are the names of all tests below a folder.
func testsIn(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "dist" || strings.HasPrefix(entry.Name(), ".")) && path != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, match := range declaredTest.FindAllStringSubmatch(string(source), -1) {
			names[match[1]] = true
		}
		return err
	})
	require.NoError(t, err)
	return names
}

// TestPageNamesRealTests: docs/reliability.md names tests that exist, every test of
// a fault, and every field report.
func TestPageNamesRealTests(t *testing.T) {
	root := harness.Root(t)
	content, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	require.NoError(t, err)
	page := string(content)
	exist := testsIn(t, root)
	named := map[string]bool{}
	for _, match := range namedTest.FindAllStringSubmatch(page, -1) {
		require.True(t, exist[match[1]], "%s does not exist", match[1])
		named[match[1]] = true
	}
	for name := range testsIn(t, filepath.Join(root, "test", "faults")) {
		switch name {
		case t.Name(), "TestSteps":
		default:
			require.True(t, named[name], "%s is not on the page", name)
		}
	}
	for i := 1; i <= fieldReports; i++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| FR-%d \| [^|]+ \| ([^|]+) \|$`, i)).FindStringSubmatch(page)
		require.NotNil(t, row, "FR-%d is not on the page", i)
		require.True(t, namedTest.MatchString(row[1]) || strings.HasPrefix(row[1], "not applicable because"), "FR-%d has neither a test nor a reason", i)
	}
}
