// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is one line of testdata/fpm-payloads.jsonl (fpm-stream.md 14).
type vector struct {
	Name   string  `json:"name"`
	Hex    *string `json:"hex"`
	Valid  bool    `json:"valid"`
	Reason *string `json:"reason"`
	RowFPM *string `json:"row_fpm"`
	Note   string  `json:"note"`
}

func readVectors(tb testing.TB) []vector {
	tb.Helper()
	data, err := os.ReadFile("testdata/fpm-payloads.jsonl")
	require.NoError(tb, err)
	var vectors []vector
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &v))
		vectors = append(vectors, v)
	}
	require.NoError(tb, lines.Err())
	require.NotEmpty(tb, vectors)
	return vectors
}

var recipe = regexp.MustCompile(`^recipe: (\S+); (\d+) bytes; sha256 ([0-9a-f]{64})(;|$)`)

// payload gives the bytes of the vector, built by its recipe if it has one.
func (v vector) payload(tb testing.TB) []byte {
	tb.Helper()
	if v.Hex != nil {
		payload, err := hex.DecodeString(*v.Hex)
		require.NoError(tb, err)
		return payload
	}
	parts := recipe.FindStringSubmatch(v.Note)
	require.NotNil(tb, parts, v.Note)
	var payload []byte
	for term := range strings.SplitSeq(parts[1], "+") {
		digits, times, repeated := strings.Cut(term, "*")
		count := 1
		if repeated {
			var err error
			count, err = strconv.Atoi(times)
			require.NoError(tb, err)
		}
		unit, err := hex.DecodeString(digits)
		require.NoError(tb, err)
		payload = append(payload, bytes.Repeat(unit, count)...)
	}
	require.Equal(tb, parts[2], strconv.Itoa(len(payload)))
	require.Equal(tb, parts[3], fmt.Sprintf("%x", sha256.Sum256(payload)))
	return payload
}

func TestVectors_STR95(t *testing.T) {
	var d Decoder // one for all, as it is used
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			payload := v.payload(t)
			var into ForwardPass
			err := d.Decode(payload, 0, &into)
			if !v.Valid {
				var reason Reason
				require.ErrorAs(t, err, &reason)
				require.Equal(t, *v.Reason, reason.String())
				return
			}
			require.NoError(t, err)
			if v.RowFPM != nil {
				require.Equal(t, *v.RowFPM, cursorJSON(d.Canonical(&into)))
			}
			requireAgreesWithReference(t, &d, payload)
		})
	}
}

// The vectors prove the reference too, which proves the decoder wherever the vectors don't reach.
func TestVectorsHoldForReference_STR95(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got := refDecode(v.payload(t), defaultMaxSize, false, 0)
			if !v.Valid {
				require.Equal(t, *v.Reason, got.reason.String())
				return
			}
			require.Zero(t, got.reason)
			if v.RowFPM != nil {
				require.Equal(t, *v.RowFPM, got.canonical)
			}
		})
	}
}

func TestGoldenRow(t *testing.T) {
	row, err := os.ReadFile("testdata/golden.jsonl")
	require.NoError(t, err)
	require.Equal(t, "5c8634f0f214d376f8ac8cc194f138d1ea861ff46ba572d1a9c41acc137512ab", fmt.Sprintf("%x", sha256.Sum256(row)))
	got, _ := canonicalJSON(t, goldenPayload(t))
	require.Contains(t, string(row), `"fpm":`+got+"}}\n")
}
