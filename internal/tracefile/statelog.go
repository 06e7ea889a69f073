// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// stateLog writes the lines with which a failure of a producer begins and ends (FIL-55). When a disk fails for thousands
// of producers at once, most of the lines are left out, and counted in the next one.
type stateLog struct {
	limiter *rate.Limiter
	left    atomic.Int64
}

const (
	stateLinesPerSecond = 1
	stateLinesBurst     = 64
)

func newStateLog() *stateLog {
	return &stateLog{limiter: rate.NewLimiter(stateLinesPerSecond, stateLinesBurst)}
}

func (l *stateLog) Error(logger *zap.Logger, message string, fields ...zap.Field) {
	if l.allow(&fields) {
		logger.Error(message, fields...)
	}
}

func (l *stateLog) Info(logger *zap.Logger, message string, fields ...zap.Field) {
	if l.allow(&fields) {
		logger.Info(message, fields...)
	}
}

func (l *stateLog) allow(fields *[]zap.Field) bool {
	if !l.limiter.AllowN(time.Now(), 1) {
		l.left.Add(1)
		return false
	}
	if left := l.left.Swap(0); left > 0 {
		*fields = append(*fields, zap.Int64("similar lines left out", left))
	}
	return true
}
