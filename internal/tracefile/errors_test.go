// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import "syscall"

const (
	errNoSpace  = syscall.ENOSPC
	errIO       = syscall.EIO
	errReadOnly = syscall.EROFS
	errDenied   = syscall.EACCES
)
