// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	ranksOfAGroup   = 64
	passesPerSecond = 5 // of a rank

	// returningIDs bounds the producers of the group that is killed.
	returningIDs = 4
)

// churn is what happens to the engines of a group.
type churn uint8

const (
	// restarts: each engine starts anew under its worker_id, after two periods.
	restarts churn = iota
	// replaced: each engine starts anew under a new worker_id, every period.
	replaced
	// killed: the whole process ends by SIGKILL every period and the next one has
	// another worker_id.
	killed
)

// group is one process of the synthetic engine with ranksOfAGroup streams.
type group struct {
	name     string
	endpoint string
	fate     churn
}

// loadPlan is the fleet of a run.
type loadPlan struct {
	length time.Duration
	period time.Duration // between two events of a group
	groups []group
}

// planLoad makes eight groups: six on tcp, two on ipc.
func planLoad(length time.Duration, firstPort int, dir string) loadPlan {
	plan := loadPlan{length: length, period: (length / 15).Round(time.Second)}
	for i := range 8 {
		g := group{name: fmt.Sprintf("worker%d", i)}
		if i < 6 {
			g.endpoint = fmt.Sprintf("tcp://127.0.0.1:%d", firstPort+i*ranksOfAGroup)
		} else {
			g.endpoint = fmt.Sprintf("ipc://%s/%s", dir, g.name)
		}
		switch i {
		case 0:
			g.fate = killed
		case 1:
			g.fate = replaced
		}
		plan.groups = append(plan.groups, g)
	}
	return plan
}

// staleAfter is that of the receiver's metrics.
func (p *loadPlan) staleAfter() time.Duration { return max(p.period/4, 5*time.Second) }

func (p *loadPlan) streams() int { return len(p.groups) * ranksOfAGroup }

func (p *loadPlan) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- %s with %d streams at %d records/s each, over tcp and ipc (`cmd/fpmgen`)\n", short(p.length), p.streams(), passesPerSecond)
	fmt.Fprintf(&b, "- %d streams: the engine restarts every %s\n", (len(p.groups)-2)*ranksOfAGroup, short(2*p.period))
	fmt.Fprintf(&b, "- %d streams: the engine comes back under a new `worker_id` every %s\n", ranksOfAGroup, short(p.period))
	fmt.Fprintf(&b, "- %d streams: the process is killed every %s, the next has another `worker_id`\n", ranksOfAGroup, short(p.period))
	b.WriteString("- logs: every pass to trace files that roll at 1 MiB (about every 5 s) and are pruned at 4 segments; a sample of 5 s to others\n")
	b.WriteString("- metrics: every 5 s to the Prometheus exporter, scraped every 15 s; traces: OTLP over HTTP\n")
	fmt.Fprintf(&b, "- so that what is forgotten is forgotten many times in the run: `forget_after`, `idle_ttl` (defaults 1 h) and "+
		"`metric_expiration` (5 min) are %s, `stale_after` (60 s) is %s\n", short(p.period), short(p.staleAfter()))
	return b.String()
}

// arguments are those of fpmgen in the n-th life of a group.
func (p *loadPlan) arguments(g group, life int) []string {
	args := []string{
		"--endpoint", g.endpoint, "--ranks", strconv.Itoa(ranksOfAGroup), "--passes-per-second", strconv.Itoa(passesPerSecond),
		"--linger", "500ms", "--drop-percent", "0.01", "--malformed-percent", "0.01",
	}
	records := int(p.period.Seconds() * passesPerSecond)
	switch g.fate {
	case restarts:
		args = append(args, "--worker-id", g.name, "--restart-every", strconv.Itoa(2*records))
	case replaced:
		args = append(args, "--worker-id", g.name, "--restart-every", strconv.Itoa(records), "--new-worker-id-on-restart")
	case killed:
		args = append(args, "--worker-id", fmt.Sprintf("%s-%d", g.name, life%returningIDs))
	}
	return args
}

// config is the collector's.
func (p *loadPlan) config(dir, prometheus, pprof, otlp string) string {
	var endpoints strings.Builder
	for _, g := range p.groups {
		producer := ""
		if g.fate == replaced {
			producer = g.name
		}
		fmt.Fprintf(&endpoints, "      - {endpoint: '%s', dp_size: %d, producer_id: '%s'}\n", g.endpoint, ranksOfAGroup, producer)
	}
	return fmt.Sprintf(`
receivers:
  fpm:
    endpoints:
%[1]s
    forget_after: %[2]s
    metrics: {stale_after: %[3]s}
processors:
  fpm_sampler: {interval: 5s, idle_ttl: %[2]s}
exporters:
  fpm_trace/full: {path: '%[4]s/full', roll_bytes: 1MiB}
  fpm_trace/sampled: {path: '%[4]s/sampled', roll_bytes: 256KiB}
  prometheus:
    endpoint: '%[5]s'
    enable_open_metrics: true
    without_scope_info: true
    metric_expiration: %[2]s
  otlp_http: {endpoint: '%[7]s', compression: none}
extensions:
  pprof: {endpoint: '%[6]s'}
service:
  extensions: [pprof]
  pipelines:
    logs/full: {receivers: [fpm], exporters: [fpm_trace/full]}
    logs/sampled: {receivers: [fpm], processors: [fpm_sampler], exporters: [fpm_trace/sampled]}
    metrics: {receivers: [fpm], exporters: [prometheus]}
    traces: {receivers: [fpm], exporters: [otlp_http]}
`, endpoints.String(), p.period, p.staleAfter(), dir, prometheus, pprof, otlp)
}
