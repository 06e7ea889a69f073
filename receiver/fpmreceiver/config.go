// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/bytesize"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// defaultEndpoint is rank 0 of a Dynamo vLLM worker on the same host (STR-9).
// It is not the default of the key: a list of endpoints would get it as well
// (COL-31).
const defaultEndpoint = "tcp://127.0.0.1:20380"

// Bodies of a log record.
const (
	bodyMap     = "map"
	bodyMsgpack = "msgpack"
)

// What becomes of heartbeats in the logs.
const (
	heartbeatsKeep = "keep"
	heartbeatsDrop = "drop"
)

// Forms of the duration histogram.
const (
	histogramExplicit    = "explicit"
	histogramExponential = "exponential"
)

// Bounds of idle_timeout (ZMQ-29).
const (
	minIdleTimeout = 2 * time.Second
	maxIdleTimeout = 10 * time.Minute
)

// Config is the configuration of the receiver.
type Config struct {
	// Endpoint is the one publisher to read; not together with Endpoints. With
	// neither it is tcp://127.0.0.1:20380.
	Endpoint string `mapstructure:"endpoint"`
	// Endpoints are the publishers to read, at least one when set.
	Endpoints []EndpointConfig `mapstructure:"endpoints"`

	// Namespace is the Dynamo namespace of endpoints that name none. Default:
	// default.
	Namespace string `mapstructure:"namespace"`
	// Component is the Dynamo component of endpoints that name none. Default:
	// backend.
	Component string `mapstructure:"component"`
	// Backend names the engine of endpoints that name none, for fpm.backend.
	// Default: none.
	Backend string `mapstructure:"backend"`

	// AcceptLegacy takes payloads without version and counter_id (STR-80). Default:
	// false.
	AcceptLegacy bool `mapstructure:"accept_legacy"`
	// MaxMessageSize bounds the frames of one message together (STR-8), in bytes,
	// more than 0. Default: 1MiB.
	MaxMessageSize bytesize.Size `mapstructure:"max_message_size"`

	// Connection are the times of the connections to the publishers.
	Connection ConnectionConfig `mapstructure:"connection"`
	// Batch says how many records and spans are handed on together.
	Batch BatchConfig `mapstructure:"batch"`
	// Queue bounds the records and spans that wait.
	Queue QueueConfig `mapstructure:"queue"`

	// ForgetAfter is how long the loss state of a silent stream is kept (STR-99), at
	// least metrics::stale_after. Default: 1h.
	ForgetAfter time.Duration `mapstructure:"forget_after"`
	// MaxStreams bounds the streams that have state (STR-99), at least 1. Default:
	// 4096.
	MaxStreams int `mapstructure:"max_streams"`

	// Logs is the form of the log records.
	Logs LogsConfig `mapstructure:"logs"`
	// Metrics says how the metrics are made.
	Metrics MetricsConfig `mapstructure:"metrics"`
	// Traces bounds the traces.
	Traces TracesConfig `mapstructure:"traces"`
}

// EndpointConfig is one publisher, or one for each data-parallel rank.
type EndpointConfig struct {
	// Endpoint is host:port, tcp://host:port, ipc:///path or ipc://@abstract.
	Endpoint string `mapstructure:"endpoint"`
	// DPSize is the number of ranks, at least 1; their ports follow each other, ipc
	// paths get the suffixes .0 to .N-1 (STR-10). Not set: 1.
	DPSize *int `mapstructure:"dp_size"`
	// Namespace is the Dynamo namespace; empty: the receiver's.
	Namespace string `mapstructure:"namespace"`
	// Component is the Dynamo component, exactly; empty: the receiver's.
	Component string `mapstructure:"component"`
	// ProducerID names the owner of trace files; empty: the worker_id (STR-103).
	ProducerID string `mapstructure:"producer_id"`
	// Backend names the engine, for fpm.backend; empty: the receiver's.
	Backend string `mapstructure:"backend"`
	// Attributes are extra resource attributes: strings, numbers or booleans.
	Attributes map[string]any `mapstructure:"attributes"`
}

// ConnectionConfig are the times of the ZMTP client (ZMQ-12, ZMQ-29, ZMQ-47).
type ConnectionConfig struct {
	// DialTimeout bounds the resolution of the name and the connect, at least 1ms.
	// Default: 5s.
	DialTimeout time.Duration `mapstructure:"dial_timeout"`
	// HandshakeTimeout bounds the time from the connect to the subscription, at least
	// 1ms. Default: 5s.
	HandshakeTimeout time.Duration `mapstructure:"handshake_timeout"`
	// IdleTimeout is the silence of a peer after which it is left, 2s to 10m.
	// Default: 10s.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`
	// InitialBackoff is the longest first wait between two attempts, at least 1ms.
	// Default: 500ms.
	InitialBackoff time.Duration `mapstructure:"initial_backoff"`
	// MaxBackoff is the longest wait between two attempts, at least InitialBackoff.
	// Default: 10s.
	MaxBackoff time.Duration `mapstructure:"max_backoff"`
}

