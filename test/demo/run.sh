#!/usr/bin/env bash
# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0

# The main job on one machine: a synthetic engine of two ranks, the collector,
# trace files and metrics. Ctrl-C stops it; everything received is flushed. Files
# go to run/, or to FPM_RUN.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Ports of a real engine or collector on this machine are left alone.
free_port() {
	python3 - "$1" "$2" <<'PY'
import socket, sys
first, count = int(sys.argv[1]), int(sys.argv[2])
for base in range(first, first + 2000, 10):
    sockets = []
    try:
        for port in range(base, base + count):
            s = socket.socket()
            sockets.append(s)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
        print(base)
        break
    except OSError:
        continue
    finally:
        for s in sockets:
            s.close()
else:
    sys.exit("no free ports from %d on" % first)
PY
}

run="${FPM_RUN:-run}"
mkdir -p "$run"
# Two in one folder would delete each other's files.
if other="$(cat "$run/demo.pid" 2>/dev/null)" && kill -0 "$other" 2>/dev/null; then
	echo "Another make run (process $other) writes to $run: stop it, or set FPM_RUN to another folder." >&2
	exit 1
fi
echo $$ >"$run/demo.pid"
rm -f "$run"/dynamo-fpm.*.jsonl.gz # of the run before
FPM_ENDPOINT="tcp://127.0.0.1:$(free_port 20380 2)"
FPM_PATH="$(cd "$run" && pwd)/dynamo-fpm"
metrics_port="$(free_port 9464 1)"
FPM_METRICS_ENDPOINT="127.0.0.1:$metrics_port"
FPM_TELEMETRY_PORT="$(free_port 8888 1)"
export FPM_ENDPOINT FPM_PATH FPM_METRICS_ENDPOINT FPM_TELEMETRY_PORT

engine='' collector=''
stop() {
	trap - EXIT
	trap '' INT TERM # a second one must not interrupt the flush
	# The collector first: it flushes what it received.
	for process in $collector $engine; do
		kill -TERM "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	rm -f "$run/demo.pid"
	echo
	echo "Stopped. Rows on disk: $(zcat "$run"/dynamo-fpm.*.jsonl.gz 2>/dev/null | wc -l)"
}
trap stop EXIT
trap 'exit 0' INT TERM

echo "Starting; files of the run before in $run are deleted."
bin/fpmgen --endpoint "$FPM_ENDPOINT" --ranks 2 --rate 4 >"$run/fpmgen.log" 2>&1 &
engine=$!
dist/otelcol-fpm --config examples/quickstart/config.yaml >"$run/otelcol-fpm.log" 2>&1 &
collector=$!

# What is printed below works when it is printed.
metrics_shown() {
	(
		exec 3<>"/dev/tcp/127.0.0.1/$metrics_port"
		printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
		grep -q ^fpm_forward_passes_total <&3
	) 2>/dev/null
}

for _ in $(seq 100); do
	kill -0 "$collector" 2>/dev/null || { cat "$run/otelcol-fpm.log"; exit 1; }
	kill -0 "$engine" 2>/dev/null || { cat "$run/fpmgen.log"; exit 1; }
	if compgen -G "$FPM_PATH.*.jsonl.gz" >/dev/null && metrics_shown; then break; fi
	sleep 0.1
done

cat <<TEXT

  A synthetic engine publishes forward passes of 2 ranks on $FPM_ENDPOINT,
  the collector samples each rank once a second and writes trace files; its metrics
  count every pass.

  Trace files   $FPM_PATH.<producer>.<index>.jsonl.gz
  Read one row  zcat $run/dynamo-fpm.*.jsonl.gz | head -1
  Metrics       curl -s http://127.0.0.1:$metrics_port/metrics | grep ^fpm_forward_passes_total
  What was received, lost and written
                curl -s http://127.0.0.1:$FPM_TELEMETRY_PORT/metrics | grep ^otelcol_fpm
  Logs          $run/otelcol-fpm.log, $run/fpmgen.log

  Ctrl-C stops both and flushes everything.
TEXT
wait "$collector"
