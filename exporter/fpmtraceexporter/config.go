// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/bytesize"
	"github.com/otelcol-fpm/otelcol-fpm/internal/tracefile"
)

// Config is the configuration of the exporter fpm_trace.
type Config struct {
	// Enabled switches the exporter off without removing it from the pipelines: it then opens nothing and discards
	// what it gets.
	Enabled Switch `mapstructure:"enabled"`

	// Path is the base of the file names: <path>.<producer id>.<index>.jsonl.gz.
	Path string `mapstructure:"path"`

	// RollBytes is the number of uncompressed bytes after which a producer gets a new segment.
	RollBytes bytesize.Size `mapstructure:"roll_bytes"`

	// MaxSegments is the number of segments that are kept of every producer, the active one included. It is unsigned
	// so that a too large number is refused by its own value (ENV-8).
	MaxSegments uint64 `mapstructure:"max_segments"`

	// FlushInterval is the longest time that a row waits in memory; buffered only.
	FlushInterval time.Duration `mapstructure:"flush_interval"`

	// FlushBytes is the number of uncompressed bytes that a producer's rows may reach before they are written at once;
	// buffered only.
	FlushBytes bytesize.Size `mapstructure:"flush_bytes"`

	// CompressionLevel is the gzip level, 1 to 9.
	CompressionLevel int `mapstructure:"compression_level"`

	// Durability is buffered, flushed or synced: when a record counts as exported (FIL-58).
	Durability string `mapstructure:"durability"`

	// MaxOpenFiles is the number of segments that are open at the same time.
	MaxOpenFiles uint64 `mapstructure:"max_open_files"`

	// Retention limits all segments of the path, those of dead producers too.
	Retention RetentionConfig `mapstructure:"retention"`

	// QueueConfig is the collector's queue in front of the exporter. It has one consumer, because the order of the
	// rows matters.
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// BackOffConfig is the collector's retry; flushed and synced only, a buffered push does not fail.
	BackOffConfig configretry.BackOffConfig `mapstructure:"retry_on_failure"`
}

// RetentionConfig limits all segments of one path together; 0 is no limit.
type RetentionConfig struct {
	// MaxTotalBytes is the compressed size of all segments above which the oldest closed ones are removed.
	MaxTotalBytes bytesize.Size `mapstructure:"max_total_bytes"`

	// MaxAge is the age above which closed segments are removed.
	MaxAge time.Duration `mapstructure:"max_age"`
}

var (
	_ confmap.Validator   = (*Config)(nil)
	_ confmap.Unmarshaler = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	queue := exporterhelper.NewDefaultQueueConfig()
	queue.NumConsumers = 1
	retry := configretry.NewDefaultBackOffConfig()
	retry.MaxElapsedTime = 0 // never give up: what the queue cannot hold is dropped and counted (COL-65)
	return &Config{
		Enabled:          true,
		Path:             tracefile.DefaultPath,
		RollBytes:        tracefile.DefaultRollBytes,
		MaxSegments:      tracefile.DefaultMaxSegments,
		FlushInterval:    tracefile.DefaultFlushInterval,
		FlushBytes:       tracefile.DefaultFlushBytes,
		CompressionLevel: tracefile.DefaultCompressionLevel,
		Durability:       tracefile.Buffered.String(),
		MaxOpenFiles:     tracefile.DefaultMaxOpenFiles,
		QueueConfig:      configoptional.Some(queue),
		BackOffConfig:    retry,
	}
}

// Unmarshal refuses fractions, which would be cut off without a word (ENV-8).
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	var errs []error
	for _, key := range []string{"max_segments", "max_open_files", "compression_level"} {
		if number, ok := conf.Get(key).(float64); ok && number != math.Trunc(number) {
			errs = append(errs, fmt.Errorf("%s must be an integer (got %v)", key, number))
		}
	}
	return errors.Join(append(errs, conf.Unmarshal(c))...)
}

// Validate returns all faults at once, each with the key and the value (FIL-62).
func (c *Config) Validate() error {
	return errors.Join(
		c.validateFiles(),
		c.validateFlush(),
		c.validateRetention(),
		c.validateQueue(),
		c.validateRetry(),
	)
}

