// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

// goldenEnvelope is what stands around the payload in the golden rows (ROW-24).
var goldenEnvelope = Envelope{
	TimestampMillis:    1250,
	Source:             fpm.Source{Namespace: "default", Component: "backend", ProducerID: "4192"},
	CaptureMode:        "sampled",
	ObservedUnixMillis: 1782777601250,
}

func canonicalOf(t *testing.T, payload []byte) []byte {
	t.Helper()
	var d fpm.Decoder
	var p fpm.ForwardPass
	require.NoError(t, d.Decode(payload, 0, &p))
	return d.Canonical(&p)
}

func rowOf(t *testing.T, payload []byte) string {
	t.Helper()
	return string(AppendRow(nil, goldenEnvelope, canonicalOf(t, payload)))
}

func TestROW_24_GoldenRow(t *testing.T) {
	t.Parallel()
	payload := fpmtest.Golden()
	require.Equal(t, "f9723f6be211bbeebf5fb3a28e259737d04843cfd50eed6bc738835692b0dead", digest(payload))
	row := rowOf(t, payload)
	require.Equal(t, string(fpmtest.GoldenRow()), row)
	require.Len(t, row, 660)
	require.Equal(t, "5c8634f0f214d376f8ac8cc194f138d1ea861ff46ba572d1a9c41acc137512ab", digest([]byte(row)))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestROW_25_FurtherGoldenRows(t *testing.T) {
	t.Parallel()
	withNaN := appendPair(t, fpmtest.Golden(), "extra", fpm.AppendFloat(nil, math.NaN()))
	withNil := appendPair(t, fpmtest.Golden(), "extra", fpm.AppendNil(nil))
	for _, c := range []struct {
		name    string
		payload []byte
		length  int
		sha256  string
	}{
		{"heartbeat", heartbeat(), 646, "b394f80833e49fb82bfa1da273c0840a4e58b1c84befa0ac85d6c1da1af75eb3"},
		{"reversed", reversed(t), 660, "8b4f9308bf5d586683cdbe5cf4e4410009a10d286bcc29e581bc23f39109871d"},
		{
			"second counter_id", appendPair(t, fpmtest.Golden(), "counter_id", fpm.AppendInt(nil, 43)), 660,
			"789d73e88023fc62699225653d8f7ba5110963f74ac6667c592ff6db3898b2cb",
		},
		{"lists", withLists(t), 712, "5ed9270d5d69f2f5ab4739fc6a934dcc7519e31b494f67959c1c2ab9d8b38e4b"},
		{
			"timing scope", appendPair(t, fpmtest.Golden(), "timing_scope", fpm.AppendString(nil, "execute_model_cuda")), 696,
			"ec812a1ed10d42d86ab567ae4b789293ac9ca904a06d9c9e7f63b78b75264a8b",
		},
		{"NaN", withNaN, 673, "059bdd7cbf27d0b62a3dba450d04c71caead45a4d9d7c1703400ee528390ba34"},
		{"nil", withNil, 673, "059bdd7cbf27d0b62a3dba450d04c71caead45a4d9d7c1703400ee528390ba34"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			row := rowOf(t, c.payload)
			require.Len(t, row, c.length, row)
			require.Equal(t, c.sha256, digest([]byte(row)), row)
		})
	}
}

