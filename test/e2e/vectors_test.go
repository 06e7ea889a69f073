// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// vector is one line of fpm-payloads.jsonl (fpm-stream.md section 14).
type vector struct {
	Name   string
	Hex    *string
	Valid  bool
	Reason string
	RowFPM *string `json:"row_fpm"`
	Note   string
}

// vectors reads all of them, recipes expanded, so that Hex is never nil.
func vectors(t *testing.T) (all []vector) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(t), "internal", "fpm", "testdata", "fpm-payloads.jsonl"))
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		if v.Hex == nil {
			expanded := expand(t, v.Note)
			v.Hex = &expanded
		}
		all = append(all, v)
	}
	require.NoError(t, lines.Err())
	require.Greater(t, len(all), 100)
	return all
}

// expand follows "recipe: T+T+...; N bytes; sha256 H; remark", where T is hex or
// hex*count.
func expand(t *testing.T, note string) string {
	t.Helper()
	recipe, found := strings.CutPrefix(note, "recipe: ")
	require.True(t, found, note)
	parts := strings.SplitN(recipe, "; ", 4)
	var payload []byte
	for term := range strings.SplitSeq(parts[0], "+") {
		digits, times, repeated := strings.Cut(term, "*")
		piece, err := hex.DecodeString(digits)
		require.NoError(t, err)
		count := 1
		if repeated {
			count, err = strconv.Atoi(times)
			require.NoError(t, err)
		}
		payload = append(payload, bytes.Repeat(piece, count)...)
	}
	require.Equal(t, parts[1], strconv.Itoa(len(payload))+" bytes")
	sum := sha256.Sum256(payload)
	require.Equal(t, parts[2], "sha256 "+hex.EncodeToString(sum[:]))
	return hex.EncodeToString(payload)
}

// identity is what a payload says of itself, in its JSON form.
type identity struct {
	WorkerID  string `json:"worker_id"`
	DPRank    int64  `json:"dp_rank"`
	CounterID int64  `json:"counter_id"`
}

func identityOf(t *testing.T, fpm string) (id identity) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(fpm), &id), fpm)
	return id
}
