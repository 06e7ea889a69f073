// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"sync"

	"go.opentelemetry.io/collector/pdata/plog"
)

// remainder copies the records of the logs that were not written, with their resources and scopes, in order. When no
// record was written or dropped, it is the logs themselves.
func remainder(logs plog.Logs, origins []origin, unwritten []int) plog.Logs {
	if len(unwritten) == logs.LogRecordCount() {
		return logs
	}
	rest := plog.NewLogs()
	var last origin
	var records plog.LogRecordSlice
	for n, index := range unwritten {
		at := origins[index]
		from := logs.ResourceLogs().At(at.resource)
		switch {
		case n == 0 || at.resource != last.resource:
			records = appendScope(appendResource(rest, from), from.ScopeLogs().At(at.scope))
		case at.scope != last.scope:
			records = appendScope(rest.ResourceLogs().At(rest.ResourceLogs().Len()-1), from.ScopeLogs().At(at.scope))
		}
		from.ScopeLogs().At(at.scope).LogRecords().At(at.record).CopyTo(records.AppendEmpty())
		last = at
	}
	return rest
}

func appendResource(to plog.Logs, from plog.ResourceLogs) plog.ResourceLogs {
	resource := to.ResourceLogs().AppendEmpty()
	from.Resource().CopyTo(resource.Resource())
	resource.SetSchemaUrl(from.SchemaUrl())
	return resource
}

func appendScope(to plog.ResourceLogs, from plog.ScopeLogs) plog.LogRecordSlice {
	scope := to.ScopeLogs().AppendEmpty()
	from.Scope().CopyTo(scope.Scope())
	scope.SetSchemaUrl(from.SchemaUrl())
	return scope.LogRecords()
}

// leftovers follows what a failed push left to be tried again. With the collector's queue in memory nobody but the queue
// has these records; when it gives up on them because the exporter shuts down, they are lost and have to be counted
// (FIL-64). The queue does not say that it gave up, but its one consumer hands out nothing else before it did.
type leftovers struct {
	count   func(n int) // of lost records; nil: somebody else has them, a stored queue or the caller
	retries bool        // whether the queue tries again at all

	mu      sync.Mutex
	closing bool
	logs    plog.Logs
	n       int
}

// set remembers what the queue is about to try again.
func (l *leftovers) set(logs plog.Logs, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logs, l.n = logs, n
	if !l.retries {
		l.giveUp()
	}
}

// retried forgets it when the push that begins has it.
func (l *leftovers) retried(logs plog.Logs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs == logs {
		l.n = 0
	}
	l.giveUp()
}

// close makes what is given up from now on count as lost by the shutdown. What was given up before, the helper has
// counted as failed to send.
func (l *leftovers) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

// end counts what is left after the queue has ended.
func (l *leftovers) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp()
}

func (l *leftovers) giveUp() {
	if l.closing && l.count != nil && l.n > 0 {
		l.count(l.n)
	}
	l.logs, l.n = plog.Logs{}, 0
}