// pairsOf gives the keys and values of a msgpack map, encoded.
func pairsOf(t *testing.T, encoded []byte) (keys, values [][]byte) {
	t.Helper()
	d := msgpack.NewDecoder(bytes.NewReader(encoded))
	n, err := d.DecodeMapLen()
	require.NoError(t, err)
	for range n {
		key, err := d.DecodeRaw()
		require.NoError(t, err)
		value, err := d.DecodeRaw()
		require.NoError(t, err)
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}

func mapOf(keys, values [][]byte) []byte {
	encoded := fpm.AppendMapHeader(nil, len(keys))
	for i := range keys {
		encoded = append(append(encoded, keys[i]...), values[i]...)
	}
	return encoded
}

func appendPair(t *testing.T, encoded []byte, key string, value []byte) []byte {
	t.Helper()
	keys, values := pairsOf(t, encoded)
	return mapOf(append(keys, fpm.AppendString(nil, key)), append(values, value))
}

func reversed(t *testing.T) []byte {
	t.Helper()
	keys, values := pairsOf(t, fpmtest.Golden())
	slices.Reverse(keys)
	slices.Reverse(values)
	return mapOf(keys, values)
}

func withLists(t *testing.T) []byte {
	t.Helper()
	keys, values := pairsOf(t, fpmtest.Golden())
	i := slices.IndexFunc(keys, func(k []byte) bool { return bytes.Contains(k, []byte("scheduled_requests")) })
	values[i] = appendPair(t, values[i], "extend_lengths", listOf(1, 2))
	values[i] = appendPair(t, values[i], "past_kv_lengths", listOf(7100, 950))
	return mapOf(keys, values)
}

func listOf(numbers ...int64) []byte {
	encoded := fpm.AppendArrayHeader(nil, len(numbers))
	for _, n := range numbers {
		encoded = fpm.AppendInt(encoded, n)
	}
	return encoded
}

func heartbeat() []byte {
	p := fpm.ForwardPass{WorkerID: []byte("4192"), DPRank: 1, CounterID: 7}
	p.Scheduled.HasPrefillLengthVariance, p.Scheduled.HasDecodeKVVariance = true, true
	p.Queued.HasPrefillLengthVariance, p.Queued.HasDecodeKVVariance = true, true
	return fpm.AppendPayload(nil, &p)
}

// TestROW_11_Vectors compares the text of every valid payload vector byte for byte, which covers ROW-11 to ROW-22.
func TestROW_11_Vectors(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, v := range fpmtest.Vectors(t) {
		if !v.Valid || v.RowFPM == "" {
			continue
		}
		compared++
		require.Equal(t, v.RowFPM, string(AppendPayloadJSON(nil, canonicalOf(t, v.Payload))), v.Name)
	}
	require.Greater(t, compared, 50)
}

func TestROW_1_OneObjectAndOneLineFeed(t *testing.T) {
	t.Parallel()
	for _, v := range fpmtest.Vectors(t) {
		if !v.Valid {
			continue
		}
		row := rowOf(t, v.Payload)
		require.Equal(t, 1, strings.Count(row, "\n"), v.Name)
		require.True(t, strings.HasSuffix(row, "}}\n"), v.Name)
		require.True(t, json.Valid([]byte(row)), v.Name)
	}
}

func TestROW_2_ROW_3_ROW_4_ROW_5_KeyOrder(t *testing.T) {
	t.Parallel()
	row := string(AppendRow(nil, Envelope{
		TimestampMillis: math.MaxUint64, CaptureMode: "full", ObservedUnixMillis: 0,
	}, []byte{0x80}))
	//nolint:testifylint // the order counts
	require.Equal(t, `{"timestamp":18446744073709551615,"event":{"schema":"dynamo.fpm.trace.v1",`+
		`"source":{"namespace":"","component":"","producer_id":""},"capture_mode":"full","observed_at_unix_ms":0,`+
		`"fpm":{}}}`+"\n", row)
}

func TestROW_6_SourceIsRaw(t *testing.T) {
	t.Parallel()
	e := goldenEnvelope
	e.Source = fpm.Source{Namespace: `a"b`, Component: "<c>&", ProducerID: "tcp://[::1]:20380\n"}
	row := string(AppendRow(nil, e, []byte{0x80}))
	require.Contains(t, row, `"source":{"namespace":"a\"b","component":"<c>&","producer_id":"tcp://[::1]:20380\n"}`)
}

func TestROW_9_TimestampIsTakenWhenTheRowJoinsTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, func(s *setup) { s.cfg.RollBytes = 700 })
		time.Sleep(1250 * time.Millisecond)
		w.enqueue(pass(1, 1))
		time.Sleep(3 * time.Second)
		w.enqueue(passOf("other", 1, 1))
		time.Sleep(3 * time.Second)
		w.enqueue(run(2, 3)...) // rolls twice
		w.shutdown()
		require.Equal(t, uint64(1250), parseRow(t, readRows(t, w.path("4192", 0))[0]).Timestamp)
		require.Equal(t, uint64(4250), parseRow(t, readRows(t, w.path("other", 0))[0]).Timestamp, "one clock for all")
		require.Equal(t, uint64(7250), parseRow(t, readRows(t, w.path("4192", 2))[0]).Timestamp, "not reset by a roll")
	})
}

