// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

const (
	sampleEvery = 5 * time.Second
	heapEvery   = 30 * time.Second
	scrapeEvery = 15 * time.Second
)

// run is one long run.
type run struct {
	t          *testing.T
	load       loadPlan
	collector  *harness.Collector
	prometheus string // host:port
	pprof      string // host:port
	traceDir   string
	outputDir  string

	scrapes    atomic.Int64
	traceBytes atomic.Int64
	kills      atomic.Int64
}

// TestLongRunStaysFlat takes SOAK_DURATION. It writes soak.csv and the profiles to
// SOAK_OUTPUT, the page and the picture to SOAK_REPORT.
func TestLongRunStaysFlat(t *testing.T) {
	text := os.Getenv("SOAK_DURATION")
	if text == "" {
		t.Skip("a long run needs SOAK_DURATION: test/soak/run.sh 30m")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "SOAK_DURATION")
	require.GreaterOrEqual(t, length, 3*time.Minute, "SOAK_DURATION: shorter than what the sampler keeps")

	r := start(t, length)
	samples := r.observe()
	totals := r.totals(samples[len(samples)-1])
	r.collector.Stop()

	findings := judge(samples, length)
	r.write("SOAK_REPORT", "soak.md", report(r.load, samples, findings, totals, time.Now()))
	r.write("SOAK_REPORT", "soak.svg", chart(samples, length))
	for i := range findings {
		f := &findings[i]
		assert.Positive(t, f.before, "%s was never read", f.name)
		assert.True(t, f.flat(), "%s", f.row())
	}
	for _, total := range totals {
		assert.True(t, total.value > 0 || total.mayBeZero, "it did not happen: %s", total.name)
	}
}

func start(t *testing.T, length time.Duration) *run {
	t.Helper()
	r := &run{t: t, outputDir: os.Getenv("SOAK_OUTPUT"), traceDir: t.TempDir()}
	ports := freePorts(t, 8*ranksOfAGroup+2)
	r.load = planLoad(length, ports, t.TempDir())
	r.prometheus = fmt.Sprintf("127.0.0.1:%d", ports+8*ranksOfAGroup)
	r.pprof = fmt.Sprintf("127.0.0.1:%d", ports+8*ranksOfAGroup+1)
	backend := httptest.NewServer(http.HandlerFunc(r.takeTraces))
	t.Cleanup(backend.Close)
	r.collector = harness.Start(t, r.load.config(r.traceDir, r.prometheus, r.pprof, backend.URL))

	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, g := range r.load.groups {
		work.Go(func() { r.keepRunning(ctx, g) })
	}
	work.Go(func() { r.scrape(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return r
}

// freePorts gives ports below the ephemeral range (STR-16) and above those of the
// other tests, which may run meanwhile.
func freePorts(t *testing.T, n int) (first int) {
	t.Helper()
	const lowest, highest = 31001, 32767
search:
	for first = lowest; first+n <= highest; first += n {
		for i := range n {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+i)) //nolint:noctx // closed at once
			if err != nil {
				continue search
			}
			require.NoError(t, listener.Close())
		}
		return first
	}
	require.FailNow(t, "no free ports")
	return 0
}

// takeTraces is a backend that keeps nothing. An empty answer is success.
func (r *run) takeTraces(w http.ResponseWriter, request *http.Request) {
	n, err := io.Copy(io.Discard, request.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.traceBytes.Add(n)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// keepRunning starts the engines of a group, again after each end.
func (r *run) keepRunning(ctx context.Context, g group) {
	for life := 0; ctx.Err() == nil; life++ {
		lifetime, cancel := ctx, context.CancelFunc(func() {})
		if g.fate == killed {
			lifetime, cancel = context.WithTimeout(ctx, r.load.period)
		}
		program := filepath.Join(harness.Root(r.t), "bin", "fpmgen")
		command := exec.CommandContext(lifetime, program, r.load.arguments(g, life)...) // SIGKILL at its end
		output, err := command.CombinedOutput()
		ended := lifetime.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case !ended:
			assert.Fail(r.t, "an engine ended by itself", "%s: %v\n%s", g.name, err, output)
			return
		}
		r.kills.Add(1)
	}
}

// scrape reads the metrics as Prometheus does: compressed OpenMetrics.
func (r *run) scrape(ctx context.Context) {
	for wait(ctx, scrapeEvery) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.prometheus+"/metrics", http.NoBody)
		if err != nil {
			assert.Fail(r.t, "no scrape", err)
			return
		}
		request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		request.Header.Set("Accept-Encoding", "gzip")
		response, err := http.DefaultClient.Do(request)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			assert.Fail(r.t, "no scrape", err)
			return
		}
		n, err := io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err == nil && n > 0 && response.StatusCode == http.StatusOK {
			r.scrapes.Add(1)
		}
	}
}

