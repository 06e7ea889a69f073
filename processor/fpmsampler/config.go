// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

var _ confmap.Validator = (*Config)(nil)

// validate reports every fault of the configuration at once. It is called by
// the generated Validate.
func validate(c *Config) error {
	return errors.Join(validateMode(c), validateInterval(c), validateIdleTTL(c))
}

func validateMode(c *Config) error {
	switch c.captureMode() {
	case fpmpdata.CaptureModeSampled, fpmpdata.CaptureModeFull:
		return nil
	default:
		return fmt.Errorf("mode must be %q or %q (got %q)", fpmpdata.CaptureModeSampled, fpmpdata.CaptureModeFull, c.Mode)
	}
}

// minInterval refuses a number without unit, which is read as nanoseconds and
// would make the sampler tick without pause.
const minInterval = time.Millisecond

func validateInterval(c *Config) error {
	switch {
	case c.Interval <= 0:
		return fmt.Errorf("interval must be a positive duration (got %s)", c.Interval)
	case c.Interval < minInterval:
		return fmt.Errorf("interval must be at least %s (got %s): a duration needs a unit, such as 5s", minInterval, c.Interval)
	default:
		return nil
	}
}

// validateIdleTTL keeps a key alive for at least one whole interval without
// arrivals (SMP-20). It compares with a half so that a huge interval can't
// overflow.
func validateIdleTTL(c *Config) error {
	if c.Interval > 0 && c.IdleTTL/2 < c.Interval {
		return fmt.Errorf("idle_ttl must be at least twice the interval (got %s with interval %s)", c.IdleTTL, c.Interval)
	}
	return nil
}

// captureMode is the mode as ENV-7 reads it: without blanks around it, in lower
// case. It is also the value of fpm.capture_mode.
func (c *Config) captureMode() string {
	return strings.ToLower(strings.TrimSpace(c.Mode))
}
