// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Publisher is a process with PUB sockets of the real libzmq (test/e2e/publisher.py).
type Publisher struct {
	tb      testing.TB
	command *exec.Cmd
	input   io.WriteCloser
	answers chan string
	logPath string
	stderr  *os.File
}

// Sent is one message of the publisher's log.
type Sent struct {
	Socket    int    `json:"socket"`
	Sequence  uint64 `json:"sequence"`
	Name      string `json:"name"`
	WorkerID  string `json:"worker_id"`
	DPRank    int64  `json:"dp_rank"`
	CounterID int64  `json:"counter_id"`
	SentNS    int64  `json:"sent_ns"`
	// FPM is the text of the payload in a row as Python computed it; empty where
	// it can not.
	FPM string `json:"fpm"`
}

// Passes describes a run of random records with counter_id = sequence.
type Passes struct {
	Count    int
	First    uint64 // sequence
	Seed     int64
	WorkerID string
	DPRank   int64
	Rate     float64 // a second; 0: at once
}

// Python is the interpreter with pyzmq and msgspec: OTELCOL_FPM_PYTHON, else that
// of .venv. Without one the test is skipped, or fails where CI_E2E_REQUIRED is set
// (ZMQ-68).
func Python(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("OTELCOL_FPM_PYTHON")
	if path == "" {
		path = filepath.Join(Root(tb), ".venv", "bin", "python")
	}
	if out, err := exec.CommandContext(tb.Context(), path, "-c", "import zmq, msgspec").CombinedOutput(); err != nil {
		missing(tb, "%s has no pyzmq and msgspec (%v): python3 -m venv .venv && .venv/bin/pip install -r test/requirements.txt\n%s", path, err, out)
	}
	return path
}

// StartPublisher runs a publisher without sockets until the end of the test.
func StartPublisher(tb testing.TB) *Publisher {
	tb.Helper()
	p := &Publisher{tb: tb, logPath: filepath.Join(tb.TempDir(), "published.jsonl"), answers: make(chan string)}
	script := filepath.Join(Root(tb), "test", "e2e", "publisher.py")
	p.command = exec.Command(Python(tb), script, p.logPath) //nolint:noctx // ends with its input
	var err error
	if p.input, err = p.command.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if p.stderr, err = os.Create(p.logPath + ".stderr"); err != nil {
		tb.Fatal(err)
	}
	p.command.Stderr = p.stderr
	if err := p.command.Start(); err != nil {
		tb.Fatal(err)
	}
	go p.read(output)
	tb.Cleanup(p.stop)
	return p
}

func (p *Publisher) read(output io.Reader) {
	defer close(p.answers)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		p.answers <- lines.Text()
	}
}

func (p *Publisher) stop() {
	_ = p.input.Close()
	killer := time.AfterFunc(10*time.Second, func() { _ = p.command.Process.Kill() })
	defer killer.Stop()
	for range p.answers {
		// until the process has closed its output
	}
	_ = p.command.Wait()
	_ = p.stderr.Close()
}

// do runs one command and returns its answer.
func (p *Publisher) do(command map[string]any) map[string]any {
	p.tb.Helper()
	line, err := json.Marshal(command)
	if err != nil {
		p.tb.Fatal(err)
	}
	if _, err := p.input.Write(append(line, '\n')); err != nil {
		p.tb.Fatalf("the publisher is gone: %v\n%s", err, p.errors())
	}
	select {
	case text, open := <-p.answers:
		var answer map[string]any
		if err := json.Unmarshal([]byte(text), &answer); !open || err != nil {
			p.tb.Fatalf("the publisher answers %q: %v\n%s", text, err, p.errors())
		}
		if fault, failed := answer["error"]; failed {
			p.tb.Fatalf("publisher, %s: %v", command["do"], fault)
		}
		return answer
	case <-time.After(10 * Patience):
		p.tb.Fatalf("publisher, %s: no answer", command["do"])
		return nil
	}
}

func (p *Publisher) errors() string {
	text, _ := os.ReadFile(p.stderr.Name())
	return string(text)
}

// Bind opens a socket on one or more endpoints and returns its number. Its queue
// for each subscriber has no bound.
func (p *Publisher) Bind(endpoints ...string) int {
	p.tb.Helper()
	return p.BindLimited(0, endpoints...)
}

// BindLimited opens a socket that drops what exceeds its high-water mark.
func (p *Publisher) BindLimited(highWaterMark int, endpoints ...string) int {
	p.tb.Helper()
	answer := p.do(map[string]any{"do": "bind", "endpoints": endpoints, "high_water_mark": highWaterMark})
	return int(answer["socket"].(float64))
}

// Close closes a socket; what it has not sent is lost.
func (p *Publisher) Close(socket int) {
	p.tb.Helper()
	p.do(map[string]any{"do": "close", "socket": socket})
}

// WaitSubscribers waits until a socket has n subscribers.
func (p *Publisher) WaitSubscribers(socket, n int) {
	p.tb.Helper()
	p.do(map[string]any{"do": "wait", "socket": socket, "subscribers": n, "timeout": Patience.Seconds()})
}

// Passes publishes random records.
func (p *Publisher) Passes(socket int, passes Passes) {
	p.tb.Helper()
	p.do(map[string]any{
		"do": "passes", "socket": socket, "count": passes.Count, "first": passes.First, "seed": passes.Seed,
		"worker_id": passes.WorkerID, "dp_rank": passes.DPRank, "rate": passes.Rate,
	})
}

// Record publishes one decode pass of a given identity.
func (p *Publisher) Record(socket int, sequence uint64, name, workerID string, dpRank, counterID int64, wallTime float64) {
	p.tb.Helper()
	p.do(map[string]any{
		"do": "record", "socket": socket, "sequence": sequence, "name": name, "worker_id": workerID,
		"dp_rank": dpRank, "counter_id": counterID, "wall_time": wallTime,
	})
}

// Heartbeats publishes all-zero records, one an interval.
func (p *Publisher) Heartbeats(socket, count int, first uint64, workerID string, dpRank int64, interval time.Duration) {
	p.tb.Helper()
	p.do(map[string]any{
		"do": "heartbeats", "socket": socket, "count": count, "first": first, "worker_id": workerID,
		"dp_rank": dpRank, "interval": interval.Seconds(),
	})
}

// Payload publishes given bytes.
func (p *Publisher) Payload(socket int, sequence uint64, name, hex string) {
	p.tb.Helper()
	p.do(map[string]any{"do": "payload", "socket": socket, "sequence": sequence, "name": name, "hex": hex})
}

// Sent is everything that was published, in order.
func (p *Publisher) Sent() (sent []Sent) {
	p.tb.Helper()
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		p.tb.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	for decoder.More() {
		var s Sent
		if err := decoder.Decode(&s); err != nil {
			p.tb.Fatal(err)
		}
		sent = append(sent, s)
	}
	return sent
}
