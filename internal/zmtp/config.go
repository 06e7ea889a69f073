// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import "time"

// Config holds the limits of every connection of a [Subscriber]. A field that is
// zero has the value of [DefaultConfig].
type Config struct {
	// DialTimeout covers name resolution and connect over all addresses.
	DialTimeout time.Duration
	// HandshakeTimeout is one deadline from connect until the subscription is
	// written; no byte of the peer extends it.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long a peer may be silent, and how long a message may
	// take from its first byte to its last.
	IdleTimeout time.Duration
	// InitialBackoff and MaxBackoff bound the wait between attempts.
	InitialBackoff, MaxBackoff time.Duration
	// MaxMessageSize is the limit in bytes for all frame bodies of one message
	// together.
	MaxMessageSize int64
}

// DefaultConfig is the configuration of a receiver that sets nothing.
func DefaultConfig() Config {
	return Config{
		DialTimeout:      5 * time.Second,
		HandshakeTimeout: 5 * time.Second,
		IdleTimeout:      10 * time.Second,
		InitialBackoff:   500 * time.Millisecond,
		MaxBackoff:       10 * time.Second,
		MaxMessageSize:   1 << 20,
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.DialTimeout = positiveOr(c.DialTimeout, d.DialTimeout)
	c.HandshakeTimeout = positiveOr(c.HandshakeTimeout, d.HandshakeTimeout)
	c.IdleTimeout = positiveOr(c.IdleTimeout, d.IdleTimeout)
	c.InitialBackoff = positiveOr(c.InitialBackoff, d.InitialBackoff)
	c.MaxBackoff = positiveOr(c.MaxBackoff, d.MaxBackoff)
	c.MaxMessageSize = positiveOr(c.MaxMessageSize, d.MaxMessageSize)
	return c
}

func positiveOr[T time.Duration | int64](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}
