// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

// Every configuration in the README is one that the exporter takes.
func TestREADMEConfigsAreValid(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		conf := resolve(t, string(block[1]))
		sub, err := conf.Sub("exporters::fpm_trace")
		require.NoError(t, err)
		require.NotEmpty(t, sub.AllKeys())
		cfg := defaultConfig()
		require.NoError(t, sub.Unmarshal(cfg))
		require.NoError(t, confmap.Validate(cfg))
	}
}

// Every key has a row in the table of settings.
func TestREADMENamesEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	conf := confmap.New()
	require.NoError(t, conf.Marshal(defaultConfig()))
	for key := range conf.ToStringMap() {
		require.Regexp(t, "\\| `"+key+"(::\\w+)?` \\|", string(readme))
	}
}
