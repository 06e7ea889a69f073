// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// durableDirectories makes directories that survive a power loss (FIL-58): a new directory is in doubt until the one above
// it is synced.
type durableDirectories struct {
	fileSystem
}

func (d durableDirectories) MkdirAll(dir string) error {
	changed := d.aboveMissing(dir)
	if err := d.fileSystem.MkdirAll(dir); err != nil {
		return err
	}
	for _, parent := range changed {
		if err := d.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

// aboveMissing gives the directories that get a new entry when dir is made.
func (d durableDirectories) aboveMissing(dir string) (changed []string) {
	for {
		parent := filepath.Dir(dir)
		if _, err := d.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return changed
		}
		changed = append(changed, parent)
		dir = parent
	}
}
