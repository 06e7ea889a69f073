// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/confmap"
)

// Switch is on or off. It is a type of its own because a bool field refuses the digits and words that DYN_FPM_TRACE
// may hold, and a string field refuses a literal true (ENV-5).
type Switch bool

var (
	_ encoding.TextMarshaler    = Switch(false)
	_ confmap.ScalarUnmarshaler = (*Switch)(nil)
)

// UnmarshalScalar accepts the YAML booleans, the integers 1 and 0, and as text, trimmed and in any case, 1, true, on,
// yes, 0, false, off and no. All else, null and an empty variable included, is an error.
func (s *Switch) UnmarshalScalar(value confmap.ScalarValue) error {
	raw := value.GetRaw()
	on, known := switchOf(raw)
	if !known {
		return fmt.Errorf("must be one of true, on, yes, 1, false, off, no, 0 (got %s)", describe(raw))
	}
	*s = Switch(on)
	return nil
}

func switchOf(raw any) (on, known bool) {
	switch v := raw.(type) {
	case bool:
		return v, true
	case int:
		return v == 1, v == 0 || v == 1
	case string:
		return switchOfWord(v)
	default:
		return false, false
	}
}

func switchOfWord(text string) (on, known bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "1", "true", "on", "yes":
		return true, true
	case "0", "false", "off", "no":
		return false, true
	default:
		return false, false
	}
}

// describe says what was configured. confmap hands the zero value of the field, a Switch, for null and for a variable
// that is set but empty.
func describe(raw any) string {
	switch v := raw.(type) {
	case nil, Switch:
		return "nothing"
	case string:
		return strconv.Quote(v)
	default:
		return fmt.Sprint(v)
	}
}

// MarshalText keeps a printed configuration loadable.
func (s Switch) MarshalText() ([]byte, error) { return strconv.AppendBool(nil, bool(s)), nil }
