// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadata"
)

// loadConfig reads the section fpm_sampler of a file in testdata.
func loadConfig(t *testing.T, file string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", file))
	require.NoError(t, err)
	sub, err := conf.Sub(component.NewID(metadata.Type).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestSMP1ValidConfigs(t *testing.T) {
	for file, want := range map[string]*Config{
		"default.yaml":       {Mode: "sampled", Interval: 5 * time.Second, IdleTTL: time.Hour},
		"full.yaml":          {Mode: "full", Interval: 250 * time.Millisecond, IdleTTL: time.Minute},
		"mode_any_case.yaml": {Mode: "  FuLL ", Interval: 5 * time.Second, IdleTTL: time.Hour},
		"shortest.yaml":      {Mode: "sampled", Interval: time.Millisecond, IdleTTL: time.Hour},
		"ttl_at_limit.yaml":  {Mode: "sampled", Interval: 5 * time.Second, IdleTTL: 10 * time.Second},
	} {
		t.Run(file, func(t *testing.T) {
			cfg, err := loadConfig(t, file)
			require.NoError(t, err)
			require.Equal(t, want, cfg)
		})
	}
}

func TestSMP1ConfigErrorsNameKeyAndValue(t *testing.T) {
	for file, want := range map[string][]string{
		"bad_mode.yaml":       {`mode must be "sampled" or "full" (got "random")`},
		"bad_mode_blank.yaml": {`mode must be "sampled" or "full" (got "  ")`},
		"bad_interval.yaml":   {"interval must be a positive duration (got 0s)"},
		"bad_interval_without_unit.yaml": {
			"interval must be at least 1ms (got 5ns): a duration needs a unit, such as 5s",
		},
		"bad_interval_full.yaml": {
			"interval must be a positive duration (got -1s)",
		},
		"bad_idle_ttl.yaml": {"idle_ttl must be at least twice the interval (got 9.999999999s with interval 5s)"},
		"bad_everything.yaml": {
			`mode must be "sampled" or "full" (got "")`,
			"interval must be a positive duration (got -5s)",
		},
		"bad_unit.yaml":     {"interval"},
		"typo_interva.yaml": {"has invalid keys: interva"},
	} {
		t.Run(file, func(t *testing.T) {
			_, err := loadConfig(t, file)
			for _, text := range want {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestSMP20IdleTTLIsComparedWithoutOverflow(t *testing.T) {
	cfg := testConfig()
	cfg.Interval = math.MaxInt64/2 + 1
	cfg.IdleTTL = math.MaxInt64
	require.ErrorContains(t, cfg.Validate(), "idle_ttl must be at least twice the interval")
	cfg.Interval = math.MaxInt64 / 2
	require.NoError(t, cfg.Validate())
}

func TestENV7ModeIsTrimmedAndIgnoresCase(t *testing.T) {
	cfg := testConfig()
	cfg.Mode = "\tSampled\n"
	require.NoError(t, cfg.Validate())
	require.Equal(t, "sampled", cfg.captureMode())
}
