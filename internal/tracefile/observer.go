// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

// Observer hears what a Writer does, for telemetry and component status. Its methods are called from many goroutines, never
// with a lock of the Writer held, and must not block.
type Observer interface {
	RowsWritten(n int)
	RowsDropped(reason DropReason, n int)
	BytesWritten(raw, gzip int)
	Flushed()
	SegmentOpened()
	SegmentsPruned(cause PruneCause, n int)
	// Failed counts one failed attempt.
	Failed(op Op)
	// Status is called when the state changes: an error that names the path and the cause (everything here is
	// recoverable), nil when all is well again. Calls do not overlap.
	Status(err error)
}

// DropReason says why a row was not written.
type DropReason uint8

// The drop reasons. DropNotFPM is counted by the exporter, before a record gets here (ROW-27).
const (
	DropQueueFull     DropReason = iota // FIL-48
	DropNotFPM                          // ROW-27
	DropDuplicate                       // FIL-29
	DropProducerLimit                   // FIL-10, FIL-51
	DropShutdown                        // FIL-64
)

var dropReasonNames = [...]string{
	DropQueueFull:     "queue_full",
	DropNotFPM:        "not_fpm",
	DropDuplicate:     "duplicate",
	DropProducerLimit: "producer_limit",
	DropShutdown:      "shutdown",
}

// String gives the attribute value.
func (r DropReason) String() string { return dropReasonNames[r] }

// DropReasons lists all of them.
func DropReasons() []DropReason {
	return []DropReason{DropQueueFull, DropNotFPM, DropDuplicate, DropProducerLimit, DropShutdown}
}

// PruneCause says which limit took a segment.
type PruneCause uint8

// The prune causes.
const (
	PruneMaxSegments   PruneCause = iota // FIL-30
	PruneMaxTotalBytes                   // FIL-37
	PruneMaxAge                          // FIL-38
)

var pruneCauseNames = [...]string{
	PruneMaxSegments:   "max_segments",
	PruneMaxTotalBytes: "max_total_bytes",
	PruneMaxAge:        "max_age",
}

// String gives the attribute value.
func (c PruneCause) String() string { return pruneCauseNames[c] }

// PruneCauses lists all of them.
func PruneCauses() []PruneCause {
	return []PruneCause{PruneMaxSegments, PruneMaxTotalBytes, PruneMaxAge}
}

// Op is the operation that failed.
type Op uint8

// The operations.
const (
	OpPreflight Op = iota // FIL-45
	OpLock                // FIL-42, FIL-43
	OpList                // of the directory, for the first index or for retention
	OpCreate              // of a segment
	OpReopen              // of a segment whose handle was closed to save open files (FIL-41)
	OpWrite               // FIL-52
	OpSync                // FIL-59
	OpTruncate            // FIL-53
	OpClose
	OpPrune    // FIL-34
	OpReplaced // the active segment was deleted, replaced or changed from outside (FIL-56)
)

var opNames = [...]string{
	OpPreflight: "preflight",
	OpLock:      "lock",
	OpList:      "list",
	OpCreate:    "create",
	OpReopen:    "reopen",
	OpWrite:     "write",
	OpSync:      "sync",
	OpTruncate:  "truncate",
	OpClose:     "close",
	OpPrune:     "prune",
	OpReplaced:  "replaced",
}

// String gives the attribute value.
func (o Op) String() string { return opNames[o] }

// Ops lists all of them.
func Ops() []Op {
	return []Op{
		OpPreflight, OpLock, OpList, OpCreate, OpReopen, OpWrite, OpSync, OpTruncate, OpClose, OpPrune, OpReplaced,
	}
}
