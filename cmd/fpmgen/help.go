// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const helpIntro = `fpmgen publishes a synthetic stream of forward pass metrics (FPM) on ZMQ PUB
sockets, as the workers of NVIDIA Dynamo do: one engine and one socket for each
data-parallel rank, three frames (empty topic, 8-byte sequence, msgpack map).

Behind the stream is a simulated engine: Poisson arrivals, lognormal prompts and
outputs, chunked prefill under a token budget, prefix-cache hits, growing decodes,
a queue, preemption when the KV cache is full, heartbeats while idle. Equal seeds
and flags give equal payload bytes.

Usage: fpmgen [flags]
`

const helpExamples = `
Examples
  A single engine for a collector on this machine, until Ctrl-C:
      fpmgen
  Four ranks on the ports 20380 to 20383, busy for 20 s and idle for 10 s in turn:
      fpmgen --ranks 4 --rate 8 --idle-every 30s --idle-for 10s
  A KV cache too small for the load: queues and preemptions:
      fpmgen --kv-tokens 8192 --rate 3
  SGLang: one ipc path for each rank:
      fpmgen --endpoint ipc:///tmp/fpm --ranks 2
  An accounting test: a known share of gaps and broken messages, all of it logged:
      fpmgen --passes-per-second 500 --count 20000 --wait-subscribers 1 --no-drop \
             --drop-percent 1 --malformed-percent 1 --restart-every 5000 --log-file sent.jsonl
  Load: exactly 50,000 messages/s for a minute, dropping as libzmq would:
      fpmgen --bench --passes-per-second 50000 --duration 60s --wait-subscribers 1 --end-marker 5
  Load: as fast as the subscriber reads:
      fpmgen --bench --no-drop --count 1000000 --wait-subscribers 1

Log file
  One JSON object for each record: rank, endpoint, worker_id, sequence, kind,
  reason, bytes, sha256 (of the payload), hex (with --log-payload), subscribers,
  missed. kind is pass, untimed, heartbeat, queue_only, malformed (with the reason
  for which a receiver must refuse it), dropped (numbered but not sent), or end.
  missed is the number of subscribers whose queue was full.

Exit status: 0 after a clean stop (SIGINT, SIGTERM, --count, --duration) with one
summary line; 1 when something failed; 2 for wrong flags.
`

// printHelp writes the whole help, flags with two dashes.
func printHelp(flags *flag.FlagSet, out io.Writer) {
	var b strings.Builder
	b.WriteString(helpIntro)
	b.WriteString("\nFlags\n")
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  --%s", f.Name)
		if value != "" {
			fmt.Fprintf(&b, " %s", value)
		}
		fmt.Fprintf(&b, "\n      %s", usage)
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && f.DefValue != "0s" {
			fmt.Fprintf(&b, " (default %s)", f.DefValue)
		}
		b.WriteByte('\n')
	})
	b.WriteString(helpExamples)
	_, _ = io.WriteString(out, b.String())
}
