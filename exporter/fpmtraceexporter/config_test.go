// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/bytesize"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

const configFolder = "testdata/config"

func defaultConfig() *Config { return createDefaultConfig().(*Config) }

// loadConfig loads as the service does: decode into the default configuration, then validate.
func loadConfig(t *testing.T, file string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join(configFolder, file+".yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub("fpm_trace")
	require.NoError(t, err)
	cfg := defaultConfig()
	if err := sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestDefaultConfig(t *testing.T) {
	cfg := defaultConfig()
	require.NoError(t, confmap.Validate(cfg))
	require.True(t, bool(cfg.Enabled))
	require.Equal(t, "/tmp/dynamo-fpm", cfg.Path)
	require.Equal(t, bytesize.Size(268435456), cfg.RollBytes)
	require.Equal(t, uint64(4), cfg.MaxSegments)
	require.Equal(t, time.Second, cfg.FlushInterval)
	require.Equal(t, bytesize.MiB, cfg.FlushBytes)
	require.Equal(t, 3, cfg.CompressionLevel)
	require.Equal(t, "buffered", cfg.Durability)
	require.Equal(t, uint64(256), cfg.MaxOpenFiles)
	require.Equal(t, RetentionConfig{}, cfg.Retention)
	require.Equal(t, 1, cfg.QueueConfig.Get().NumConsumers)
	require.Nil(t, cfg.QueueConfig.Get().StorageID)
	require.True(t, cfg.BackOffConfig.Enabled)
	require.Zero(t, cfg.BackOffConfig.MaxElapsedTime, "never give up (COL-65)")
}

func TestValidConfigs(t *testing.T) {
	for file, change := range map[string]func(*Config){
		"default": func(*Config) {},
		"all_keys": func(cfg *Config) {
			cfg.Path = "/data/traces/fpm.jsonl.gz"
			cfg.RollBytes = bytesize.GiB
			cfg.MaxSegments = 10
			cfg.FlushInterval = 250 * time.Millisecond
			cfg.FlushBytes = 64 * bytesize.KiB
			cfg.CompressionLevel = 6
			cfg.Durability = "flushed"
			cfg.MaxOpenFiles = 32
			cfg.Retention = RetentionConfig{MaxTotalBytes: 20 * bytesize.GiB, MaxAge: 168 * time.Hour}
			cfg.QueueConfig.Get().QueueSize = 50
			cfg.BackOffConfig.InitialInterval = time.Second
			cfg.BackOffConfig.MaxElapsedTime = 10 * time.Minute
		},
		"only_path": func(cfg *Config) { cfg.Path = "traces/fpm" },
		"only_off":  func(cfg *Config) { cfg.Enabled = false },
		"byte_numbers": func(cfg *Config) {
			cfg.RollBytes, cfg.FlushBytes, cfg.Retention.MaxTotalBytes = 1000, 1000, 16
		},
		"synced_stored_queue": func(cfg *Config) {
			cfg.Durability = "synced"
			storage := component.MustNewID("file_storage")
			cfg.QueueConfig.Get().StorageID = &storage
			batch := exporterhelper.NewDefaultBatchConfig()
			batch.FlushTimeout, batch.MinSize = time.Second, 1000
			cfg.QueueConfig.Get().Batch = configoptional.Some(batch)
		},
		"no_queue_no_retry": func(cfg *Config) {
			cfg.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
			cfg.BackOffConfig.Enabled = false
		},
	} {
		t.Run(file, func(t *testing.T) {
			want := defaultConfig()
			change(want)
			got, err := loadConfig(t, file)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

var badConfigs = map[string][]string{
	"bad_path_blank":                 {"path must not be blank", `"  "`},
	"bad_path_empty":                 {"path must not be blank", `""`},
	"bad_path_directory":             {"path must name a file", `"/data/traces/"`},
	"bad_path_only_suffix":           {"path must name a file", `".jsonl.gz"`},
	"bad_path_directory_with_suffix": {"path must name a file", `"/data/.jsonl"`},
	"bad_roll_bytes_zero":            {"roll_bytes must be positive (got 0)"},
	"bad_roll_bytes_negative":        {"'roll_bytes'", "must not be negative (got -1)"},
	"bad_roll_bytes_large":           {"'roll_bytes'", "(got 9223372036854775808)"},
	"bad_roll_bytes_unit":            {"'roll_bytes'", `(got "1XiB")`},
	"bad_max_segments_zero":          {"max_segments must be positive (got 0)"},
	"bad_max_segments_negative":      {"'max_segments'", "-1"},
	"bad_max_segments_large":         {"max_segments must not be above 9223372036854775807 (got 9223372036854775808)"},
	"bad_max_segments_unit":          {"'max_segments'", "string"},
	"bad_flush_interval_zero":        {"flush_interval must be a positive duration (got 0s)"},
	"bad_flush_interval_negative":    {"flush_interval must be a positive duration (got -1s)"},
	"bad_flush_interval_without_unit": {
		"flush_interval must be at least 1ms (got 5ns): a duration needs a unit, such as 5s",
	},
	"bad_retry_without_unit": {
		"retry_on_failure::initial_interval must be at least 1ms (got 5ns)",
		"retry_on_failure::max_interval must be at least 1ms (got 30ns)",
		"retry_on_failure::max_elapsed_time must be at least 1ms (got 300ns)",
	},
	"bad_retention_age_without_unit": {
		"retention::max_age must be at least 1ms (got 7ns): a duration needs a unit, such as 5s",
	},
	"bad_roll_bytes_fraction":     {"'roll_bytes'", "a byte size must be a whole number (got 1000.7)"},
	"bad_path_nul":                {"path must not contain a NUL byte", `"/data/a\x00b"`},
	"bad_flush_bytes_zero":        {"flush_bytes must be positive (got 0)"},
	"bad_flush_bytes_negative":    {"'flush_bytes'", `must not be negative (got "-1KiB")`},
	"bad_flush_bytes_large":       {"'flush_bytes'", `(got "8388608TiB")`},
	"bad_max_open_files_zero":     {"max_open_files must be positive (got 0)"},
	"bad_max_open_files_negative": {"'max_open_files'", "-5"},
	"bad_max_open_files_large":    {"max_open_files must not be above", "(got 18446744073709551615)"},
	"bad_compression_level_low":   {"compression_level must be 1 to 9 (got 0)"},
	"bad_compression_level_high":  {"compression_level must be 1 to 9 (got 10)"},
	"bad_retention_bytes":         {"'retention.max_total_bytes'", "must not be negative (got -1)"},
	"bad_retention_bytes_large":   {"'retention.max_total_bytes'", "(got 9223372036854775808)"},
	"bad_retention_age":           {"retention::max_age must not be negative (got -1h0m0s)"},
	"bad_durability":              {"durability must be one of buffered, flushed, synced", `(got "fsync")`},
	"bad_num_consumers":           {"sending_queue::num_consumers must be 1", "(got 10)"},
	"bad_storage_without_retry": {
		"sending_queue::storage (got file_storage) needs retry_on_failure::enabled: true (got false)",
	},
	"bad_enabled":        {"'enabled'", `(got "maybe")`},
	"bad_enabled_number": {"'enabled'", "(got 2)"},
	"bad_enabled_null":   {"'enabled'", "(got nothing)"},
	"bad_everything": {
		"path must", "roll_bytes must", "max_segments must", "flush_interval must", "flush_bytes must",
		"compression_level must", "durability must", "max_open_files must", "retention::max_age must",
		"sending_queue::num_consumers must", "sending_queue::storage (got file_storage) needs",
	},
	"typo_key": {"has invalid keys: rol_bytes"},
}

func TestFIL62RefusedConfigs(t *testing.T) {
	for file, want := range badConfigs {
		t.Run(file, func(t *testing.T) {
			_, err := loadConfig(t, file)
			for _, part := range want {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestEveryBadConfigFileIsTested(t *testing.T) {
	files, err := os.ReadDir(configFolder)
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".yaml")
		if strings.HasPrefix(name, "bad_") || strings.HasPrefix(name, "typo_") {
			require.Contains(t, badConfigs, name)
		}
	}
}

func TestRetentionBytesOfCodeAreValidatedToo(t *testing.T) {
	cfg := defaultConfig()
	cfg.Retention.MaxTotalBytes = -1
	require.ErrorContains(t, confmap.Validate(cfg), "retention::max_total_bytes must not be negative (got -1)")
}

func TestWriterConfig(t *testing.T) {
	cfg, err := loadConfig(t, "all_keys")
	require.NoError(t, err)
	got, err := cfg.writerConfig()
	require.NoError(t, err)
	require.Equal(t, tracefile.Config{
		Base:             "/data/traces/fpm",
		RollBytes:        1 << 30,
		MaxSegments:      10,
		FlushInterval:    250 * time.Millisecond,
		FlushBytes:       64 << 10,
		CompressionLevel: 6,
		Durability:       tracefile.Flushed,
		MaxOpenFiles:     32,
		MaxTotalBytes:    20 << 30,
		MaxAge:           168 * time.Hour,
	}, got)
}

// ENV-7: a configured path is trimmed.
func TestENV7PathIsTrimmed(t *testing.T) {
	cfg := defaultConfig()
	cfg.Path = "  /data/fpm.jsonl\n"
	require.NoError(t, confmap.Validate(cfg))
	got, err := cfg.writerConfig()
	require.NoError(t, err)
	require.Equal(t, "/data/fpm", got.Base)
}

func TestPrintedConfigLoadsAgain(t *testing.T) {
	cfg, err := loadConfig(t, "all_keys")
	require.NoError(t, err)
	conf := confmap.New()
	require.NoError(t, conf.Marshal(cfg))
	require.Equal(t, "1GiB", conf.Get("roll_bytes"))
	require.Equal(t, "true", conf.Get("enabled"))
	back := defaultConfig()
	require.NoError(t, conf.Unmarshal(back))
	// The collector's own part: a printed queue without a batch section comes back with one.
	back.QueueConfig = cfg.QueueConfig
	require.Equal(t, cfg, back)
}
