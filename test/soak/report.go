// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// total is one number of the own telemetry, or of the surroundings, at the end.
type total struct {
	name      string
	value     float64
	mayBeZero bool // else a run in which it did not happen says nothing
}

// report is what docs/soak.md says of a run.
func report(load loadPlan, samples []sample, findings []finding, totals []total, date time.Time) string {
	var b strings.Builder
	b.WriteString("# Long run\n\n")
	fmt.Fprintf(&b, "`test/soak/run.sh %s docs` writes this page and checks what it says: the medians of the last\n", short(load.length))
	b.WriteString("quarter against those of the second quarter, the first one being warm-up.\n\n")
	fmt.Fprintf(&b, "- %s, %s; the engines, the scraper and the trace backend share the machine\n",
		date.UTC().Format(time.DateOnly), machine())
	b.WriteString(load.describe())
	fmt.Fprintf(&b, "- the collector used %.2f cores\n\n", coresUsed(samples))

	b.WriteString("| | second quarter | last quarter | growth | allowed | highest | |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range findings {
		b.WriteString(findings[i].row())
	}
	b.WriteString("\n![memory, goroutines and files over time](soak.svg)\n\n")

	b.WriteString("| at the end | |\n| --- | --- |\n")
	for _, t := range totals {
		fmt.Fprintf(&b, "| %s | %.0f |\n", t.name, t.value)
	}
	b.WriteString(limitsOfTheRun)
	return b.String()
}

const limitsOfTheRun = `
Live heap is what a garbage collection leaves, read every 30 s. Missing records are those that
engines numbered and that never arrived; a restart alone makes none, a killed connection does.

Not covered: a producer that is gone keeps its lock and its open segment (two file descriptors)
for an hour before the exporter forgets it. Here the workers that are replaced have a fixed
` + "`producer_id`" + ` or return under one of four ids, so that a run that is shorter than that can be
flat.
`

func (f *finding) row() string {
	verdict := "flat"
	if !f.flat() {
		verdict = "**not flat**"
	}
	growth := 0.0
	if f.before != 0 {
		growth = 100 * (f.after/f.before - 1)
	}
	allowed := fmt.Sprintf("%.0f %%", 100*f.share)
	if f.absolute > 0 {
		allowed += fmt.Sprintf(" + %.0f", f.absolute)
	}
	return fmt.Sprintf("| %s | %.4g | %.4g | %+.1f %% | %s | %.4g | %s |\n",
		f.name, f.before/f.unit, f.after/f.unit, growth, allowed, f.highest/f.unit, verdict)
}

// coresUsed is the CPU time by the time that passed.
func coresUsed(samples []sample) float64 {
	if len(samples) < 2 {
		return 0
	}
	first, last := samples[0], samples[len(samples)-1]
	return (last.CPU - first.CPU) / (last.At - first.At).Seconds()
}

// machine names the processor and the system.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// short leaves out what is zero: 30m instead of 30m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
