// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"sync"

	"go.uber.org/zap"
)

// locks takes the locks that keep other writers away. They are always on, except where the file system has none (FIL-44).
type locks struct {
	disk   fileSystem
	logger *zap.Logger
	warn   sync.Once
}

// take opens the lock at path and takes it without waiting. Without locks it returns nil and no error.
func (l *locks) take(path string, kind lockKind, exclusive bool) (lockFile, error) {
	lock, err := l.disk.OpenLock(path, kind)
	if err != nil {
		return nil, err
	}
	err = lock.TryLock(exclusive)
	if err == nil {
		return lock, nil
	}
	if closeErr := lock.Close(); !errors.Is(err, errLockUnsupported) {
		return nil, errors.Join(err, closeErr)
	}
	l.warn.Do(func() {
		l.logger.Warn("The file system has no locks; nothing keeps another process from writing the same trace files",
			zap.Error(err))
	})
	return nil, nil
}

func baseLockPath(base string) string {
	return base + ".otelcol-fpm.lock"
}

// dynamoLockPath is where a Dynamo trace writer keeps its lock; prefix includes the directory.
func dynamoLockPath(prefix string) string {
	return prefix + ".000000.jsonl.lock"
}
