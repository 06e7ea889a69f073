#!/usr/bin/env bash
# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0

# Puts the Prometheus of the distribution's packages into .cache/prometheus, for
# the tests with a real one. Needs apt, not root: nothing is installed into the
# system. An existing one stays.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=.cache/prometheus
if [[ -x "$target/usr/bin/prometheus" ]]; then
	exit 0
fi

mkdir -p .cache
work=$(mktemp -d -p "$PWD/.cache")
trap 'rm -rf "$work"' EXIT

# apt-get download writes into the current folder. It needs no other user to do so.
download() { (cd "$work" && apt-get download --quiet -o APT::Sandbox::User=root prometheus); }

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
	echo "$0: needs apt-get and dpkg; elsewhere set OTELCOL_FPM_PROMETHEUS to a folder with a prometheus binary" >&2
	exit 1
fi

if ! download; then
	if [[ $(id -u) != 0 ]]; then
		echo "$0: apt can't find the package prometheus: run 'apt-get update' as root," \
			"or set OTELCOL_FPM_PROMETHEUS to a folder with a prometheus binary" >&2
		exit 1
	fi
	apt-get update --quiet
	download
fi

dpkg -x "$work"/prometheus_*.deb "$work/tree"
"$work/tree/usr/bin/prometheus" --version >/dev/null
rm -rf "$target"
mv "$work/tree" "$target"
