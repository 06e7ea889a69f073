// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package bytesize holds the one type of all byte sizes in our configurations (ENV-8): a plain number of bytes, or text
// with a unit such as 64MiB.
package bytesize

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/confmap"
)

// Size is a number of bytes, 0 to 2^63-1. Its zero value is 0 bytes; whether that is allowed is the decision of the
// component that has the key.
type Size int64

// Binary units.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var (
	_ fmt.Stringer              = Size(0)
	_ encoding.TextMarshaler    = Size(0)
	_ encoding.TextUnmarshaler  = (*Size)(nil)
	_ confmap.ScalarUnmarshaler = (*Size)(nil)
)

// maxValue is 2^63-1 in words, for error messages.
const maxValue = "2^63-1 (9223372036854775807)"

// units maps the lower-case unit to its bytes. The decimal ones are those of the SI.
var units = map[string]int64{
	"":    1,
	"b":   1,
	"kib": int64(KiB),
	"mib": int64(MiB),
	"gib": int64(GiB),
	"tib": int64(TiB),
	"kb":  1e3,
	"mb":  1e6,
	"gb":  1e9,
	"tb":  1e12,
}

// Parse reads decimal digits, with an optional + before them, and an optional unit: B, KiB, MiB, GiB, TiB (powers of
// 1024), kB, MB, GB, TB (powers of 1000), in any case. Blanks around the number and the unit are ignored.
func Parse(text string) (Size, error) {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "-") {
		return 0, fmt.Errorf("a byte size must not be negative (got %q)", text)
	}
	digits := strings.TrimPrefix(trimmed, "+")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	factor, known := units[strings.ToLower(strings.TrimSpace(digits[end:]))]
	if end == 0 || !known {
		return 0, fmt.Errorf("a byte size is a whole number or text such as 4KiB, 1MiB or 64MiB (got %q)", text)
	}
	number, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil || number > math.MaxInt64/factor {
		return 0, fmt.Errorf("a byte size must not be above %s (got %q)", maxValue, text)
	}
	return Size(number * factor), nil
}

// UnmarshalText is Parse. It sets nothing on error.
func (s *Size) UnmarshalText(text []byte) error {
	size, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = size
	return nil
}

// UnmarshalScalar accepts the whole numbers that a plain integer field accepts, and text. It is needed beside UnmarshalText because
// confmap hands only text to the latter, and because a plain integer field turns a too large number into a wrong one
// instead of refusing it.
func (s *Size) UnmarshalScalar(value confmap.ScalarValue) error {
	size, err := fromScalar(value.GetRaw())
	if err != nil {
		return err
	}
	*s = size
	return nil
}

// fromScalar converts what a configuration source gives: YAML yields int, int64, uint64, float64 or string; a Size or
// *Size comes from an earlier decoding step (UnmarshalText; the zero value of a variable that is set but empty).
func fromScalar(raw any) (Size, error) {
	switch v := raw.(type) {
	case Size:
		return v, nil
	case *Size:
		return *v, nil
	case string:
		return Parse(v)
	case int:
		return fromInt(int64(v))
	case int32:
		return fromInt(int64(v))
	case int64:
		return fromInt(v)
	case uint64:
		return fromUint(v)
	case float32:
		return fromFloat(float64(v))
	case float64:
		return fromFloat(v)
	default:
		return 0, fmt.Errorf("a byte size is a whole number or text such as 4KiB, 1MiB or 64MiB (got %v, a %T)", v, v)
	}
}

func fromInt(v int64) (Size, error) {
	if v < 0 {
		return 0, fmt.Errorf("a byte size must not be negative (got %d)", v)
	}
	return Size(v), nil
}

func fromUint(v uint64) (Size, error) {
	if v > math.MaxInt64 {
		return 0, fmt.Errorf("a byte size must not be above %s (got %d)", maxValue, v)
	}
	return Size(v), nil
}

// fromFloat takes whole numbers, because YAML reads 1e3 as a float. Unlike a plain integer field it refuses a fraction
// instead of cutting it off. The negated comparison catches NaN.
func fromFloat(v float64) (Size, error) {
	if v < 0 {
		return 0, fmt.Errorf("a byte size must not be negative (got %s)", formatFloat(v))
	}
	if !(v < math.MaxInt64) {
		return 0, fmt.Errorf("a byte size must not be above %s (got %s)", maxValue, formatFloat(v))
	}
	if v != math.Trunc(v) {
		return 0, fmt.Errorf("a byte size must be a whole number (got %s)", formatFloat(v))
	}
	return Size(v), nil
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// String gives the shortest exact form: the largest binary unit that divides the size, such as 64MiB; 1000 stays 1000.
// Parse reads it back to the same size.
func (s Size) String() string {
	for _, unit := range [...]struct {
		size Size
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText is String, so that a printed configuration can be loaded again.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