// BatchConfig says when records are handed on (COL-70).
type BatchConfig struct {
	// MaxRecords is the most records or spans of a batch, at least 1. Default: 512.
	MaxRecords int `mapstructure:"max_records"`
	// Timeout is how long the first of a batch waits for more, at least 1ms. Default:
	// 200ms.
	Timeout time.Duration `mapstructure:"timeout"`
}

// QueueConfig bounds what waits for the next consumer, for each signal (STR-100).
type QueueConfig struct {
	// MaxRecords is the most records or spans that wait, at least batch::max_records.
	// Default: 65536.
	MaxRecords int `mapstructure:"max_records"`
	// MaxBytes is the most bytes that wait, counting a record's payload and 512 for a
	// span, at least max_message_size. Default: 64MiB.
	MaxBytes bytesize.Size `mapstructure:"max_bytes"`
}

// LogsConfig is the form of log records.
type LogsConfig struct {
	// Body is map or msgpack. Default: map.
	Body string `mapstructure:"body"`
	// Heartbeats is keep or drop. Default: keep.
	Heartbeats string `mapstructure:"heartbeats"`
}

// MetricsConfig says how streams are measured.
type MetricsConfig struct {
	// Interval is the time between two emissions, at least 1ms. Default: 5s.
	Interval time.Duration `mapstructure:"interval"`
	// IdleAfter is how long after the last work a heartbeat sets the gauges to
	// 0 (STR-97): 0, or at least 1µs. Default: 3s.
	IdleAfter time.Duration `mapstructure:"idle_after"`
	// StaleAfter is how long a stream may be silent before its series end
	// (STR-98) and it no longer counts as live (STR-99, STR-102), at least Interval.
	// Default: 1m.
	StaleAfter time.Duration `mapstructure:"stale_after"`
	// Histogram is explicit or exponential: the form of the duration histogram.
	// Default: explicit.
	Histogram string `mapstructure:"histogram"`
	// Buckets are the bounds of the explicit duration histogram, in seconds, more than
	// 0 and ascending, at least one. Default: 0.0005 to 30.
	Buckets []float64 `mapstructure:"buckets"`
}

// TracesConfig bounds the traces.
type TracesConfig struct {
	// Window is the longest time that a trace covers, at least 1ms. Default: 10s.
	Window time.Duration `mapstructure:"window"`
	// MaxSpans is the most spans of a trace, its root included, at least 2. Default:
	// 1000.
	MaxSpans int `mapstructure:"max_spans"`
	// MinDuration is the shortest pass that becomes a span: 0, or at least 1µs.
	// Default: 0.
	MinDuration time.Duration `mapstructure:"min_duration"`
}

func createDefaultConfig() component.Config {
	return &Config{
		Namespace:      "default",
		Component:      "backend",
		MaxMessageSize: 1 << 20,
		Connection: ConnectionConfig{
			DialTimeout:      5 * time.Second,
			HandshakeTimeout: 5 * time.Second,
			IdleTimeout:      10 * time.Second,
			InitialBackoff:   500 * time.Millisecond,
			MaxBackoff:       10 * time.Second,
		},
		Batch:       BatchConfig{MaxRecords: 512, Timeout: 200 * time.Millisecond},
		Queue:       QueueConfig{MaxRecords: 65536, MaxBytes: 64 << 20},
		ForgetAfter: time.Hour,
		MaxStreams:  4096,
		Logs:        LogsConfig{Body: bodyMap, Heartbeats: heartbeatsKeep},
		Metrics: MetricsConfig{
			Interval: 5 * time.Second, IdleAfter: 3 * time.Second, StaleAfter: time.Minute,
			Histogram: histogramExplicit, Buckets: fpmpdata.DefaultDurationBuckets(),
		},
		Traces: TracesConfig{Window: 10 * time.Second, MaxSpans: 1000},
	}
}

var _ confmap.Validator = (*Config)(nil)

// Validate reports every fault, each with its key and value.
func (cfg *Config) Validate() error {
	_, err := cfg.targets()
	return errors.Join(
		err,
		cfg.Connection.validate(),
		cfg.Batch.validate(),
		cfg.validateQueue(),
		cfg.Logs.validate(),
		cfg.Metrics.validate(),
		cfg.Traces.validate(),
		positive("max_message_size", int64(cfg.MaxMessageSize), cfg.MaxMessageSize),
		cfg.validateForgetAfter(),
		positive("max_streams", int64(cfg.MaxStreams), cfg.MaxStreams),
	)
}

func (cfg *Config) validateForgetAfter() error {
	if err := duration("forget_after", cfg.ForgetAfter); err != nil {
		return err
	}
	if cfg.ForgetAfter < cfg.Metrics.StaleAfter {
		return fmt.Errorf("forget_after must be at least metrics::stale_after, %s (got %s)", cfg.Metrics.StaleAfter, cfg.ForgetAfter)
	}
	return nil
}