func TestROW_9_TimestampIncludesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultDisk()
		disk.set(failing(errNoSpace, "create"))
		w := newRig(t, func(s *setup) { s.disk = disk })
		w.enqueue(pass(1, 1))
		time.Sleep(1500 * time.Millisecond) // in a member by now, waiting
		w.enqueue(pass(2, 2))
		time.Sleep(time.Minute)
		disk.set(nil)
		time.Sleep(time.Minute)
		rows := readRows(t, w.path("4192", 0))
		require.Zero(t, parseRow(t, rows[0]).Timestamp)
		require.Greater(t, parseRow(t, rows[1]).Timestamp, uint64(60_000))
	})
}

func TestROW_10_ObservedTimeIsRoundedDown(t *testing.T) {
	t.Parallel()
	r := pass(1, 0)
	r.ObservedUnixNano = 1_782_777_601_250_999_999
	require.Contains(t, string(appendRecord(nil, &r)), `"observed_at_unix_ms":1782777601250,`)
}

func TestROW_12_IntegersAreExact(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, -1, 9007199254740993, math.MaxInt64, math.MinInt64} {
		require.Equal(t, strconv.FormatInt(n, 10), string(AppendPayloadJSON(nil, fpm.AppendInt(nil, n))))
	}
	require.Equal(t, "18446744073709551615", string(AppendPayloadJSON(nil, fpm.AppendUint(nil, math.MaxUint64))))
}

func TestROW_15_TheWireTypeDecides(t *testing.T) {
	t.Parallel()
	require.Equal(t, "5", string(AppendPayloadJSON(nil, fpm.AppendInt(nil, 5))))
	require.Equal(t, "100.0", string(AppendPayloadJSON(nil, fpm.AppendFloat(nil, 100))))
	single := []byte{0xca, 0x3c, 0xcc, 0xcc, 0xcd} // 0.025
	require.Equal(t, "0.02500000037252903", string(AppendPayloadJSON(nil, single)))
}

func TestROW_17_EmptyAndNested(t *testing.T) {
	t.Parallel()
	encoded := fpm.AppendArrayHeader(nil, 5)
	encoded = fpm.AppendBool(encoded, true)
	encoded = fpm.AppendBool(encoded, false)
	encoded = fpm.AppendNil(encoded)
	encoded = fpm.AppendArrayHeader(encoded, 0)
	encoded = fpm.AppendMapHeader(encoded, 0)
	require.Equal(t, "[true,false,null,[],{}]", string(AppendPayloadJSON(nil, encoded)))
}

func TestROW_20_NoStrayComma(t *testing.T) {
	t.Parallel()
	binary := fpm.AppendBinary(nil, []byte{1, 2})
	golden := rowOf(t, fpmtest.Golden())
	keys, values := pairsOf(t, fpmtest.Golden())
	for at := range len(keys) + 1 {
		payload := mapOf(
			slices.Insert(slices.Clone(keys), at, fpm.AppendString(nil, "blob")), slices.Insert(slices.Clone(values), at, binary))
		require.Equal(t, golden, rowOf(t, payload), at)
	}
}

