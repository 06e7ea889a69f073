// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// A map body holds everything that the canonical payload does: order, kinds
// and digits (STR-57, FR-34).
func TestMapBodyIsTheCanonicalPayload(t *testing.T) {
	for _, vector := range fpmtest.Vectors(t) {
		if !vector.Valid {
			continue
		}
		t.Run(vector.Name, func(t *testing.T) {
			var decoder fpm.Decoder
			var pass fpm.ForwardPass
			require.NoError(t, decoder.Decode(vector.Payload, 0, &pass))
			canonical := decoder.Canonical(&pass)
			if pass.BigInt {
				t.Skip("carried as bytes (STR-57)")
			}
			require.True(t, FitsMapBody(canonical))
			body := pcommon.NewValueMap()
			putBody(canonical, body.Map())
			payload, ok := AppendBody(nil, body)
			require.True(t, ok)

			var again fpm.Decoder
			require.NoError(t, again.Decode(payload, 0, &pass))
			require.Equal(t, tokens(canonical), tokens(again.Canonical(&pass)))
		})
	}
}

// tokens makes encodings of different width comparable.
func tokens(canonical []byte) (all []fpm.Token) {
	cursor := fpm.NewCursor(canonical)
	for left := 1; left > 0; left-- {
		token := cursor.Next()
		switch token.Kind {
		case fpm.TokenMap:
			left += 2 * token.Len
		case fpm.TokenArray:
			left += token.Len
		}
		all = append(all, token)
	}
	return all
}

func TestFR_4_ListsStayInTheBody(t *testing.T) {
	payload := fpm.AppendMapHeader(nil, 1)
	payload = fpm.AppendString(payload, "extend_lengths")
	payload = fpm.AppendArrayHeader(payload, 300)
	for i := range int64(300) {
		payload = fpm.AppendInt(payload, i*i)
	}
	require.True(t, FitsMapBody(payload), "a long list is no long map")
	body := pcommon.NewMap()
	putBody(payload, body)
	list, ok := body.Get("extend_lengths")
	require.True(t, ok)
	require.Equal(t, 300, list.Slice().Len())
	require.EqualValues(t, 299*299, list.Slice().At(299).Int())
}

func TestFitsMapBody(t *testing.T) {
	for _, tt := range []struct {
		pairs int
		want  bool
	}{{1, true}, {maxBodyPairs, true}, {maxBodyPairs + 1, false}, {100_000, false}} {
		inner := fpm.AppendMapHeader(nil, tt.pairs)
		for i := range tt.pairs {
			inner = fpm.AppendString(inner, strconv.Itoa(i))
			inner = fpm.AppendNil(inner)
		}
		require.Equal(t, tt.want, FitsMapBody(inner), tt.pairs)
		nested := fpm.AppendString(fpm.AppendMapHeader(nil, 1), "extra")
		nested = append(fpm.AppendArrayHeader(nested, 2), inner...)
		require.Equal(t, tt.want, FitsMapBody(fpm.AppendNil(nested)), tt.pairs)
	}
}

// What is cheap to send must not be dear to hold.
func TestFitsMapBodyBoundsTheValues(t *testing.T) {
	list := func(n int, element func([]byte) []byte) []byte {
		payload := fpm.AppendArrayHeader(fpm.AppendString(fpm.AppendMapHeader(nil, 1), "zzz"), n)
		for range n {
			payload = element(payload)
		}
		return payload
	}
	emptyMap := func(dst []byte) []byte { return fpm.AppendMapHeader(dst, 0) }
	require.True(t, FitsMapBody(list(10_000, fpm.AppendNil)))
	require.False(t, FitsMapBody(list(900_000, fpm.AppendNil)))
	require.False(t, FitsMapBody(list(500_000, emptyMap)))
}

func TestROW_27_BodiesThatAreNoPayload(t *testing.T) {
	for _, body := range []pcommon.Value{
		pcommon.NewValueEmpty(), pcommon.NewValueStr("x"), pcommon.NewValueInt(1), pcommon.NewValueSlice(), deep(t, 100_000),
	} {
		_, ok := AppendBody(nil, body)
		require.False(t, ok, body.Type())
	}
}

func TestAppendBodyOfBytes(t *testing.T) {
	body := pcommon.NewValueBytes()
	body.Bytes().FromRaw(fpmtest.Golden())
	dst := []byte("kept")
	payload, ok := AppendBody(dst, body)
	require.True(t, ok)
	require.Equal(t, fpmtest.Golden(), payload)
	require.Equal(t, "kept", string(dst))
}

// Everything a map can hold passes through; what JSON has not is judged by the
// decoder.
func TestAppendBodyOfEveryType(t *testing.T) {
	body := pcommon.NewValueMap()
	require.NoError(t, body.Map().FromRaw(map[string]any{
		"a": []any{int64(-1), 1.5, true, nil, "s", map[string]any{"b": []byte{1}}},
	}))
	payload, ok := AppendBody(nil, body)
	require.True(t, ok)
	kinds := []fpm.TokenKind{}
	for _, token := range tokens(payload) {
		kinds = append(kinds, token.Kind)
	}
	require.Equal(t, []fpm.TokenKind{
		fpm.TokenMap, fpm.TokenString, fpm.TokenArray, fpm.TokenInt, fpm.TokenFloat, fpm.TokenBool, fpm.TokenNil, fpm.TokenString,
		fpm.TokenMap, fpm.TokenString, fpm.TokenBinary,
	}, kinds)
}

// deep nests maps and slices in turn.
func deep(t *testing.T, levels int) pcommon.Value {
	t.Helper()
	root := pcommon.NewValueMap()
	at := root
	for range levels / 2 {
		at = at.Map().PutEmptySlice("k").AppendEmpty()
		at.SetEmptyMap()
	}
	return root
}
