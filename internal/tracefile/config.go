// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"fmt"
	"time"
)

// Durability says what a record has reached when Enqueue or Write returns nil for it (FIL-58).
type Durability uint8

const (
	// Buffered means the bounded queue of its producer. Use Enqueue.
	Buffered Durability = iota
	// Flushed means the file, as far as the operating system goes: it survives the end of the process. Use Write.
	Flushed
	// Synced means the disk: it survives a power loss. Use Write.
	Synced
)

var durabilityNames = [...]string{Buffered: "buffered", Flushed: "flushed", Synced: "synced"}

// String gives the word of the configuration.
func (d Durability) String() string {
	if int(d) < len(durabilityNames) {
		return durabilityNames[d]
	}
	return fmt.Sprintf("Durability(%d)", uint8(d))
}

// ParseDurability is the reverse of String.
func ParseDurability(s string) (Durability, error) {
	for d, name := range durabilityNames {
		if s == name {
			return Durability(d), nil
		}
	}
	return 0, fmt.Errorf("durability must be one of buffered, flushed, synced (got %q)", s)
}

// blocked says in two words what rows do as long as nothing can be written.
func (d Durability) blocked() string {
	if d == Buffered {
		return "rows wait"
	}
	return "pushes fail"
}

// whileFailing says what becomes of rows that can't be written yet.
func (d Durability) whileFailing() string {
	if d == Buffered {
		return "they wait, and the oldest are dropped when the queue is full"
	}
	return "their pushes fail, and the collector's queue and retry decide what becomes of them"
}

// Config of a Writer. All of it is valid: the exporter checks what a user set (FIL-62).
type Config struct {
	Base             string        // from BaseFromPath
	RollBytes        int64         // uncompressed bytes a segment (FIL-21)
	MaxSegments      int           // per producer, the active one included (FIL-30)
	FlushInterval    time.Duration // Buffered only (FIL-18)
	FlushBytes       int64         // uncompressed bytes, Buffered only (FIL-17)
	CompressionLevel int           // 1 to 9 (FIL-15)
	Durability       Durability
	MaxOpenFiles     int           // segments, not locks (FIL-41)
	MaxTotalBytes    int64         // compressed bytes of all producers (FIL-37); 0: no limit
	MaxAge           time.Duration // of a closed segment (FIL-38); 0: no limit
}

// Defaults of the configuration keys that have one in this package's domain.
const (
	DefaultPath             = "/tmp/dynamo-fpm"
	DefaultRollBytes        = 256 << 20
	DefaultMaxSegments      = 4
	DefaultFlushInterval    = time.Second
	DefaultFlushBytes       = 1 << 20
	DefaultCompressionLevel = 3
	DefaultMaxOpenFiles     = 256
)
