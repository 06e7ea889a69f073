// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestFIL_8_Modes under three umasks. The lock that is shared with Dynamo's writer
// holds nothing and must be readable by it (FIL-42).
func TestFIL_8_Modes(t *testing.T) {
	for umask, want := range map[string]struct{ folder, segment, lock, dynamoLock fs.FileMode }{
		"000": {0o750, 0o640, 0o640, 0o644},
		"022": {0o750, 0o640, 0o640, 0o644},
		"077": {0o700, 0o600, 0o600, 0o600},
	} {
		t.Run("umask "+umask, func(t *testing.T) {
			throughShell(t, "umask "+umask)
			parent := filepath.Join(t.TempDir(), "new")
			folder := filepath.Join(parent, "traces")
			p := publish(t, loopback(t))
			c := harness.Start(t, pipeline(p.endpoint, filepath.Join(folder, "fpm"), "roll_bytes: 1"))
			p.waitSubscriber()
			p.pass("w")
			p.pass("w")
			waitRows(c, 2)
			c.Stop()

			for path, mode := range map[string]fs.FileMode{
				parent: want.folder, folder: want.folder,
				filepath.Join(folder, segment("w", 0)):           want.segment,
				filepath.Join(folder, segment("w", 1)):           want.segment,
				filepath.Join(folder, "fpm.otelcol-fpm.lock"):    want.lock,
				filepath.Join(folder, "fpm.w.000000.jsonl.lock"): want.dynamoLock,
			} {
				info, err := os.Lstat(path)
				require.NoError(t, err)
				require.Equal(t, mode.String(), info.Mode().Perm().String(), path)
			}
		})
	}
}
