// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// demo is a run of test/demo/run.sh in a process group of its own, as in a
// terminal.
type demo struct {
	t       *testing.T
	command *exec.Cmd
	output  *lockedBuffer
	dir     string
	ended   chan struct{}
}

// lockedBuffer is what the demo prints.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func startDemo(t *testing.T) *demo {
	t.Helper()
	root := harness.Root(t)
	requireBuilt(t, filepath.Join(root, "bin", "fpmgen"))
	requireBuilt(t, filepath.Join(root, "dist", "otelcol-fpm"))
	d := &demo{t: t, output: &lockedBuffer{}, dir: t.TempDir(), ended: make(chan struct{})}
	d.command = exec.Command(filepath.Join(root, "test", "demo", "run.sh")) //nolint:noctx // its end is what is tested
	d.command.Env = append(os.Environ(), "FPM_RUN="+d.dir)
	d.command.Stdout, d.command.Stderr = d.output, d.output
	d.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Where this process began with SIGINT ignored, its children would, too; what it
	// catches they don't.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	err := d.command.Start()
	signal.Stop(interrupts)
	require.NoError(t, err)
	go func() {
		defer close(d.ended)
		_ = d.command.Wait()
	}()
	t.Cleanup(d.cleanUp)
	return d
}

// requireBuilt skips the test, or fails it in CI.
func requireBuilt(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	if os.Getenv("CI_E2E_REQUIRED") != "" {
		t.Fatalf("%s is missing: run make build", path)
	}
	t.Skipf("%s is missing: run make build", path)
}

func (d *demo) cleanUp() {
	select {
	case <-d.ended:
	default:
		_ = syscall.Kill(-d.command.Process.Pid, syscall.SIGKILL)
		<-d.ended
	}
	if d.t.Failed() {
		d.t.Logf("the demo printed:\n%s", d.output)
	}
}

// ready waits until the demo says how to end it. false: it ended before.
func (d *demo) ready() (running bool) {
	d.t.Helper()
	harness.Eventually(d.t, func() bool {
		running = strings.Contains(d.output.String(), "Ctrl-C")
		select {
		case <-d.ended:
			return true
		default:
			return running
		}
	}, "the demo does not say how to end it")
	return running
}

// interrupt is Ctrl-C: one SIGINT to every process of the group.
func (d *demo) interrupt() (exitCode int) {
	d.t.Helper()
	require.NoError(d.t, syscall.Kill(-d.command.Process.Pid, syscall.SIGINT))
	select {
	case <-d.ended:
	case <-time.After(harness.Patience):
		d.t.Fatal("the demo does not end")
	}
	return d.command.ProcessState.ExitCode()
}

var curlLine = regexp.MustCompile(`curl -s (http://\S+) \| grep (\S+)`)

// TestDemo does what the demo tells, and ends it by Ctrl-C.
func TestDemo(t *testing.T) {
	// Usual ports that are in use are left alone.
	var taken []string
	for _, address := range []string{"127.0.0.1:9464", "127.0.0.1:8888"} {
		if listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err == nil {
			taken = append(taken, address)
			defer listener.Close() //nolint:errcheck // held, never used
		}
	}
	d := startDemo(t)
	for range 5 {
		if d.ready() {
			break
		}
		// Somebody took a port after the demo had found it free.
		require.Contains(t, d.output.String(), "address already in use")
		d = startDemo(t)
	}

	urls := map[string]string{}
	for _, line := range curlLine.FindAllStringSubmatch(d.output.String(), -1) {
		urls[line[2]] = line[1]
	}
	require.Len(t, urls, 2)
	for pattern, url := range urls {
		for _, address := range taken {
			require.NotContains(t, url, address)
		}
		expression := regexp.MustCompile("(?m)" + pattern)
		harness.Eventually(t, func() bool { return expression.MatchString(get(t, url)) }, "nothing is shown by %s", pattern)
	}
	// A row of each rank is on the disk.
	base := filepath.Join(d.dir, "dynamo-fpm")
	harness.Eventually(t, func() bool { return len(newestRows(t, base)) == 2 }, "no rows of both ranks")

	samples := harness.Scrape(t, urls["^fpm_forward_passes_total"])
	received := samples.By("fpm_records", "fpm_dp_rank", nil)
	require.Len(t, received, 2)
	require.Zero(t, d.interrupt(), "exit code")

	// All that was received before is in the newest row of its rank: counters begin
	// at 0.
	newest := newestRows(t, base)
	for rank, records := range received {
		require.GreaterOrEqual(t, float64(newest[rank]+1), records, "rank %s", rank)
	}
	require.Contains(t, d.output.String(), fmt.Sprintf("Stopped. Rows on disk: %d\n", len(harness.Rows(t, base))))
	for _, url := range urls {
		_, err := http.Get(url) //nolint:noctx,bodyclose // it must fail
		require.Error(t, err, "the collector has ended")
	}
}

// newestRows gives the counter of the newest row of each rank.
func newestRows(t *testing.T, base string) map[string]int64 {
	t.Helper()
	newest := map[string]int64{}
	for _, path := range harness.Segments(t, base) {
		rows, _ := harness.ReadSegment(t, path) // the tail may be on its way
		for _, row := range rows {
			var p payload
			require.NoError(t, json.Unmarshal([]byte(row.FPM), &p))
			newest[strconv.FormatInt(p.DPRank, 10)] = p.CounterID
		}
	}
	return newest
}

// get reads a page.
func get(t *testing.T, url string) string {
	t.Helper()
	body, status := fetch(t, url, "")
	require.Equal(t, http.StatusOK, status, body)
	return body
}

// fetch reads a page in a media type, or in the usual one.
func fetch(t *testing.T, url, accept string) (body string, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	return string(text), response.StatusCode
}
