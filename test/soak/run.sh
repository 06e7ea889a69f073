#!/usr/bin/env bash
# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0

# A long run of the built distribution: test/soak/run.sh [duration] [folder of the report].
# The samples and the profiles go to run/soak; with `docs` as the folder the run
# becomes docs/soak.md. Run make build before.
set -euo pipefail
cd "$(dirname "$0")/../.."

duration="${1:-30m}"
report="${2:-run/soak}"
mkdir -p run/soak "$report"
[[ -x bin/fpmgen ]] || { echo "bin/fpmgen is missing: run make build" >&2; exit 1; }

SOAK_DURATION="$duration" SOAK_OUTPUT="$PWD/run/soak" SOAK_REPORT="$(cd "$report" && pwd)" CI_E2E_REQUIRED=1 \
	nice -n 10 go test -count=1 -timeout 0 -v -run TestLongRunStaysFlat ./test/soak