func TestROW_21_DuplicateKeys(t *testing.T) {
	t.Parallel()
	payload := appendPair(t, fpmtest.Golden(), "extra", fpm.AppendString(nil, "first"))
	payload = appendPair(t, payload, "other", fpm.AppendString(nil, "only"))
	payload = appendPair(t, payload, "extra", fpm.AppendString(nil, "last"))
	require.Contains(t, rowOf(t, payload), `,"extra":"last","other":"only"}}`)
}

func TestCON_7_ListsAreKeptWhole(t *testing.T) {
	t.Parallel()
	numbers := make([]int64, 300)
	for i := range numbers {
		numbers[i] = int64(i) * 37
	}
	row := rowOf(t, appendPair(t, fpmtest.Golden(), "extend_lengths", listOf(numbers...)))
	text, err := json.Marshal(numbers)
	require.NoError(t, err)
	require.Contains(t, row, `"extend_lengths":`+string(text)+"}}}\n")
}

func TestPERF_22_NoAllocation(t *testing.T) {
	canonical := canonicalOf(t, fpmtest.Golden())
	dst := make([]byte, 0, 2048)
	require.Zero(t, testing.AllocsPerRun(100, func() { dst = AppendRow(dst[:0], goldenEnvelope, canonical) }))
}

// FuzzRow: whatever the decoder accepts makes one row that encoding/json parses to the same values.
func FuzzRow(f *testing.F) {
	for _, v := range fpmtest.Vectors(f) {
		if v.Valid && len(v.Payload) < 10_000 {
			f.Add(v.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d fpm.Decoder
		var p fpm.ForwardPass
		if d.Decode(payload, 0, &p) != nil {
			return
		}
		canonical := d.Canonical(&p)
		row := AppendRow(nil, goldenEnvelope, canonical)
		require.Equal(t, 1, bytes.Count(row, []byte("\n")))
		var parsed struct {
			Event struct{ FPM json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(row, &parsed))
		decoder := json.NewDecoder(bytes.NewReader(parsed.Event.FPM))
		decoder.UseNumber()
		cursor := fpm.NewCursor(canonical)
		requireSameValue(t, &cursor, decoder)
	})
}

// requireSameValue walks both forms of one value side by side, so that order counts.
func requireSameValue(t *testing.T, cursor *fpm.Cursor, decoder *json.Decoder) {
	t.Helper()
	token := cursor.Next()
	text, err := decoder.Token()
	require.NoError(t, err)
	switch token.Kind {
	case fpm.TokenMap:
		require.Equal(t, json.Delim('{'), text)
		for range token.Len {
			key, err := decoder.Token()
			require.NoError(t, err)
			require.Equal(t, string(cursor.Next().Str), key)
			requireSameValue(t, cursor, decoder)
		}
		closing, err := decoder.Token()
		require.NoError(t, err)
		require.Equal(t, json.Delim('}'), closing)
	case fpm.TokenArray:
		require.Equal(t, json.Delim('['), text)
		for range token.Len {
			requireSameValue(t, cursor, decoder)
		}
		closing, err := decoder.Token()
		require.NoError(t, err)
		require.Equal(t, json.Delim(']'), closing)
	case fpm.TokenString:
		require.Equal(t, string(token.Str), text)
	case fpm.TokenBool:
		require.Equal(t, token.Bool, text)
	case fpm.TokenInt:
		require.Equal(t, json.Number(strconv.FormatInt(token.Int, 10)), text)
	case fpm.TokenUint:
		require.Equal(t, json.Number(strconv.FormatUint(token.Uint, 10)), text)
	case fpm.TokenFloat:
		require.IsType(t, json.Number(""), text)
		number, err := text.(json.Number).Float64()
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(token.Float), math.Float64bits(number))
	default:
		require.Nil(t, text)
	}
}
