// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// full tells whether the long variants run.
func full() bool { return os.Getenv("FAULTS") == "full" }

// pick gives the short or the long variant of a number.
func pick[T any](short, long T) T {
	if full() {
		return long
	}
	return short
}

// brief gives what the subset of make test takes, or the number otherwise.
func brief[T any](brief, otherwise T) T {
	if testing.Short() {
		return brief
	}
	return otherwise
}

// recovery is how soon records must flow after a publisher is there again: the
// longest back-off, and a second for the machine (FR-8, ZF-3).
const recovery = 11 * time.Second

// address is a free endpoint on the loopback.
func address(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, 1))
}

// stage is a collector that writes what one receiver gets to trace files, with its
// metrics on a page and its goroutines open to inspection.
type stage struct {
	*harness.Collector
	t       *testing.T
	base    string
	metrics string // URL of the engine's metrics
	pprof   string // URL
	config  string
	// arrived counts what came out of the pipeline, at its end.
	arrived func(harness.Samples) float64
}

// setting is a part of the configuration that a test changes.
type setting struct {
	endpoints  []string
	producer   string // one trace file for all of them; default: one for each worker
	connection string // settings of the receiver beyond its endpoints
	exporter   string // settings of the trace exporter beyond its path
	exporters  string // further exporters, as YAML of two blanks
	pipeline   string // exporters of the logs; default: fpm_trace
	base       string // of the files; default: in a folder of the test
}

