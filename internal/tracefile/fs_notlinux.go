// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tracefile

import "os"

func syncData(f *os.File) error {
	return f.Sync()
}
