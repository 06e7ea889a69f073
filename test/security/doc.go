// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package security tests what SECURITY.md promises with the built distribution:
// where its files go and with which modes, what planted links can and can't do,
// what a worker_id can and can't do, and that the image and the unit file of
// packaging need no more rights than they give.
package security
