// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package harness runs the built distribution as users do: it starts the binary
// with a configuration, reads its own telemetry and its trace files, drives a
// publisher on the real libzmq, and stops or kills it.
//
// All functions fail the test rather than to return an error. Their waits are
// long, because they end as soon as the condition holds.
package harness

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Patience is how long anything may take before the test fails.
const Patience = 60 * time.Second

// tick is the distance between two looks at a condition.
const tick = 10 * time.Millisecond

// nextPort moves on, so that two calls do not find the same port while it is not
// yet bound.
var nextPort atomic.Int64

// settle is the time from the ready message, which the Collector writes before it
// asks for signals, until it has done so: a signal before that just kills it.
const settle = 250 * time.Millisecond

const readyMessage = "Everything is ready. Begin running and processing data."

// Collector is one process of the distribution.
type Collector struct {
	tb        testing.TB
	command   *exec.Cmd
	logPath   string
	telemetry string // URL
	ended     chan struct{}
	exitCode  int
}

// Root is the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		tb.Fatal("the harness does not know where its source is")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Binary is the distribution: OTELCOL_FPM_BINARY, else dist/otelcol-fpm. Without
// it the test is skipped, or fails where CI_E2E_REQUIRED is set.
func Binary(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("OTELCOL_FPM_BINARY")
	if path == "" {
		path = filepath.Join(Root(tb), "dist", "otelcol-fpm")
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		missing(tb, "%s is missing: run make build, or set OTELCOL_FPM_BINARY", path)
	}
	return path
}

// missing skips the test, or fails it in CI.
func missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI_E2E_REQUIRED") != "" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}

// Long skips a test, or the part of one, that the short subset of make test leaves
// out.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("long: make e2e / make faults")
	}
}

// Start runs the distribution with a configuration until the end of the test and
// waits until it is ready. The harness adds a reader of the own telemetry, so the
// configuration has no service::telemetry::metrics of its own. Further arguments
// are environment variables (NAME=value).
func Start(tb testing.TB, config string, environment ...string) *Collector {
	tb.Helper()
	c := StartUnready(tb, config, environment...)
	c.WaitLog(readyMessage)
	time.Sleep(settle)
	return c
}

// StartUnready does not wait.
func StartUnready(tb testing.TB, config string, environment ...string) *Collector {
	tb.Helper()
	return launch(tb, config, "", environment)
}

// launch starts a process. reader is a further reader of the own telemetry, as YAML.
func launch(tb testing.TB, config, reader string, environment []string) *Collector {
	tb.Helper()
	dir := tb.TempDir()
	port := FreePorts(tb, 1)
	c := &Collector{
		tb:        tb,
		logPath:   filepath.Join(dir, "collector.log"),
		telemetry: fmt.Sprintf("http://127.0.0.1:%d/metrics", port),
		ended:     make(chan struct{}),
	}
	mainPath := writeFile(tb, dir, "config.yaml", config)
	telemetryPath := writeFile(tb, dir, "telemetry.yaml", fmt.Sprintf(
		"service: {telemetry: {metrics: {level: detailed, readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %d}}}}%s]}}}\n", port, reader))
	c.start(environment, "--config", mainPath, "--config", telemetryPath)
	tb.Cleanup(c.cleanUp)
	return c
}

func writeFile(tb testing.TB, dir, name, text string) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func (c *Collector) start(environment []string, args ...string) {
	c.tb.Helper()
	log, err := os.Create(c.logPath)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.command = exec.Command(Binary(c.tb), args...) //nolint:noctx // its life is managed here
	c.command.Env = append(os.Environ(), environment...)
	c.command.Stdout, c.command.Stderr = log, log
	if err := c.command.Start(); err != nil {
		c.tb.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		err := c.command.Wait()
		_ = log.Close() // for reading only, the process wrote
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.exitCode = -1
			return
		}
		c.exitCode = c.command.ProcessState.ExitCode()
	}()
}

func (c *Collector) cleanUp() {
	if c.Running() {
		_ = c.command.Process.Kill()
		<-c.ended
	}
	if c.tb.Failed() {
		c.tb.Logf("the collector's log:\n%s", tail(c.Log()))
	}
}

