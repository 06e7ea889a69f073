// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out what fsync writes beyond the data and the size, such as the modification time.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		switch err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
