// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/accounting"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// Engine is what a publisher process is told.
type Engine struct {
	Log          string  `json:"log"`
	Bind         string  `json:"bind"`     // address that it binds
	Endpoint     string  `json:"endpoint"` // address that the collector has; the same when empty
	WorkerID     string  `json:"worker_id"`
	Life         int     `json:"life"`
	First        uint64  `json:"first"`         // sequence
	Count        int     `json:"count"`         // 0: until it is stopped
	Rate         float64 `json:"rate"`          // a second; 0: as fast as it can
	InvalidEvery int     `json:"invalid_every"` // every how many messages one is malformed; 0: none
	Wait         bool    `json:"wait"`          // for a subscriber before the first message
}

// process is a running publisher.
type process struct {
	Engine
	t       *testing.T
	command *exec.Cmd
	says    chan string // closed at its end
}

// start runs a publisher until the end of the test, and waits until it listens.
func (e Engine) start(t *testing.T) *process {
	t.Helper()
	if e.Endpoint == "" {
		e.Endpoint = e.Bind
	}
	if e.Log == "" {
		e.Log = filepath.Join(t.TempDir(), "sent.jsonl")
	}
	argument, err := json.Marshal(e)
	require.NoError(t, err)
	script := filepath.Join(harness.Root(t), "test", "faults", "engine.py")
	p := &process{Engine: e, t: t, says: make(chan string, 2)}
	p.command = exec.Command(harness.Python(t), script, string(argument)) //nolint:noctx // its life is managed here
	p.command.Stderr = os.Stderr
	input, err := p.command.StdinPipe()
	require.NoError(t, err)
	output, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	go p.listen(output)
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // may have ended
		p.end()
		_ = input.Close()
	})
	require.Equal(t, "bound", <-p.says)
	return p
}

func (p *process) listen(output io.Reader) {
	defer close(p.says)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		p.says <- lines.Text()
	}
}

// end waits until the process is gone.
func (p *process) end() {
	for range p.says {
		// until it has closed its output
	}
	_ = p.command.Wait() // a kill is no error here
}

// done waits until everything was sent.
func (p *process) done() {
	p.t.Helper()
	select {
	case word := <-p.says:
		require.Equal(p.t, "done", word)
	case <-time.After(5 * harness.Patience):
		require.Fail(p.t, "the publisher does not come to an end")
	}
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(signal))
}

// stop ends the publisher as an orchestrator does: what it has sent still leaves.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.end()
}

func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.end()
}

// again starts the next process of the same publisher. With the same log, it is a
// further life in it.
func (p *process) again(change func(*Engine)) *process {
	p.t.Helper()
	next := p.Engine
	next.Life++
	next.Wait = false
	change(&next)
	return next.start(p.t)
}

// sent reads the log. Its last line may be cut by a kill: that message never left.
func (p *process) sent() (messages []accounting.Message) {
	p.t.Helper()
	file, err := os.Open(p.Log)
	require.NoError(p.t, err)
	defer func() { require.NoError(p.t, file.Close()) }()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return messages
		}
		require.NoError(p.t, err)
		var m accounting.Message
		require.NoError(p.t, json.Unmarshal(line, &m))
		messages = append(messages, m)
	}
}
