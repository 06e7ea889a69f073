#!/usr/bin/env bash
# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0

# Runs every fuzz target of the module, one after the other. Go fuzzes one
# target of one package at a time, so the list is made here.
#
# Prefer a number of executions, such as 20000x. A duration works too, but when
# it ends Go may report "context deadline exceeded" as a failure of a target
# that has none: the coordinator compares the expired deadline with a child
# context that may not have heard of it yet (internal/fuzz, CoordinateFuzzing).
# A limit on executions has no deadline, so nothing that must pass uses one.
set -euo pipefail
limit=${1:?usage: run.sh LIMIT [TARGETS], for example 20000x or 15m, and a regular expression}
only=${2:-.}

grep -rl --include='*_test.go' '^func Fuzz' . --exclude-dir=dist | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | { grep -E "$only" || true; } | while read -r target; do
		echo "== $dir $target ($limit)"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$limit" -fuzzminimizetime 100x "$dir" </dev/null
	done
done
