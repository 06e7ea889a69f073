// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package faults breaks what the built distribution depends on (publishers,
// links, consumers, disks, the process itself), one fault a test, and requires
// that it neither crashes nor leaks, that it recovers by itself in a stated time,
// and that the accounting closes: accounting.Explain has to find out what became of every
// single message.
//
// FAULTS=full runs the long variants. Tests that mount need root, and are skipped
// without it. docs/reliability.md has the table of all faults.
package faults
