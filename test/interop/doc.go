// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package interop tests against real libzmq publishers, run by pyzmq. The
// interpreter is that of OTELCOL_FPM_PYTHON, else .venv/bin/python of the
// repository. Without one the tests are skipped, or fail when
// CI_INTEROP_REQUIRED=1: a missing peer is never a pass (ZMQ-68).
package interop
