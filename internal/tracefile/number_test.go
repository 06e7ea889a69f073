// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestROW_13_ROW_14_ROW_16_FloatText(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]float64{
		"0.0": 0, "-0.0": math.Copysign(0, -1),
		"100.0": 100, "1000000000000000.0": 1e15, "9007199254740992.0": 1 << 53, "9007199254740994.0": 1<<53 + 2,
		"9999999999999998.0": 9999999999999998,
		"123456.789":         123456.789, "66.66666666666667": 66.66666666666667, "-2.5": -2.5, "-7.0": -7,
		"0.1": 0.1, "0.025": 0.025, "0.0001": 0.0001, "0.00001": 0.00001, "0.000015": 0.000015, "-0.00001": -0.00001,
		"9.999999999999999e-6": math.Nextafter(1e-5, 0),
		"1e-6":                 1e-6, "5e-324": 5e-324, "1e16": 1e16, "1e21": 1e21, "-1e300": -1e300,
		"1.25e-7": 1.25e-7, "1.5e16": 1.5e16, "1.7976931348623157e308": math.MaxFloat64,
		"0.02500000037252903": float64(float32(0.025)), "0.012345678901234567": 0.012345678901234567,
		"null": math.NaN(),
	} {
		require.Equal(t, want, string(appendFloat(nil, f)))
	}
	require.Equal(t, "null", string(appendFloat(nil, math.Inf(1))))
	require.Equal(t, "null", string(appendFloat(nil, math.Inf(-1))))
}

// tableFloat transcribes the table of ROW-13: from the shortest digits and the position of the point, not from strconv's
// choice of a form.
func tableFloat(f float64) string {
	if f == 0 {
		if math.Signbit(f) {
			return "-0.0"
		}
		return "0.0"
	}
	if f < 0 {
		return "-" + tableFloat(-f)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	p, _ := strconv.Atoi(exponent)
	p++
	n := len(digits)
	switch {
	case n <= p && p <= 16:
		return digits + strings.Repeat("0", p-n) + ".0"
	case 0 < p && p <= 16:
		return digits[:p] + "." + digits[p:]
	case -5 < p && p <= 0:
		return "0." + strings.Repeat("0", -p) + digits
	case n == 1:
		return digits + "e" + strconv.Itoa(p-1)
	default:
		return digits[:1] + "." + digits[1:] + "e" + strconv.Itoa(p-1)
	}
}

func TestROW_13_RandomFloats(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(13, 14))
	for range 30_000 {
		f := math.Float64frombits(random.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		requireFloat(t, f)
		requireFloat(t, math.Trunc(math.Ldexp(random.Float64(), random.IntN(70))))
		requireFloat(t, random.Float64()*math.Pow10(random.IntN(50)-25))
	}
	for exponent := -330; exponent < 309; exponent++ {
		f := math.Pow10(exponent)
		requireFloat(t, f)
		requireFloat(t, math.Nextafter(f, 0))
		requireFloat(t, math.Nextafter(f, math.Inf(1)))
	}
}

func requireFloat(t *testing.T, f float64) {
	t.Helper()
	if text := string(appendFloat(nil, f)); text != tableFloat(f) {
		require.Equal(t, tableFloat(f), text)
	}
}

func FuzzFloat(f *testing.F) {
	for _, v := range []float64{0, 1, -1, 0.1, 1e-5, 1e16, 1e15, 1 << 53, 5e-324, math.MaxFloat64, 123456.789} {
		f.Add(math.Float64bits(v))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		v := math.Float64frombits(bits)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		text := string(appendFloat(nil, v))
		require.Equal(t, tableFloat(v), text)
		back, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		require.Equal(t, bits, math.Float64bits(back))
	})
}
