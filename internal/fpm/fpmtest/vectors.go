// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package fpmtest has the payloads with verdicts that every room is tested
// against (STR-95). It shares no code with the decoder.
package fpmtest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed" // the vectors
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/fpm-payloads.jsonl
var vectorLines []byte

//go:embed testdata/golden.msgpack
var goldenPayload []byte

//go:embed testdata/golden.jsonl
var goldenRow []byte

// Vector is a payload with the verdict on it.
type Vector struct {
	Name    string
	Payload []byte
	Valid   bool
	Reason  string // of an invalid one
	RowFPM  string // the JSON text of a valid one; empty for large payloads
}

// Golden is the golden payload: sequence 42, worker "4192", rank 0. The caller
// may change it.
func Golden() []byte { return bytes.Clone(goldenPayload) }

// GoldenRow is the trace row of the golden payload, with its LF (ROW-24).
func GoldenRow() []byte { return bytes.Clone(goldenRow) }

// Vectors reads all vectors, building the large payloads from their recipes.
func Vectors(tb testing.TB) (vectors []Vector) {
	tb.Helper()
	lines := bufio.NewScanner(bytes.NewReader(vectorLines))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		vectors = append(vectors, parse(tb, lines.Bytes()))
	}
	require.NoError(tb, lines.Err())
	require.NotEmpty(tb, vectors)
	return vectors
}

func parse(tb testing.TB, line []byte) Vector {
	tb.Helper()
	var v struct {
		Name         string
		Hex          *string
		Valid        bool
		Reason, Note string
		RowFPM       string `json:"row_fpm"`
	}
	require.NoError(tb, json.Unmarshal(line, &v))
	vector := Vector{Name: v.Name, Valid: v.Valid, Reason: v.Reason, RowFPM: v.RowFPM}
	if v.Hex == nil {
		vector.Payload = build(tb, v.Note)
		return vector
	}
	var err error
	vector.Payload, err = hex.DecodeString(*v.Hex)
	require.NoError(tb, err)
	return vector
}

var recipe = regexp.MustCompile(`^recipe: (\S+); (\d+) bytes; sha256 ([0-9a-f]{64})(;|$)`)

// build makes a payload by its recipe and checks its length and hash.
func build(tb testing.TB, note string) (payload []byte) {
	tb.Helper()
	parts := recipe.FindStringSubmatch(note)
	require.NotNil(tb, parts, note)
	for term := range strings.SplitSeq(parts[1], "+") {
		digits, times, repeated := strings.Cut(term, "*")
		count := 1
		var err error
		if repeated {
			count, err = strconv.Atoi(times)
			require.NoError(tb, err)
		}
		unit, err := hex.DecodeString(digits)
		require.NoError(tb, err)
		payload = append(payload, bytes.Repeat(unit, count)...)
	}
	sum := sha256.Sum256(payload)
	require.Equal(tb, parts[2], strconv.Itoa(len(payload)))
	require.Equal(tb, parts[3], hex.EncodeToString(sum[:]))
	return payload
}
