// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package bytesize

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

// yamlProvider resolves yaml:<document> like the Collector's own provider; the value of ${yaml:x} goes the way that the
// value of an environment variable goes.
type yamlProvider struct{}

func (yamlProvider) Retrieve(_ context.Context, uri string, _ confmap.WatcherFunc) (*confmap.Retrieved, error) {
	return confmap.NewRetrievedFromYAML([]byte(uri[len("yaml:"):]))
}
func (yamlProvider) Scheme() string                 { return "yaml" }
func (yamlProvider) Shutdown(context.Context) error { return nil }

func load(t *testing.T, document string) (*confmap.Conf, error) {
	t.Helper()
	resolver, err := confmap.NewResolver(confmap.ResolverSettings{
		URIs: []string{"yaml:" + document},
		ProviderFactories: []confmap.ProviderFactory{
			confmap.NewProviderFactory(func(confmap.ProviderSettings) confmap.Provider { return yamlProvider{} }),
		},
	})
	require.NoError(t, err)
	return resolver.Resolve(t.Context())
}

type config struct {
	Size Size `mapstructure:"size"`
}

// plainConfig is the yardstick of ENV-8: whole numbers give what a plain integer field gives.
type plainConfig struct {
	Size int64 `mapstructure:"size"`
}

func TestENV8NumbersGiveWhatAPlainIntegerFieldGives(t *testing.T) {
	for _, test := range []struct {
		value string
		want  Size
	}{
		{"5", 5},
		{"+5", 5},
		{"007", 7},
		{"010", 8},
		{"0x10", 16},
		{"5_0", 50},
		{"1e3", 1000},
		{"1000.0", 1000},
		{"1e15", 1e15},
		{" 5000 ", 5000},
		{"0", 0},
		{"268435456", 256 * MiB},
		{"9223372036854775807", math.MaxInt64},
	} {
		for form, document := range map[string]string{
			"literal":  "size: " + test.value,
			"expanded": `size: "${yaml:` + test.value + `}"`,
		} {
			t.Run(form+"/"+test.value, func(t *testing.T) {
				conf, err := load(t, document)
				require.NoError(t, err)
				var cfg config
				require.NoError(t, conf.Unmarshal(&cfg))
				require.Equal(t, test.want, cfg.Size)
				var plain plainConfig
				require.NoError(t, conf.Unmarshal(&plain))
				require.Equal(t, plain.Size, int64(cfg.Size))
			})
		}
	}
}

func TestENV8Text(t *testing.T) {
	for value, want := range map[string]Size{
		"4KiB": 4096, "1MiB": 1 << 20, "64MiB": 64 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40,
		"1KB": 1000, "3MB": 3_000_000, "1gb": 1_000_000_000, "1TB": 1_000_000_000_000,
		"10B": 10, "12 mib": 12 << 20, "+1KiB": 1024, `"5000"`: 5000, `" 5000 "`: 5000, `"007"`: 7,
		"8388607TiB": 8388607 * TiB,
	} {
		for form, document := range map[string]string{
			"literal":  "size: " + value,
			"expanded": `size: "${yaml:` + value + `}"`,
		} {
			if form == "expanded" && value[0] == '"' {
				continue // quotes stay part of an expanded text
			}
			t.Run(form+"/"+value, func(t *testing.T) {
				conf, err := load(t, document)
				require.NoError(t, err)
				var cfg config
				require.NoError(t, conf.Unmarshal(&cfg))
				require.Equal(t, want, cfg.Size)
			})
		}
	}
}