// wait tells whether the time passed before the context ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// observe takes samples for the length of the run, and two heap profiles to
// compare if it grows.
func (r *run) observe() (samples []sample) {
	r.t.Helper()
	rows, err := newTable(filepath.Join(r.outputDir, "soak.csv"))
	require.NoError(r.t, err)
	defer func() { assert.NoError(r.t, rows.close()) }()
	began := time.Now()
	profiled := false
	for n := 0; ; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(n) * sampleEvery)))
		s := r.sample(time.Since(began), n%int(heapEvery/sampleEvery) == 0)
		samples = append(samples, s)
		require.NoError(r.t, rows.add(&s))
		if !profiled && s.At >= r.load.length/4 {
			profiled = true
			r.profile("heap-quarter.pb.gz", "heap?gc=1")
		}
		if s.At >= r.load.length {
			r.profile("heap-end.pb.gz", "heap?gc=1")
			r.profile("goroutines-end.txt", "goroutine?debug=1")
			return samples
		}
	}
}

func (r *run) sample(at time.Duration, liveHeap bool) sample {
	r.t.Helper()
	s := sample{At: at}
	require.NoError(r.t, s.readProcess(r.collector.PID()))
	require.NoError(r.t, s.readProfiles("http://"+r.pprof, liveHeap))
	require.NoError(r.t, s.readFiles(r.traceDir))
	own := r.collector.Metrics()
	s.Messages = own.Sum("otelcol_fpm_receiver_messages", nil)
	s.Streams = own.Sum("otelcol_fpm_receiver_streams", nil)
	return s
}

func (r *run) profile(name, query string) {
	r.t.Helper()
	text, err := get("http://" + r.pprof + "/debug/pprof/" + query)
	require.NoError(r.t, err)
	r.write("SOAK_OUTPUT", name, text)
}

// write puts a file into the folder that an environment variable names.
func (r *run) write(variable, name, text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(os.Getenv(variable), name), []byte(text), 0o644))
}

// totals are what happened, from the own telemetry.
func (r *run) totals(last sample) []total {
	r.t.Helper()
	own := r.collector.Metrics()
	sum := func(name string) float64 { return own.Sum("otelcol_fpm_"+name, nil) }
	return []total{
		{"messages received", last.Messages, false},
		{"records missing (some numbered and not sent, on purpose)", sum("receiver_missing_records"), false},
		{"invalid messages (some sent broken, on purpose)", sum("receiver_invalid_messages"), false},
		{"engine restarts seen", sum("receiver_restarts"), false},
		{"engine processes killed", float64(r.kills.Load()), false},
		{"connections that ended", sum("receiver_disconnects"), false},
		{"records that a queue of the receiver dropped", sum("receiver_dropped_records"), true},
		{"rows written", sum("trace_exporter_rows_written"), false},
		{"rows dropped", sum("trace_exporter_rows_dropped"), true},
		{"segments opened", sum("trace_exporter_segments_opened"), false},
		{"segments pruned", sum("trace_exporter_segments_pruned"), false},
		{"scrapes", float64(r.scrapes.Load()), false},
		{"spans sent", own.Sum("otelcol_exporter_sent_spans", nil), false},
		{"bytes of traces", float64(r.traceBytes.Load()), false},
	}
}
