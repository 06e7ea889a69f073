// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/bytesize"
	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver"
)

// testProvider does what the collector's environment and YAML providers do.
type testProvider struct{ scheme string }

func (p testProvider) Retrieve(_ context.Context, uri string, _ confmap.WatcherFunc) (*confmap.Retrieved, error) {
	value := strings.TrimPrefix(uri, p.scheme+":")
	if p.scheme == "env" {
		name, fallback, _ := strings.Cut(value, ":-")
		var set bool
		if value, set = os.LookupEnv(name); !set {
			value = fallback
		}
	}
	return confmap.NewRetrievedFromYAML([]byte(value))
}
func (p testProvider) Scheme() string               { return p.scheme }
func (testProvider) Shutdown(context.Context) error { return nil }

func providerFactory(scheme string) confmap.ProviderFactory {
	return confmap.NewProviderFactory(func(confmap.ProviderSettings) confmap.Provider { return testProvider{scheme: scheme} })
}

func newResolver(t *testing.T, document string) *confmap.Resolver {
	t.Helper()
	resolver, err := confmap.NewResolver(confmap.ResolverSettings{
		URIs:              []string{"yaml:" + document},
		ProviderFactories: []confmap.ProviderFactory{providerFactory("yaml"), providerFactory("env")},
		DefaultScheme:     "env",
	})
	require.NoError(t, err)
	return resolver
}

func resolve(t *testing.T, document string) *confmap.Conf {
	t.Helper()
	conf, err := newResolver(t, document).Resolve(t.Context())
	require.NoError(t, err)
	return conf
}

// loadDropIn loads the exporter of the drop-in example (ENV-3).
func loadDropIn(t *testing.T) (*Config, error) {
	t.Helper()
	cfg := defaultConfig()
	return cfg, loadDropInPart(t, "exporters::fpm_trace", cfg)
}

func loadDropInPart(t *testing.T, key string, cfg any) error {
	t.Helper()
	document, err := os.ReadFile("../../examples/dynamo/config.yaml")
	require.NoError(t, err)
	conf, err := newResolver(t, string(document)).Resolve(t.Context())
	if err != nil {
		return err
	}
	sub, err := conf.Sub(key)
	require.NoError(t, err)
	if err := sub.Unmarshal(cfg); err != nil {
		return err
	}
	return confmap.Validate(cfg)
}

// unsetDropIn makes the defaults of the drop-in example apply.
func unsetDropIn(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"DYN_FPM_TRACE", "DYN_FPM_OUTPUT_PATH", "DYN_FPM_JSONL_GZ_ROLL_BYTES", "DYN_FPM_MAX_SEGMENTS", "DYN_FPM_MODE",
		"DYN_FPM_SAMPLE_INTERVAL_MS", "DYN_FORWARDPASS_METRIC_PORT", "DYN_COMPONENT", "DYN_NAMESPACE",
	} {
		t.Setenv(name, "") // so that it is restored
		require.NoError(t, os.Unsetenv(name))
	}
}

func TestENV3SamplerOfTheDropIn(t *testing.T) {
	unsetDropIn(t)
	load := func() (*fpmsampler.Config, error) {
		cfg := fpmsampler.NewFactory().CreateDefaultConfig().(*fpmsampler.Config)
		return cfg, loadDropInPart(t, "processors::fpm_sampler", cfg)
	}
	cfg, err := load()
	require.NoError(t, err)
	require.Equal(t, "sampled", cfg.Mode)
	require.Equal(t, 5*time.Second, cfg.Interval)

	t.Setenv("DYN_FPM_MODE", "full")
	t.Setenv("DYN_FPM_SAMPLE_INTERVAL_MS", "250")
	cfg, err = load()
	require.NoError(t, err)
	require.Equal(t, "full", cfg.Mode)
	require.Equal(t, 250*time.Millisecond, cfg.Interval)

	for name, values := range map[string][]string{
		"DYN_FPM_MODE":               {"", "all"},
		"DYN_FPM_SAMPLE_INTERVAL_MS": {"", "0", "-1", "soon"},
	} {
		for _, value := range values {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv(name, value)
				_, err := load()
				require.Error(t, err)
			})
		}
	}
}

func TestENV3ReceiverOfTheDropIn(t *testing.T) {
	unsetDropIn(t)
	load := func() *fpmreceiver.Config {
		cfg := fpmreceiver.NewFactory().CreateDefaultConfig().(*fpmreceiver.Config)
		require.NoError(t, loadDropInPart(t, "receivers::fpm", cfg))
		return cfg
	}
	cfg := load()
	require.Equal(t, "tcp://127.0.0.1:20380", cfg.Endpoint)
	require.Equal(t, "backend", cfg.Component)
	require.Equal(t, "default", cfg.Namespace)

	t.Setenv("DYN_FORWARDPASS_METRIC_PORT", "20500")
	t.Setenv("DYN_COMPONENT", "prefill")
	t.Setenv("DYN_NAMESPACE", "other")
	cfg = load()
	require.Equal(t, "tcp://127.0.0.1:20500", cfg.Endpoint)
	require.Equal(t, "prefill", cfg.Component)
	require.Equal(t, "other", cfg.Namespace)
}

