// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestBinaryIsStatic: it needs no interpreter and no library of the system.
func TestBinaryIsStatic(t *testing.T) {
	file, err := elf.Open(harness.Binary(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
	for _, program := range file.Progs {
		require.NotEqual(t, elf.PT_INTERP, program.Type, "it needs a dynamic linker")
	}
}

// image is the last stage of packaging/Dockerfile.
type image struct {
	copies  []imageCopy
	uid     int
	volumes []string
	command []string
}

type imageCopy struct{ from, to string }

// readImage knows only the instructions that the file has, so that a new one is
// not overlooked.
func readImage(t *testing.T) (i image) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(t), "packaging", "Dockerfile"))
	require.NoError(t, err)
	_, last, found := strings.Cut(string(text), "\nFROM scratch\n")
	require.True(t, found, "the last stage has a base")
	for line := range strings.Lines(last) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "":
		case "COPY":
			i.copies = append(i.copies, parseCopy(t, rest))
		case "USER":
			user, _, _ := strings.Cut(rest, ":")
			i.uid, err = strconv.Atoi(user) // Kubernetes can tell only of a number that it is not root
			require.NoError(t, err)
		case "VOLUME":
			require.NoError(t, json.Unmarshal([]byte(rest), &i.volumes))
		case "ENTRYPOINT", "CMD":
			var words []string
			require.NoError(t, json.Unmarshal([]byte(rest), &words))
			i.command = append(i.command, words...)
		default:
			require.Fail(t, "unknown instruction", line)
		}
	}
	return i
}

func parseCopy(t *testing.T, text string) (c imageCopy) {
	t.Helper()
	var paths []string
	for word := range strings.FieldsSeq(text) {
		if !strings.HasPrefix(word, "--") {
			paths = append(paths, word)
		}
	}
	require.Len(t, paths, 2, text)
	return imageCopy{paths[0], paths[1]}
}

// build makes the root file system. Sources are those of the build stage: /src is
// the repository, and the certificates are this system's.
func (i image) build(t *testing.T, root string) {
	t.Helper()
	for _, c := range i.copies {
		to := filepath.Join(root, c.to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		switch {
		case c.from == "/empty":
			require.NoError(t, os.Mkdir(to, 0o755))
		case c.from == "/src/dist/otelcol-fpm":
			copyFile(t, harness.Binary(t), to, 0o755)
		case strings.HasPrefix(c.from, "/src/"):
			copyFile(t, filepath.Join(harness.Root(t), strings.TrimPrefix(c.from, "/src/")), to, 0o644)
		default:
			if _, err := os.Stat(c.from); errors.Is(err, fs.ErrNotExist) {
				continue // a system without certificates; nothing here uses TLS
			}
			copyFile(t, c.from, to, 0o644)
		}
	}
}

func copyFile(t *testing.T, from, to string, mode fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, mode))
}

// requireMounts skips the test where nobody may mount.
func requireMounts(t *testing.T) {
	t.Helper()
	harness.NeedRoot(t, "builds the container's file system")
	output, err := exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt").CombinedOutput()
	harness.Unable(t, "unshare and mount do not work: "+string(output), err)
}

// container runs the image as container runtimes do with a read-only root and all
// capabilities dropped: a mount namespace with the root read-only, the volume and
// /proc mounted (only the entries of processes, as under the unit file), a user
// that is not root and can't become it. The three capabilities that chroot needs
// itself stay in the bounding set; without new privileges nothing can take them.
const container = `
mount --bind "$ROOT" "$ROOT"
mount --bind "$VOLUME" "$ROOT/var/lib/otelcol-fpm"
mount -t proc -o subset=pid,nosuid,nodev,noexec proc "$ROOT/proc"
mount -o remount,bind,ro "$ROOT"
if touch "$ROOT/x" 2>/dev/null; then echo "the root is writable" >&2; exit 90; fi
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid -- \
	chroot --userspec="$UID_OF_IMAGE:$UID_OF_IMAGE" --groups= "$ROOT" "$@"
`

// TestImageNeedsNothingButItsVolume feeds the image from a real publisher.
func TestImageNeedsNothingButItsVolume(t *testing.T) {
	requireMounts(t)
	image := readImage(t)
	require.Equal(t, []string{"/var/lib/otelcol-fpm"}, image.volumes)
	require.NotZero(t, image.uid, "the image runs as root")

	root, volume := t.TempDir(), t.TempDir()
	image.build(t, root)
	require.NoError(t, os.Mkdir(filepath.Join(root, "proc"), 0o755)) // by the container runtime
	require.NoError(t, os.Chown(volume, image.uid, image.uid))
	// A temporary folder of a test is closed for others, even on the way.
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
	require.NoError(t, os.Chmod(root, 0o755))
	require.NoError(t, os.Chmod(volume, 0o750))

	p := publish(t, loopback(t))
	ports := harness.FreePorts(t, 3)
	var log syncBuffer
	args := append([]string{"--mount", "sh", "-ec", container, "container"}, image.command...)
	command := exec.Command("unshare", args...) //nolint:noctx // ended below
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "ROOT=" + root, "VOLUME=" + volume, "UID_OF_IMAGE=" + strconv.Itoa(image.uid),
		"FPM_ENDPOINT=" + p.endpoint, "FPM_MODE=full",
		fmt.Sprintf("FPM_METRICS_PORT=%d", ports), fmt.Sprintf("FPM_TELEMETRY_PORT=%d", ports+1), fmt.Sprintf("FPM_HEALTH_PORT=%d", ports+2),
	}
	command.Stdout, command.Stderr = &log, &log
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()

	harness.Eventually(t, func() bool {
		select {
		case err := <-ended:
			require.NoError(t, err, log.String())
			require.Fail(t, "it ended by itself", log.String())
		default:
		}
		return strings.Contains(log.String(), "Everything is ready")
	}, "it is not ready")
	requireUnprivileged(t, command.Process.Pid, image.uid)
	p.waitSubscriber()
	p.pass("w")
	p.pass("../../escape")
	base := filepath.Join(volume, "dynamo-fpm")
	harness.Eventually(t, func() bool { return len(harness.Segments(t, base)) == 2 }, "no trace files")
	requireHealthy(t, fmt.Sprintf("http://127.0.0.1:%d/", ports+2))
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-ended, log.String())

	require.Len(t, harness.Rows(t, base), 2)
	for _, path := range harness.Segments(t, base) {
		var info unixStat
		require.NoError(t, info.read(path))
		require.Equal(t, "-rw-r-----", info.mode.String(), path)
		require.Equal(t, image.uid, info.uid, path)
	}
	require.NotContains(t, log.String(), "read-only file system")
	require.NotContains(t, log.String(), "\terror\t")
}

// requireHealthy asks as the probes of an orchestrator do.
func requireHealthy(t *testing.T, url string) {
	t.Helper()
	response, err := http.Get(url) //nolint:noctx // a local endpoint of the test
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// requireUnprivileged reads what the kernel says of a process.
func requireUnprivileged(t *testing.T, pid, uid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	id := strconv.Itoa(uid)
	require.Equal(t, strings.Join([]string{id, id, id, id}, " "), status["Uid"])
	require.Empty(t, status["Groups"])
	require.Equal(t, "1", status["NoNewPrivs"])
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		require.Equal(t, "0000000000000000", status[set], set)
	}
}

type unixStat struct {
	mode fs.FileMode
	uid  int
}

func (s *unixStat) read(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	s.mode, s.uid = info.Mode(), int(info.Sys().(*syscall.Stat_t).Uid)
	return nil
}

// syncBuffer is a buffer that a process writes while a test reads.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
