// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"testing"
)

// NeedRoot skips a test that needs the rights of root. In CI, whose machines run
// as root (CI_E2E_REQUIRED=1), it fails.
func NeedRoot(tb testing.TB, why string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		powerless(tb, "needs root: %s", why)
	}
}

// Unable skips a test for which even root has no right here, as in a container
// without capabilities. In CI it fails. No error: nothing happens.
func Unable(tb testing.TB, why string, err error) {
	tb.Helper()
	if err != nil {
		powerless(tb, "%s: %v", why, err)
	}
}

// powerless is about what no make target can set up.
func powerless(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI_E2E_REQUIRED") == "1" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}