func (cfg *ConnectionConfig) validate() error {
	err := errors.Join(
		duration("connection::dial_timeout", cfg.DialTimeout),
		duration("connection::handshake_timeout", cfg.HandshakeTimeout),
		duration("connection::initial_backoff", cfg.InitialBackoff),
	)
	if cfg.IdleTimeout < minIdleTimeout || cfg.IdleTimeout > maxIdleTimeout {
		err = errors.Join(err, fmt.Errorf("connection::idle_timeout must be from %s to %s (got %s): a duration needs a unit, such as 10s", minIdleTimeout, maxIdleTimeout, cfg.IdleTimeout))
	}
	if cfg.MaxBackoff < cfg.InitialBackoff {
		err = errors.Join(err, fmt.Errorf("connection::max_backoff must be at least connection::initial_backoff, %s (got %s)", cfg.InitialBackoff, cfg.MaxBackoff))
	}
	return err
}

func (cfg *BatchConfig) validate() error {
	return errors.Join(
		positive("batch::max_records", int64(cfg.MaxRecords), cfg.MaxRecords),
		duration("batch::timeout", cfg.Timeout),
	)
}

func (cfg *Config) validateQueue() error {
	if err := positive("queue::max_records", int64(cfg.Queue.MaxRecords), cfg.Queue.MaxRecords); err != nil {
		return err
	}
	if cfg.Queue.MaxRecords < cfg.Batch.MaxRecords {
		return fmt.Errorf("queue::max_records must be at least batch::max_records, %d (got %d)", cfg.Batch.MaxRecords, cfg.Queue.MaxRecords)
	}
	if cfg.Queue.MaxBytes < cfg.MaxMessageSize {
		return fmt.Errorf("queue::max_bytes must hold at least one message of max_message_size, %s (got %s)", cfg.MaxMessageSize, cfg.Queue.MaxBytes)
	}
	return nil
}

func (cfg *LogsConfig) validate() error {
	return errors.Join(
		oneOf("logs::body", cfg.Body, bodyMap, bodyMsgpack),
		oneOf("logs::heartbeats", cfg.Heartbeats, heartbeatsKeep, heartbeatsDrop),
	)
}

func (cfg *MetricsConfig) validate() error {
	err := errors.Join(
		duration("metrics::interval", cfg.Interval),
		duration("metrics::stale_after", cfg.StaleAfter),
		notNegative("metrics::idle_after", cfg.IdleAfter),
		oneOf("metrics::histogram", cfg.Histogram, histogramExplicit, histogramExponential),
	)
	if cfg.StaleAfter < cfg.Interval {
		err = errors.Join(err, fmt.Errorf("metrics::stale_after must be at least metrics::interval, %s (got %s)", cfg.Interval, cfg.StaleAfter))
	}
	return errors.Join(err, validateBuckets(cfg.Buckets))
}

func validateBuckets(buckets []float64) error {
	if len(buckets) == 0 {
		return errors.New("metrics::buckets must hold at least one bound")
	}
	for i, bound := range buckets {
		if math.IsNaN(bound) || math.IsInf(bound, 0) || bound <= 0 || (i > 0 && bound <= buckets[i-1]) {
			return fmt.Errorf("metrics::buckets must be seconds greater than 0, in ascending order (got %v)", buckets)
		}
	}
	return nil
}

func (cfg *TracesConfig) validate() error {
	err := errors.Join(
		duration("traces::window", cfg.Window),
		notNegative("traces::min_duration", cfg.MinDuration),
	)
	if cfg.MaxSpans < 2 {
		err = errors.Join(err, fmt.Errorf("traces::max_spans must be at least 2, a pass and the root of its trace (got %d)", cfg.MaxSpans))
	}
	return err
}

func notNegative(key string, value time.Duration) error {
	switch {
	case value < 0:
		return fmt.Errorf("%s must not be negative (got %s)", key, value)
	case value > 0 && value < time.Microsecond:
		return fmt.Errorf("%s must be 0 or at least %s (got %s): a duration needs a unit, such as 5ms", key, time.Microsecond, value)
	default:
		return nil
	}
}

// minDuration is far below any sensible setting: a number without a unit is
// nanoseconds to the configuration, and would keep a core busy.
const minDuration = time.Millisecond

func duration(key string, value time.Duration) error {
	if value >= minDuration {
		return nil
	}
	return fmt.Errorf("%s must be at least %s (got %s): a duration needs a unit, such as 5s", key, minDuration, value)
}

func positive(key string, number int64, shown any) error {
	if number > 0 {
		return nil
	}
	return fmt.Errorf("%s must be greater than 0 (got %v)", key, shown)
}

func oneOf(key, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %v (got %q)", key, allowed, value)
}

func validateAttributes(key string, attributes map[string]any) (err error) {
	for name, value := range attributes {
		if fpmpdata.IsReservedResourceAttribute(name) {
			err = errors.Join(err, fmt.Errorf("%s::%s is set by the receiver: choose another name", key, name))
		}
		switch value.(type) {
		case string, bool, int, int64, float64:
		default:
			err = errors.Join(err, fmt.Errorf("%s::%s must be a string, a number or a boolean (got %v)", key, name, value))
		}
	}
	return err
}
