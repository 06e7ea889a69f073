// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	probeText     = "dynamo-fpm write probe"
	probeAttempts = 8
)

// preflight makes the directory of the base and checks that files can be written in it (FIL-45).
func preflight(disk fileSystem, dir, name string) error {
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	// A process that was killed may have left a probe behind, under the same process id.
	var err error
	for n := range probeAttempts {
		path := filepath.Join(dir, fmt.Sprintf(".%s.write-probe-%d-%d", name, os.Getpid(), n))
		if err = probe(disk, path); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return err
}

func probe(disk fileSystem, path string) error {
	f, err := disk.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(probeText))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), disk.Unlink(path))
}