func TestENV3DefaultsOfTheDropIn(t *testing.T) {
	unsetDropIn(t)
	cfg, err := loadDropIn(t)
	require.NoError(t, err)
	require.False(t, bool(cfg.Enabled))
	require.Equal(t, "/tmp/dynamo-fpm", cfg.Path)
	require.Equal(t, 256*bytesize.MiB, cfg.RollBytes)
	require.Equal(t, uint64(4), cfg.MaxSegments)
}

// refused marks a value that must be refused.
const refused = "refused"

func TestENV5Enabled(t *testing.T) {
	for value, want := range map[string]string{
		"1": "on", "true": "on", "on": "on", "yes": "on", "TRUE": "on", "On": "on", "YES": "on", " yes ": "on", " 1 ": "on",
		"True": "on", "tRuE": "on",
		"0": "off", "false": "off", "off": "off", "no": "off", "FALSE": "off", "Off": "off", "NO": "off", " no ": "off",
		"": refused, "2": refused, "enabled": refused, "maybe": refused, "-1": refused, "1.0": refused, "null": refused,
		"~": refused, "y": refused, "[1]": refused, "{a: 1}": refused,
	} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("DYN_FPM_TRACE", value)
			cfg, err := loadDropIn(t)
			if want == refused {
				require.ErrorContains(t, err, "enabled")
				return
			}
			require.NoError(t, err)
			require.Equal(t, want == "on", bool(cfg.Enabled))
		})
	}
}

func TestENV7Path(t *testing.T) {
	for value, want := range map[string]string{
		"/data/fpm": "/data/fpm", " /data/fpm ": "/data/fpm", "/data/fpm.jsonl.gz": "/data/fpm", "4192": "4192", "on": "on",
		"": refused, "   ": refused, "/data/": refused,
	} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("DYN_FPM_OUTPUT_PATH", value)
			cfg, err := loadDropIn(t)
			if want == refused {
				require.ErrorContains(t, err, "path must")
				return
			}
			require.NoError(t, err)
			got, err := cfg.writerConfig()
			require.NoError(t, err)
			require.Equal(t, want, got.Base)
		})
	}
}

type number struct {
	text string
	want int64
}

// numbers are the values of ENV-8 that a plain integer field takes.
var numbers = []number{
	{"5", 5},
	{"+5", 5},
	{"007", 7},
	{"010", 8},
	{"0x10", 16},
	{"5_0", 50},
	{"1e3", 1000},
	{" 5000 ", 5000},
	{"9223372036854775807", math.MaxInt64},
}

func TestENV8RollBytes(t *testing.T) {
	for _, test := range append(numbers, number{"4KiB", 4096}) {
		t.Run(test.text, func(t *testing.T) {
			t.Setenv("DYN_FPM_JSONL_GZ_ROLL_BYTES", test.text)
			cfg, err := loadDropIn(t)
			require.NoError(t, err)
			require.Equal(t, bytesize.Size(test.want), cfg.RollBytes)
		})
	}
	for _, value := range []string{"0", "-1", "", "big", "18446744073709551616", "9223372036854775808"} {
		t.Run("refused/"+value, func(t *testing.T) {
			t.Setenv("DYN_FPM_JSONL_GZ_ROLL_BYTES", value)
			_, err := loadDropIn(t)
			require.Error(t, err)
			if value != "9223372036854775808" { // refused before it gets to us: an unsigned number of a variable
				require.ErrorContains(t, err, "roll_bytes")
			}
		})
	}
}

func TestENV8MaxSegments(t *testing.T) {
	for _, test := range numbers {
		t.Run(test.text, func(t *testing.T) {
			t.Setenv("DYN_FPM_MAX_SEGMENTS", test.text)
			cfg, err := loadDropIn(t)
			require.NoError(t, err)
			require.Equal(t, uint64(test.want), cfg.MaxSegments)
		})
	}
	for _, value := range []string{"0", "-1", "", "1.5", "4KiB", "big", "18446744073709551616", "18446744073709551615"} {
		t.Run("refused/"+value, func(t *testing.T) {
			t.Setenv("DYN_FPM_MAX_SEGMENTS", value)
			_, err := loadDropIn(t)
			require.Error(t, err)
		})
	}
}
