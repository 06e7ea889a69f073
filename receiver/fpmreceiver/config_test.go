// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// load reads testdata/<name>.yaml as the service does.
func load(t *testing.T, name string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", name+".yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(component.NewID(metadata.Type).String())
	require.NoError(t, err)
	cfg, ok := createDefaultConfig().(*Config)
	require.True(t, ok)
	if err = sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func addresses(t *testing.T, cfg *Config) (all []string) {
	t.Helper()
	targets, err := cfg.targets()
	require.NoError(t, err)
	for i := range targets {
		all = append(all, targets[i].endpoint.String())
	}
	return all
}

func TestConfigDefault(t *testing.T) {
	cfg, err := load(t, "default")
	require.NoError(t, err)
	require.Equal(t, createDefaultConfig(), cfg)
	require.Equal(t, []string{"tcp://127.0.0.1:20380"}, addresses(t, cfg))
}

func TestConfigEndpoint(t *testing.T) {
	cfg, err := load(t, "endpoint")
	require.NoError(t, err)
	require.Equal(t, []string{"tcp://10.0.0.7:20380"}, addresses(t, cfg))
}

func TestConfigEndpoints_STR_10_FR_32(t *testing.T) {
	cfg, err := load(t, "endpoints")
	require.NoError(t, err)
	require.Equal(t, []string{
		"tcp://10.0.0.7:20380", "tcp://10.0.0.7:20381", "tcp://10.0.0.7:20382", "tcp://10.0.0.7:20383",
		"ipc:///run/sglang.0", "ipc:///run/sglang.1", "ipc://@abstract", "tcp://10.0.0.9:65535",
	}, addresses(t, cfg))

	targets, err := cfg.targets()
	require.NoError(t, err)
	inherited, own := targets[0], targets[4]
	require.Equal(t, []string{"prod", "prefill", "dynamo_vllm", ""}, []string{inherited.namespace, inherited.component, inherited.backend, inherited.producerID})
	require.Equal(t, []string{"lab", "backend", "sglang", "sg"}, []string{own.namespace, own.component, own.backend, own.producerID})
	require.Equal(t, map[string]any{"cluster": "east", "gpus": 8, "spot": true, "price": 1.5}, own.attributes)

	require.True(t, cfg.AcceptLegacy)
	require.EqualValues(t, 2<<20, cfg.MaxMessageSize)
	require.Equal(t, ConnectionConfig{
		DialTimeout: time.Second, HandshakeTimeout: 2 * time.Second, IdleTimeout: 30 * time.Second,
		InitialBackoff: 100 * time.Millisecond, MaxBackoff: time.Second,
	}, cfg.Connection)
	require.Equal(t, BatchConfig{MaxRecords: 100, Timeout: 50 * time.Millisecond}, cfg.Batch)
	require.Equal(t, QueueConfig{MaxRecords: 1000, MaxBytes: 4 << 20}, cfg.Queue)
	require.Equal(t, 10*time.Minute, cfg.ForgetAfter)
	require.Equal(t, 16, cfg.MaxStreams)
	require.Equal(t, LogsConfig{Body: "msgpack", Heartbeats: "drop"}, cfg.Logs)
}

func TestConfigSignals(t *testing.T) {
	cfg, err := load(t, "signals")
	require.NoError(t, err)
	require.Equal(t, MetricsConfig{
		Interval: time.Second, IdleAfter: 0, StaleAfter: 10 * time.Second, Histogram: "exponential", Buckets: []float64{0.1, 1},
	}, cfg.Metrics)
	require.Equal(t, TracesConfig{Window: time.Minute, MaxSpans: 10, MinDuration: time.Millisecond}, cfg.Traces)
}

// Each fault is named with its key and value, all of them at once (COL-45).
func TestConfigFaults(t *testing.T) {
	for name, want := range map[string][]string{
		"bad_both":   {`endpoint ("tcp://a:1") and endpoints (1 of them) cannot both be set`},
		"bad_scheme": {"endpoint:", "udp://127.0.0.1:20380"},
		"bad_twice":  {`endpoints[1] ("a:1") and endpoints[0] ("tcp://a:1") both read tcp://a:1`},
		"bad_same_socket": {
			`endpoints[1] ("[::ffff:127.0.0.1]:1") and endpoints[0] ("127.0.0.1:1") both read tcp://127.0.0.1:1`,
			`endpoints[3] ("ipc:///tmp//x") and endpoints[2] ("ipc:///tmp/x") both read ipc:///tmp/x`,
			`endpoints[5] ("ipc://./x") and endpoints[4] ("ipc://x") both read ipc://x`,
		},
		"bad_overlap":    {`endpoints[1] ("tcp://a:20383") and endpoints[0] ("tcp://a:20380") both read tcp://a:20383`},
		"bad_dp_size":    {"endpoints[0]::dp_size must be at least 1 (got 0)"},
		"bad_last_port":  {"endpoints[0]::dp_size:", "tcp://a:65535", "65536"},
		"bad_empty":      {"endpoints[1]::endpoint must not be empty"},
		"bad_attributes": {"endpoints[0]::attributes::service.name is set by the receiver", "endpoints[1]::attributes::list must be a string, a number or a boolean (got [1])"},
		"bad_values": {
			"max_message_size must be greater than 0 (got 0",
			"connection::dial_timeout must be at least 1ms (got 0s): a duration needs a unit, such as 5s",
			"connection::handshake_timeout must be at least 1ms (got -1s): a duration needs a unit, such as 5s",
			"connection::idle_timeout must be from 2s to 10m0s (got 1s)",
			"connection::max_backoff must be at least connection::initial_backoff, 5s (got 1s)",
			"batch::max_records must be greater than 0 (got 0)",
			"batch::timeout must be at least 1ms (got 0s): a duration needs a unit, such as 5s",
			"queue::max_records must be greater than 0 (got 0)",
			"forget_after must be at least 1ms (got 0s): a duration needs a unit, such as 5s",
			"max_streams must be greater than 0 (got -1)",
			`logs::body must be one of [map msgpack] (got "json")`,
			`logs::heartbeats must be one of [keep drop] (got "maybe")`,
		},
		"bad_signals": {
			"metrics::idle_after must not be negative (got -1s)",
			"metrics::stale_after must be at least metrics::interval, 10s (got 5s)",
			`metrics::histogram must be one of [explicit exponential] (got "linear")`,
			"metrics::buckets must be seconds greater than 0, in ascending order (got [1 1])",
			"traces::window must be at least 1ms (got 0s): a duration needs a unit, such as 5s",
			"traces::max_spans must be at least 2, a pass and the root of its trace (got 1)",
			"traces::min_duration must not be negative (got -1ms)",
		},
		"bad_unit": {
			"metrics::interval must be at least 1ms (got 5ns): a duration needs a unit, such as 5s",
			"metrics::idle_after must be 0 or at least 1µs (got 3ns): a duration needs a unit, such as 5ms",
			"traces::min_duration must be 0 or at least 1µs (got 50ns): a duration needs a unit, such as 5ms",
		},
		"bad_forget":      {"forget_after must be at least metrics::stale_after, 1m0s (got 1s)"},
		"bad_batch":       {"queue::max_records must be at least batch::max_records, 512 (got 100)"},
		"bad_no_endpoint": {"endpoints must not be an empty list: leave it out to read tcp://127.0.0.1:20380"},
		"bad_buckets":     {"metrics::interval must be at least 1ms (got 0s): a duration needs a unit, such as 5s"},
		"bad_queue_bytes": {"queue::max_bytes must hold at least one message of max_message_size, 2MiB (got 1MiB)"},
		"bad_size_text":   {"max_message_size", "many"},
		"typo_endpoint":   {"has invalid keys: endpiont"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, name)
			require.Error(t, err)
			for _, text := range want {
				require.ErrorContains(t, err, text)
			}
		})
	}
}