func (c *Config) validateFiles() error {
	var errs []error
	if _, err := tracefile.BaseFromPath(c.Path); err != nil {
		errs = append(errs, err)
	}
	if c.RollBytes <= 0 {
		errs = append(errs, fmt.Errorf("roll_bytes must be positive (got %s)", c.RollBytes))
	}
	return errors.Join(append(errs,
		validateCount("max_segments", c.MaxSegments),
		validateCount("max_open_files", c.MaxOpenFiles),
	)...)
}

// validateCount refuses what an int cannot hold; ENV-8 names 2^63-1, which is the same on every platform we build for.
func validateCount(key string, value uint64) error {
	switch {
	case value == 0:
		return fmt.Errorf("%s must be positive (got 0)", key)
	case value > math.MaxInt:
		return fmt.Errorf("%s must not be above %d (got %d)", key, math.MaxInt, value)
	default:
		return nil
	}
}

func (c *Config) validateFlush() error {
	var errs []error
	if c.FlushInterval <= 0 {
		errs = append(errs, fmt.Errorf("flush_interval must be a positive duration (got %s)", c.FlushInterval))
	}
	errs = append(errs, validateUnit("flush_interval", c.FlushInterval))
	if c.FlushBytes <= 0 {
		errs = append(errs, fmt.Errorf("flush_bytes must be positive (got %s)", c.FlushBytes))
	}
	if c.CompressionLevel < 1 || c.CompressionLevel > 9 {
		errs = append(errs, fmt.Errorf("compression_level must be 1 to 9 (got %d)", c.CompressionLevel))
	}
	if _, err := tracefile.ParseDurability(c.Durability); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// validateUnit refuses a duration so short that its unit must have been forgotten: a number without one is nanoseconds.
func validateUnit(key string, value time.Duration) error {
	if value > 0 && value < time.Millisecond {
		return fmt.Errorf("%s must be at least %s (got %s): a duration needs a unit, such as 5s", key, time.Millisecond, value)
	}
	return nil
}

// validateRetry adds to the collector's own checks.
func (c *Config) validateRetry() error {
	if !c.BackOffConfig.Enabled {
		return nil
	}
	return errors.Join(
		validateUnit("retry_on_failure::initial_interval", c.BackOffConfig.InitialInterval),
		validateUnit("retry_on_failure::max_interval", c.BackOffConfig.MaxInterval),
		validateUnit("retry_on_failure::max_elapsed_time", c.BackOffConfig.MaxElapsedTime),
	)
}

func (c *Config) validateRetention() error {
	var errs []error
	if c.Retention.MaxTotalBytes < 0 {
		errs = append(errs, fmt.Errorf("retention::max_total_bytes must not be negative (got %s)", c.Retention.MaxTotalBytes))
	}
	errs = append(errs, validateUnit("retention::max_age", c.Retention.MaxAge))
	if c.Retention.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("retention::max_age must not be negative (got %s)", c.Retention.MaxAge))
	}
	return errors.Join(errs...)
}

func (c *Config) validateQueue() error {
	if !c.QueueConfig.HasValue() {
		return nil
	}
	queue := c.QueueConfig.Get()
	var errs []error
	if queue.NumConsumers != 1 {
		errs = append(errs, fmt.Errorf("sending_queue::num_consumers must be 1, because the order of the rows matters (got %d)",
			queue.NumConsumers))
	}
	if queue.StorageID != nil && !c.BackOffConfig.Enabled {
		errs = append(errs, fmt.Errorf("sending_queue::storage (got %s) needs retry_on_failure::enabled: true (got false): "+
			"records that fail once would leave the stored queue for good", queue.StorageID))
	}
	return errors.Join(errs...)
}

// writerConfig converts a validated configuration.
func (c *Config) writerConfig() (tracefile.Config, error) {
	base, pathErr := tracefile.BaseFromPath(c.Path)
	durability, durabilityErr := tracefile.ParseDurability(c.Durability)
	return tracefile.Config{
		Base:             base,
		RollBytes:        int64(c.RollBytes),
		MaxSegments:      int(c.MaxSegments), //nolint:gosec // checked by Validate
		FlushInterval:    c.FlushInterval,
		FlushBytes:       int64(c.FlushBytes),
		CompressionLevel: c.CompressionLevel,
		Durability:       durability,
		MaxOpenFiles:     int(c.MaxOpenFiles), //nolint:gosec // checked by Validate
		MaxTotalBytes:    int64(c.Retention.MaxTotalBytes),
		MaxAge:           c.Retention.MaxAge,
	}, errors.Join(pathErr, durabilityErr)
}