func TestENV8RefusedValuesAreNamed(t *testing.T) {
	for value, named := range map[string]string{
		"-1":                     "(got -1)",
		"-1.5":                   "(got -1.5)",
		"-0.5":                   "(got -0.5)",
		"0.5":                    "a byte size must be a whole number (got 0.5)",
		"1000.7":                 "a byte size must be a whole number (got 1000.7)",
		"1000.0000001":           "(got 1000.0000001)",
		"4503599627370495.5":     "(got 4503599627370495.5)",
		`"-1KiB"`:                `(got "-1KiB")`,
		"9223372036854775808":    "(got 9223372036854775808)",
		"18446744073709551615":   "(got 18446744073709551615)",
		"18446744073709551616":   "(got 18446744073709552000)",
		"1e300":                  "above 2^63-1",
		".inf":                   "(got +Inf)",
		".nan":                   "(got NaN)",
		"8388608TiB":             `(got "8388608TiB")`,
		`"9223372036854775808"`:  `(got "9223372036854775808")`,
		`"99999999999999999999"`: `(got "99999999999999999999")`,
		"4XiB":                   `(got "4XiB")`,
		"KiB":                    `(got "KiB")`,
		"1.5MiB":                 `(got "1.5MiB")`,
		`""`:                     `(got "")`,
		"big":                    `(got "big")`,
		"true":                   "(got true, a bool)",
		"[1]":                    "(got [1], a []interface {})",
	} {
		t.Run(value, func(t *testing.T) {
			conf, err := load(t, "size: "+value)
			require.NoError(t, err)
			cfg := config{Size: 7}
			err = conf.Unmarshal(&cfg)
			require.ErrorContains(t, err, named)
			require.ErrorContains(t, err, "'size'")
			require.Equal(t, Size(7), cfg.Size)
		})
	}
}

func TestENV8LargestUnsignedFromAVariableIsALoadError(t *testing.T) {
	_, err := load(t, "size: ${yaml:18446744073709551615}")
	require.Error(t, err)
}

func TestENV8Above63BitsFromAVariableIsRefused(t *testing.T) {
	conf, err := load(t, "size: ${yaml:18446744073709551616}")
	require.NoError(t, err)
	require.ErrorContains(t, conf.Unmarshal(&config{}), "above 2^63-1")
}

// A variable that is set but empty gives 0, as for a plain integer field; keys that need more refuse it (FIL-62).
func TestENV8EmptyVariableIsZero(t *testing.T) {
	conf, err := load(t, "size: ${yaml:}")
	require.NoError(t, err)
	cfg := config{Size: 7}
	require.NoError(t, conf.Unmarshal(&cfg))
	require.Zero(t, cfg.Size)
}

// A key without a value gives 0 too: confmap decodes null as the zero value of the field.
func TestENV8NullIsZero(t *testing.T) {
	conf, err := load(t, "size:")
	require.NoError(t, err)
	cfg, plain := config{Size: 7}, plainConfig{Size: 7}
	require.NoError(t, conf.Unmarshal(&cfg))
	require.NoError(t, conf.Unmarshal(&plain))
	require.Zero(t, plain.Size)
	require.Zero(t, cfg.Size)
}

func TestStringReadsBack(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 1025: "1025", 64 * MiB: "64MiB", 3 * GiB: "3GiB", 1024 * GiB: "1TiB",
		math.MaxInt64: "9223372036854775807",
	} {
		require.Equal(t, want, size.String())
		back, err := Parse(want)
		require.NoError(t, err)
		require.Equal(t, size, back)
	}
}

func TestPrintedConfigLoadsAgain(t *testing.T) {
	conf := confmap.New()
	require.NoError(t, conf.Marshal(config{Size: 64 * MiB}))
	require.Equal(t, map[string]any{"size": "64MiB"}, conf.ToStringMap())
	var back config
	require.NoError(t, conf.Unmarshal(&back))
	require.Equal(t, 64*MiB, back.Size)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0", "64MiB", "-1", "9223372036854775808", "8388608TiB", " 1 kb "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := Parse(text)
		if err != nil {
			require.Zero(t, size)
			return
		}
		require.GreaterOrEqual(t, size, Size(0))
		back, err := Parse(size.String())
		require.NoError(t, err)
		require.Equal(t, size, back)
	})
}
