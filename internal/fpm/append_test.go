// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

// library encodes with the msgpack library, in the shortest integer forms.
func library(tb testing.TB, v any) []byte {
	tb.Helper()
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	require.NoError(tb, e.Encode(v))
	return b.Bytes()
}

// borders are the integers around which the form changes.
func borders() []int64 {
	var all []int64
	for _, v := range []int64{0, 32, 127, 128, 255, 256, 32767, 32768, 65535, 65536, math.MaxInt32, 1 << 31, math.MaxUint32, 1 << 32} {
		for d := int64(-1); d <= 1; d++ {
			all = append(all, v+d, -v+d)
		}
	}
	return append(all, math.MinInt64, math.MinInt64+1, math.MaxInt64)
}

func TestAppendIsWhatTheLibraryWrites_STR29(t *testing.T) {
	for _, v := range borders() {
		c := NewCursor(AppendInt(nil, v))
		require.Equal(t, v, c.Next().Int)
		require.Equal(t, library(t, v), AppendInt(nil, v), "%d", v)
		if v >= 0 {
			require.Equal(t, library(t, uint64(v)), AppendUint(nil, uint64(v)), "%d", v)
		}
	}
	require.Equal(t, library(t, uint64(math.MaxUint64)), AppendUint(nil, math.MaxUint64))
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536} {
		s := strings.Repeat("x", n)
		require.Equal(t, library(t, s), AppendString(nil, s), "%d bytes", n)
		require.Equal(t, library(t, s), appendStringBytes(nil, []byte(s)), "%d bytes", n)
		require.Equal(t, library(t, []byte(s)), AppendBinary(nil, []byte(s)), "%d bytes", n)
	}
	for _, n := range []int{0, 1, 15, 16, 65535, 65536} {
		var b bytes.Buffer
		require.NoError(t, msgpack.NewEncoder(&b).EncodeArrayLen(n))
		require.Equal(t, b.Bytes(), AppendArrayHeader(nil, n))
		b.Reset()
		require.NoError(t, msgpack.NewEncoder(&b).EncodeMapLen(n))
		require.Equal(t, b.Bytes(), AppendMapHeader(nil, n))
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 0.025, math.MaxFloat64, math.Inf(-1)} {
		require.Equal(t, library(t, f), AppendFloat(nil, f))
	}
	require.Equal(t, library(t, nil), AppendNil(nil))
	require.Equal(t, library(t, true), AppendBool(nil, true))
	require.Equal(t, library(t, false), AppendBool(nil, false))
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	dst := []byte("before")
	view := goldenView()
	require.Equal(t, append([]byte("before"), goldenPayload(t)...), AppendPayload(dst, &view))
}

func TestAppendPayloadIsReadBack(t *testing.T) {
	for name, change := range map[string]func(*ForwardPass){
		"golden":       func(*ForwardPass) {},
		"timing scope": func(p *ForwardPass) { p.TimingScope = []byte("execute_model_cuda") },
		"no variances": func(p *ForwardPass) {
			p.Scheduled.HasPrefillLengthVariance, p.Queued.HasDecodeKVVariance = false, false
		},
		"large numbers": func(p *ForwardPass) { p.CounterID, p.DPRank, p.WallTime = math.MaxInt64, 1<<40, 1e100 },
		"no worker":     func(p *ForwardPass) { p.WorkerID = []byte{} },
	} {
		view := goldenView()
		change(&view)
		if !view.Scheduled.HasPrefillLengthVariance {
			view.Scheduled.PrefillLengthVariance = 0
		}
		var got ForwardPass
		require.NoError(t, new(Decoder).Decode(AppendPayload(nil, &view), 0, &got), name)
		requireSameView(t, &view, &got)
	}
}
