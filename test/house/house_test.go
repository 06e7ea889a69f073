// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package house checks the order of the repository itself: license headers, and
// which room may know which.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/otelcol-fpm/otelcol-fpm/"
)

// goFiles are the hand-written Go files of the module, from its root.
func goFiles(t *testing.T) []string {
	t.Helper()
	return files(t, func(path string) bool {
		return strings.HasSuffix(path, ".go") && !strings.HasPrefix(filepath.Base(path), "generated_")
	})
}

// files are those of the repository that a test wants, from its root. What a build
// or a set-up leaves behind is in folders of its own.
func files(t *testing.T, wanted func(path string) bool) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			hidden := strings.HasPrefix(relative, ".") && relative != "." && relative != ".ci"
			if hidden || relative == "dist" || relative == "bin" || relative == "run" {
				return filepath.SkipDir
			}
			return nil
		}
		if wanted(relative) {
			files = append(files, relative)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// rooms says what each internal room may import of ours. A component may import
// any internal room, and no other component.
var rooms = map[string][]string{
	"internal/fpm":             {},
	"internal/bytesize":        {},
	"internal/sharedcomponent": {},
	"internal/zmtp":            {},
	"internal/stream":          {"internal/fpm"},
	"internal/engine":          {"internal/fpm"},
	"internal/fpmpdata":        {"internal/fpm"},
	"internal/tracefile":       {"internal/fpm"},
}

func TestArrowsGoOneWay(t *testing.T) {
	for _, file := range goFiles(t) {
		from := roomOf(filepath.ToSlash(filepath.Dir(file)))
		if from == "" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, to := range importsOf(t, file) {
			room := roomOf(to)
			if room == "" || room == from {
				continue
			}
			if allowed, internal := rooms[from]; internal {
				require.Contains(t, allowed, room, "%s imports %s", file, to)
			} else {
				require.Contains(t, rooms, room, "%s imports the component %s", file, to)
			}
		}
	}
}

// roomOf gives the room of a folder, or "" for what is none (tests, commands).
func roomOf(folder string) string {
	parts := strings.SplitN(folder, "/", 3)
	if len(parts) < 2 {
		return ""
	}
	switch parts[0] {
	case "internal", "receiver", "processor", "exporter":
		return parts[0] + "/" + parts[1]
	default:
		return ""
	}
}

// importsOf gives the folders of ours that a file imports.
func importsOf(t *testing.T, file string) (folders []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if folder, ours := strings.CutPrefix(path, module); ours {
			folders = append(folders, folder)
		}
	}
	return folders
}

// The rooms below the components know no telemetry library (COL-40).
func TestCOL_40_DomainImportsNoTelemetry(t *testing.T) {
	for _, file := range goFiles(t) {
		switch roomOf(filepath.ToSlash(filepath.Dir(file))) {
		case "internal/fpm", "internal/zmtp", "internal/stream", "internal/engine":
			content, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			require.NotContains(t, string(content), `"go.opentelemetry.io`, file)
		}
	}
}
