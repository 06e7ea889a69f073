// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package fpmpdata is the one mapping between forward passes and pdata: the
// names that users see, log records, and what a reader of them gets back.
package fpmpdata

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// EventName is the event name of a log record that holds one forward pass.
const EventName = "fpm.forward_pass"

// Attributes of a worker's resource.
const (
	AttrServiceNamespace  = "service.namespace"   // Dynamo namespace
	AttrServiceName       = "service.name"        // Dynamo component
	AttrServiceInstanceID = "service.instance.id" // worker_id, or the endpoint (STR-73, STR-102)
	AttrProducerID        = "fpm.producer.id"     // STR-103
	AttrBackend           = "fpm.backend"         // set by the operator (STR-21)
)

// Attributes of a forward pass.
const (
	AttrRecordKind    = "fpm.record.kind" // STR-63
	AttrWorkerID      = "fpm.worker_id"
	AttrDPRank        = "fpm.dp_rank"
	AttrCounterID     = "fpm.counter_id"
	AttrSequence      = "fpm.sequence"
	AttrCaptureMode   = "fpm.capture_mode" // stamped by the sampler (SMP-24)
	AttrServerAddress = "server.address"
	AttrServerPort    = "server.port" // absent for ipc
)

// Values of AttrCaptureMode.
const (
	CaptureModeSampled = "sampled"
	CaptureModeFull    = "full"
)

// IsForwardPassLog tells whether a log record holds a forward pass.
func IsForwardPassLog(record plog.LogRecord) bool {
	return record.EventName() == EventName
}

// IsForwardPassSpan tells whether a span stands for one forward pass. The root
// span of a trace window does not (SMP-23).
func IsForwardPassSpan(span ptrace.Span) bool {
	counter, ok := span.Attributes().Get(AttrCounterID)
	return ok && counter.Type() == pcommon.ValueTypeInt
}
