// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package promtest runs a real Prometheus, as users do behind the distribution,
// and asks it what it has stored. install.sh beside it gets the binary.
//
// All functions fail the test rather than to return an error.
package promtest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// Options say what a server does.
type Options struct {
	// Target is the host:port whose /metrics is scraped every ScrapeInterval,
	// with honor_labels (COL-88). Empty: none.
	Target string
	// Config is a whole configuration instead, for a test that has one of its own;
	// its paths are absolute.
	Config string
	// Features are the server's feature flags, such as exemplar-storage.
	Features []string
	// RemoteWrite makes it take what others write.
	RemoteWrite bool
}

// ScrapeInterval is short, so that tests need not wait.
const ScrapeInterval = 250 * time.Millisecond

// Server is one process with an empty storage.
type Server struct {
	tb      testing.TB
	command *exec.Cmd
	ended   chan struct{}
	logPath string
	url     string
}

// Binary is the program: in the folder OTELCOL_FPM_PROMETHEUS, else where
// install.sh puts it, else in PATH. Without it the test is skipped, or fails where
// CI_E2E_REQUIRED is set.
func Binary(tb testing.TB) string {
	tb.Helper()
	folder := os.Getenv("OTELCOL_FPM_PROMETHEUS")
	if folder != "" {
		return executable(tb, filepath.Join(folder, "prometheus"))
	}
	path := filepath.Join(harness.Root(tb), ".cache", "prometheus", "usr", "bin", "prometheus")
	if _, err := os.Stat(path); err == nil {
		return executable(tb, path)
	}
	return executable(tb, "prometheus")
}

func executable(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	const hint = "no Prometheus (%v): run test/prometheus/install.sh, or set OTELCOL_FPM_PROMETHEUS to the folder of one"
	if os.Getenv("CI_E2E_REQUIRED") != "" {
		tb.Fatalf(hint, err)
	}
	tb.Skipf(hint, err)
	return ""
}

// Start runs a server until the end of the test and waits until it is ready and
// has scraped its target.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	dir := tb.TempDir()
	address := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(tb, 1))
	s := &Server{tb: tb, ended: make(chan struct{}), logPath: filepath.Join(dir, "prometheus.log"), url: "http://" + address}
	s.start(options.arguments(tb, dir, address))
	tb.Cleanup(s.stop)
	s.waitReady()
	if options.Target != "" {
		// Its service discovery takes 5 s to begin.
		harness.Eventually(tb, func() bool { return len(s.Query("up == 1")) > 0 }, "Prometheus does not scrape %s", options.Target)
	}
	return s
}

func (o *Options) arguments(tb testing.TB, dir, address string) []string {
	tb.Helper()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(o.config()), 0o600); err != nil {
		tb.Fatal(err)
	}
	arguments := []string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address,
	}
	if len(o.Features) > 0 {
		arguments = append(arguments, "--enable-feature="+strings.Join(o.Features, ","))
	}
	if o.RemoteWrite {
		arguments = append(arguments, "--web.enable-remote-write-receiver")
	}
	return arguments
}

func (o *Options) config() string {
	if o.Config != "" {
		return o.Config
	}
	if o.Target == "" {
		return "{}\n"
	}
	return fmt.Sprintf(`
scrape_configs:
  - job_name: otelcol-fpm
    scrape_interval: %[1]v
    scrape_timeout: %[1]v
    honor_labels: true
    static_configs: [{targets: ['%[2]s']}]
`, ScrapeInterval, o.Target)
}

func (s *Server) start(arguments []string) {
	s.tb.Helper()
	log, err := os.Create(s.logPath)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.command = exec.Command(Binary(s.tb), arguments...) //nolint:noctx // its life is managed here
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		s.tb.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.command.Wait() // it is ended by a signal
		_ = log.Close()
	}()
}

func (s *Server) waitReady() {
	s.tb.Helper()
	harness.Eventually(s.tb, func() bool {
		select {
		case <-s.ended:
			s.tb.Fatalf("Prometheus has ended:\n%s", s.log())
		default:
		}
		response, err := http.Get(s.url + "/-/ready") //nolint:noctx // a local server of the test
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, "Prometheus is not ready")
}

func (s *Server) stop() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(harness.Patience):
		_ = s.command.Process.Kill()
		<-s.ended
	}
	if s.tb.Failed() {
		s.tb.Logf("the log of Prometheus:\n%s", s.log())
	}
}

func (s *Server) log() string {
	text, err := os.ReadFile(s.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// URL is where it listens, without a path.
func (s *Server) URL() string { return s.url }