// tail is what of a log helps when a test fails.
func tail(text string) string {
	const n = 8000
	if len(text) <= n {
		return text
	}
	return "..." + text[len(text)-n:]
}

// Running tells whether the process has not ended.
func (c *Collector) Running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// PID is the process id.
func (c *Collector) PID() int { return c.command.Process.Pid }

// Log is what the process has written so far.
func (c *Collector) Log() string {
	c.tb.Helper()
	data, err := os.ReadFile(c.logPath)
	if err != nil {
		c.tb.Fatal(err)
	}
	return string(data)
}

// WaitLog waits until the log contains text.
func (c *Collector) WaitLog(text string) {
	c.tb.Helper()
	Eventually(c.tb, func() bool {
		if strings.Contains(c.Log(), text) {
			return true
		}
		if !c.Running() {
			c.tb.Fatalf("the collector ended with exit code %d before it logged %q:\n%s", c.exitCode, text, tail(c.Log()))
		}
		return false
	}, "the log does not say %q", text)
}

// Stop ends the process as an orchestrator does, with SIGTERM, and requires a
// clean exit.
func (c *Collector) Stop() {
	c.tb.Helper()
	c.Signal(syscall.SIGTERM)
	if code := c.Wait(); code != 0 {
		c.tb.Fatalf("exit code %d after SIGTERM:\n%s", code, tail(c.Log()))
	}
	if !strings.Contains(c.Log(), "Shutdown complete") {
		c.tb.Fatalf("the log does not say that the shutdown is complete:\n%s", tail(c.Log()))
	}
}

// Kill ends the process with SIGKILL.
func (c *Collector) Kill() {
	c.tb.Helper()
	c.Signal(syscall.SIGKILL)
	c.Wait()
}

// RequireNoPanic wants no sign in the log that the runtime ended the process.
func (c *Collector) RequireNoPanic() {
	c.tb.Helper()
	log := c.Log()
	for _, word := range []string{"panic:", "goroutine 1 [", "fatal error:", "DATA RACE"} {
		if strings.Contains(log, word) {
			c.tb.Fatalf("the log says %q:\n%s", word, tail(log))
		}
	}
}

// Signal sends a signal to the process.
func (c *Collector) Signal(signal syscall.Signal) {
	c.tb.Helper()
	if err := c.command.Process.Signal(signal); err != nil {
		c.tb.Fatalf("%v: %v", signal, err)
	}
}

// Wait waits for the end of the process and returns its exit code.
func (c *Collector) Wait() int {
	c.tb.Helper()
	select {
	case <-c.ended:
		return c.exitCode
	case <-time.After(Patience):
		c.tb.Fatalf("the collector does not end:\n%s", tail(c.Log()))
		return -1
	}
}

// Run runs the distribution with these arguments to its end and returns what it
// wrote and its exit code.
func Run(tb testing.TB, args ...string) (output string, exitCode int) {
	tb.Helper()
	command := exec.CommandContext(tb.Context(), Binary(tb), args...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	return out.String(), command.ProcessState.ExitCode()
}

// Eventually waits until the condition holds.
func Eventually(tb testing.TB, condition func() bool, format string, args ...any) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for !condition() {
		if time.Now().After(deadline) {
			tb.Fatalf("after %v: %s", Patience, fmt.Sprintf(format, args...))
		}
		time.Sleep(tick)
	}
}

// FreePorts finds n ports in a row that are free now, and returns the first. They
// lie below the ephemeral range (STR-16), so nobody gets them by chance.
func FreePorts(tb testing.TB, n int) int {
	tb.Helper()
	const first, last = 21000, 31000
	start := os.Getpid() * 37
	for range last - first {
		port := first + (start+int(nextPort.Add(int64(n)))-n)%(last-first)
		if port+n <= last && portsFree(port, n) {
			return port
		}
	}
	tb.Fatal("no free ports")
	return 0
}

func portsFree(port, n int) bool {
	for i := range n {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i)) //nolint:noctx // closed at once
		if err != nil {
			return false
		}
		if err := listener.Close(); err != nil {
			return false
		}
	}
	return true
}