// prepare makes a stage without starting it.
func prepare(t *testing.T, s setting) *stage {
	t.Helper()
	// One by one: blocks of several sizes may overlap.
	port, page := harness.FreePorts(t, 1), harness.FreePorts(t, 1)
	if s.base == "" {
		s.base = filepath.Join(t.TempDir(), "rows")
	}
	s.exporter = orElse(s.exporter, "flush_interval: 100ms")
	if !strings.Contains(s.exporter, "max_segments") {
		s.exporter += "\n    max_segments: 100000" // each row is evidence
	}
	var endpoints strings.Builder
	for _, endpoint := range s.endpoints {
		fmt.Fprintf(&endpoints, "      - {endpoint: '%s', producer_id: '%s'}\n", endpoint, s.producer)
	}
	config := fmt.Sprintf(`
extensions:
  pprof: {endpoint: '127.0.0.1:%[1]d'}
receivers:
  fpm:
    endpoints:
%[3]s    batch: {timeout: 20ms}
    metrics: {interval: 500ms}
%[4]s
exporters:
  fpm_trace:
    path: '%[5]s'
    %[6]s
  prometheus: {endpoint: '127.0.0.1:%[2]d'}
%[7]s
service:
  extensions: [pprof]
  pipelines:
    logs: {receivers: [fpm], exporters: [%[8]s]}
    metrics: {receivers: [fpm], exporters: [prometheus]}
`, port, page, endpoints.String(), s.connection, s.base, s.exporter, s.exporters, orElse(s.pipeline, "fpm_trace"))
	return &stage{
		t: t, base: s.base, config: config,
		pprof:   fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/goroutine?debug=1", port),
		metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", page),
		arrived: func(samples harness.Samples) float64 {
			return samples.Sum(metricRows, nil) + samples.Sum(metricRowsDropped, nil)
		},
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// run starts the collector of a stage, or starts it anew.
func (s *stage) run() *stage {
	s.t.Helper()
	s.Collector = harness.Start(s.t, s.config)
	return s
}

func newStage(t *testing.T, s setting) *stage {
	t.Helper()
	return prepare(t, s).run()
}

// received is the number of messages so far.
func (s *stage) received() int { return int(s.Metrics().Sum(metricMessages, nil)) }

// waitReceived waits until n more messages than now have come, and gives how long
// that took.
func (s *stage) waitReceived(n int) time.Duration {
	s.t.Helper()
	start, before := time.Now(), s.received()
	harness.Eventually(s.t, func() bool { return s.received() >= before+n }, "%d messages and no more", before)
	return time.Since(start)
}

// up is fpm.endpoint.up of all endpoints together; -1: not yet emitted.
func (s *stage) up() int {
	s.t.Helper()
	response, err := http.Get(s.metrics) //nolint:noctx // a page of this test
	if err != nil {
		return -1
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	up, found := 0, false
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "fpm_endpoint_up"); ok && strings.HasPrefix(rest, "{") {
			found = true
			if strings.HasSuffix(rest, " 1") {
				up++
			}
		}
	}
	if !found {
		return -1
	}
	return up
}

func (s *stage) waitUp(n int) {
	s.t.Helper()
	harness.Eventually(s.t, func() bool { return s.up() == n }, "fpm.endpoint.up does not become %d", n)
}

// settled waits until nothing moves any more, and gives the telemetry of that time.
func (s *stage) settled() harness.Samples {
	s.t.Helper()
	var last harness.Samples
	lastArrived := -1.0
	calm := 0
	harness.Eventually(s.t, func() bool {
		samples := s.Metrics()
		// Not all messages: hostile peers never come to rest.
		same := samples.Sum(metricRecords, nil) == last.Sum(metricRecords, nil) &&
			s.arrived(samples) == lastArrived &&
			samples.Sum(metricQueued, harness.Labels{"signal": "logs"}) == 0
		calm++
		if !same {
			calm = 0
		}
		last, lastArrived = samples, s.arrived(samples)
		records := samples.Sum(metricRecords, nil)
		through := lastArrived + samples.Sum(metricDropped, harness.Labels{"signal": "logs"})
		time.Sleep(100 * time.Millisecond)
		// Records on the way are waited for, as long as patience goes; what is lost
		// for good the account finds.
		return calm >= 5 && (records == through || calm >= 60)
	}, "the collector does not come to rest")
	return last
}

// rows are the arrivals in the files.
func (s *stage) rows() []accounting.Arrival {
	s.t.Helper()
	return arrivals(harness.Rows(s.t, s.base))
}

// wholeRows are those of files that may be torn by a kill.
func (s *stage) wholeRows() (found []accounting.Arrival) {
	s.t.Helper()
	for _, path := range harness.Segments(s.t, s.base) {
		rows, _ := harness.ReadSegment(s.t, path)
		found = append(found, arrivals(rows)...)
	}
	return found
}

func arrivals(rows []harness.Row) []accounting.Arrival {
	found := make([]accounting.Arrival, len(rows))
	for i, row := range rows {
		found[i] = accounting.Arrival{Text: row.FPM, ObservedMS: row.ObservedMS}
	}
	return found
}

// requireClosed explains the run, and requires that nothing contradicts.
func requireClosed(t *testing.T, e accounting.Evidence) accounting.Account {
	t.Helper()
	account := accounting.Explain(e)
	t.Logf("account of %d messages:\n%s", len(e.Sent), account)
	require.Empty(t, account.Discrepancies)
	require.Positive(t, account.Fates[accounting.Written], "nothing was written at all")
	return account
}

// close settles, closes the account over the trace files, and stops the collector.
func (s *stage) close(sent []accounting.Message, unbroken bool) accounting.Account {
	s.t.Helper()
	telemetry := s.settled()
	account := requireClosed(s.t, accounting.Evidence{Sent: sent, Arrived: s.rows(), Telemetry: telemetry, TraceFiles: true, Unbroken: unbroken})
	s.Stop()
	s.RequireNoPanic()
	return account
}

// usage is what a process holds.
type usage struct{ files, goroutines int }

var goroutineTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)

func (s *stage) usage() usage {
	s.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	require.NoError(s.t, err)
	response, err := http.Get(s.pprof) //nolint:noctx // a page of this test
	require.NoError(s.t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	match := goroutineTotal.FindSubmatch(text)
	require.NotNil(s.t, match, string(text))
	total, err := strconv.Atoi(string(match[1]))
	require.NoError(s.t, err)
	return usage{files: len(entries), goroutines: total}
}

// requireNoGrowth waits until the process holds no more than before, but for a few
// connections of scrapes.
func (s *stage) requireNoGrowth(before usage) {
	s.t.Helper()
	const slack = 6
	var now usage
	deadline := time.Now().Add(harness.Patience)
	for {
		now = s.usage()
		if now.files <= before.files+slack && now.goroutines <= before.goroutines+2*slack {
			break
		}
		require.True(s.t, time.Now().Before(deadline), "held %+v before, %+v now", before, now)
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Logf("held before and after: %+v, %+v", before, now)
}

// residentKiB is the memory of a process.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := bytes.Cut(status, []byte("VmRSS:"))
	require.True(t, found)
	n, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	require.NoError(t, err)
	return n
}
