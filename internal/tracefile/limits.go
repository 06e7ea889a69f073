// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import "time"

// limits are the bounds and times that no configuration key sets.
type limits struct {
	queueRows    int   // of one producer (FIL-48)
	queueBytes   int64 // of all producers together (FIL-48)
	maxProducers int   // FIL-51
	maxStreams   int   // of one producer (FIL-29)

	idleAfter     time.Duration // a producer without rows is forgotten (FIL-51)
	retryMin      time.Duration // back-off (FIL-46, FIL-54)
	retryMax      time.Duration
	lockRetry     time.Duration // FIL-43: a lock is taken over within 5 s
	familyCheck   time.Duration // FIL-37
	foreignLive   time.Duration // FIL-39
	interruptWait time.Duration // that a push may still take once it is interrupted (FIL-64)
	stuckAfter    time.Duration // without progress a shutdown without deadline gives up (FIL-64)
}

func defaultLimits() limits {
	return limits{
		queueRows:     10240,
		queueBytes:    64 << 20,
		maxProducers:  4096,
		maxStreams:    4096,
		idleAfter:     time.Hour,
		retryMin:      time.Second,
		retryMax:      30 * time.Second,
		lockRetry:     2 * time.Second,
		familyCheck:   time.Minute,
		foreignLive:   time.Hour,
		interruptWait: 2 * time.Second,
		stuckAfter:    10 * time.Second,
	}
}
