// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
)

// FIL-64: exactly what the queue gave up because of the shutdown is counted.
func TestLeftovers(t *testing.T) {
	mine, other := plog.NewLogs(), plog.NewLogs()
	for _, test := range []struct {
		name    string
		retries bool
		do      func(l *leftovers)
		lost    int
	}{
		{"retried", true, func(l *leftovers) { l.close(); l.set(mine, 5); l.retried(mine); l.end() }, 0},
		{"given up for another", true, func(l *leftovers) { l.close(); l.set(mine, 5); l.retried(other); l.end() }, 5},
		{"given up at the end", true, func(l *leftovers) { l.set(mine, 5); l.close(); l.end() }, 5},
		{"given up before the shutdown", true, func(l *leftovers) { l.set(mine, 5); l.retried(other); l.close(); l.end() }, 0},
		{"each failure", true, func(l *leftovers) {
			l.close()
			l.set(mine, 5)
			l.retried(other)
			l.set(other, 2)
			l.end()
			l.end()
		}, 7},
		{"no retry, before the shutdown", false, func(l *leftovers) { l.set(mine, 5); l.close(); l.end() }, 0},
		{"no retry, afterwards", false, func(l *leftovers) { l.close(); l.set(mine, 5); l.retried(mine); l.end() }, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			lost := 0
			test.do(&leftovers{retries: test.retries, count: func(n int) { lost += n }})
			require.Equal(t, test.lost, lost)
			test.do(&leftovers{retries: test.retries}) // somebody else has the records
		})
	}
}
