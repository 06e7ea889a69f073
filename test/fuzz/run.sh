#!/usr/bin/env bash
# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0

# Runs every fuzz target of the module, one after the other. Go fuzzes one
# target of one package at a time, so the list is made here.
set -euo pipefail
time=${1:?usage: run.sh TIME, for example 10s}
only=${2:-.}

grep -rl --include='*_test.go' '^func Fuzz' . --exclude-dir=dist | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | grep -E "$only" | while read -r target; do
		echo "== $dir $target ($time)"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s "$dir" </dev/null
	done
done
