// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// python gives an interpreter that has pyzmq.
func python(t *testing.T) string {
	t.Helper()
	path, err := findPython()
	if err == nil {
		return path
	}
	if os.Getenv("CI_INTEROP_REQUIRED") == "1" {
		require.FailNow(t, "no libzmq peer", "%v: set OTELCOL_FPM_PYTHON, or make .venv with pyzmq", err)
	}
	t.Skipf("no libzmq peer: %v", err)
	return ""
}

// findPython looks once for all tests.
var findPython = sync.OnceValues(func() (string, error) {
	path := os.Getenv("OTELCOL_FPM_PYTHON")
	if path == "" {
		root, err := repository()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, ".venv", "bin", "python")
	}
	return path, exec.Command(path, "-c", "import zmq").Run() //nolint:noctx // The interpreter that was asked for.
})

// repository is the folder of go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// publisher is a running testdata/publisher.py.
type publisher struct {
	cmd   *exec.Cmd
	stdin io.Closer
	once  sync.Once
	// endpoint is what it bound.
	endpoint string
}

func startPublisher(t *testing.T, endpoint string, args ...string) *publisher {
	t.Helper()
	args = append([]string{filepath.Join("testdata", "publisher.py"), endpoint}, args...)
	p := &publisher{cmd: exec.Command(python(t), args...)} //nolint:noctx // It ends with its standard input.
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "the publisher did not start")
	p.endpoint = strings.TrimSpace(line)
	return p
}

// kill ends it as kill -9 does.
func (p *publisher) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
	})
}

func (p *publisher) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
}
