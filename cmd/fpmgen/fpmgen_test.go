// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// subscriber keeps what one endpoint sent.
type subscriber struct {
	mu       sync.Mutex
	messages [][][]byte
	gate     chan struct{} // when not nil, OnMessage waits for it
}

func (s *subscriber) OnMessage(m *zmtp.Message) {
	if s.gate != nil {
		<-s.gate
	}
	frames := make([][]byte, len(m.Frames))
	for i, frame := range m.Frames {
		frames[i] = bytes.Clone(frame)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, frames)
}

func (*subscriber) OnConnect(uint64)            {}
func (*subscriber) OnAttemptFailed(*zmtp.Error) {}
func (*subscriber) OnDisconnect(*zmtp.Error)    {}
func (*subscriber) OnStatus(bool, *zmtp.Error)  {}
func (*subscriber) OnIO(int, int)               {}

func (s *subscriber) received() [][][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages
}

// subscribe connects to each rank of a base endpoint until the end of the test.
func subscribe(t *testing.T, endpoint string, ranks int, gate chan struct{}) []*subscriber {
	t.Helper()
	cfg := zmtp.DefaultConfig()
	cfg.InitialBackoff, cfg.MaxBackoff = 5*time.Millisecond, 20*time.Millisecond
	client := zmtp.NewSubscriber(cfg)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	base, err := zmtp.ParseEndpoint(endpoint)
	require.NoError(t, err)
	endpoints, err := base.Expand(ranks)
	require.NoError(t, err)
	handlers := make([]*subscriber, ranks)
	for i, e := range endpoints {
		handlers[i] = &subscriber{gate: gate}
		require.NoError(t, client.Add(e, handlers[i]))
	}
	return handlers
}

// abstract is an ipc address of this test alone.
func abstract(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("ipc://@fpmgen-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
}

// fpmgen runs the command with a log file and returns its output and log.
func fpmgen(t *testing.T, args ...string) (summary string, log []entry) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sent.jsonl")
	var out, errOut bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := run(ctx, append(args, "--log-file", path, "--log-payload"), &out, &errOut)
	require.Equal(t, exitOK, code, errOut.String())
	require.NoError(t, ctx.Err(), "stopped by the test's own limit")
	return out.String(), readLog(t, path)
}

func readLog(t *testing.T, path string) (log []entry) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(data))
	for decoder.More() {
		var e entry
		require.NoError(t, decoder.Decode(&e))
		log = append(log, e)
	}
	return log
}

// sentBy is what subscribers of a rank must have received.
func sentBy(log []entry, rank int) (sent []entry) {
	for _, e := range log {
		if e.Rank == rank && e.Kind != kindDropped {
			sent = append(sent, e)
		}
	}
	return sent
}

// requireReceived compares what arrived with the log, message by message.
func requireReceived(t *testing.T, s *subscriber, sent []entry) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.received()) >= len(sent) }, 30*time.Second, time.Millisecond)
	var decoder fpm.Decoder
	var pass fpm.ForwardPass
	for i, frames := range s.received() {
		e := sent[i]
		require.Equal(t, e.Hex, hex.EncodeToString(frames[len(frames)-1]), "message %d", i)
		sequence, payload, err := fpm.ParseFrames(frames)
		if err == nil {
			require.Equal(t, e.Sequence, sequence)
			err = decoder.Decode(payload, sequence, &pass)
		}
		if e.Kind == kindMalformed {
			var reason fpm.Reason
			require.ErrorAs(t, err, &reason)
			require.Equal(t, e.Reason, reason.String())
			continue
		}
		require.NoError(t, err, "message %d", i)
		require.Equal(t, e.Sequence, uint64(pass.CounterID))
		require.Equal(t, int64(e.Rank), pass.DPRank)
		require.Equal(t, e.WorkerID, string(pass.WorkerID))
		require.Equal(t, e.Kind, pass.RecordKind().String())
	}
	require.Len(t, s.received(), len(sent))
}

func TestEverythingSentArrives(t *testing.T) {
	endpoint := abstract(t)
	subscribers := subscribe(t, endpoint, 2, nil)
	summary, log := fpmgen(t, "--endpoint", endpoint, "--ranks", "2", "--bench", "--no-drop", "--count", "2000",
		"--wait-subscribers", "1", "--linger", "500ms", "--timing-scope", "execute_model_cuda", "--start-sequence", "41")
	require.Len(t, log, 4000)
	for rank, s := range subscribers {
		sent := sentBy(log, rank)
		require.Equal(t, uint64(41), sent[0].Sequence)
		requireReceived(t, s, sent)
		require.Contains(t, string(s.received()[0][2]), "execute_model_cuda")
	}
	require.Contains(t, summary, "sent 4000 messages")
	require.Contains(t, summary, "missed=0 restarts=0")
}

func TestTCPRanksUsePortPlusRank(t *testing.T) {
	port := freePorts(t, 2)
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", port)
	subscribers := subscribe(t, endpoint, 2, nil)
	_, log := fpmgen(t, "--endpoint", fmt.Sprintf("tcp://*:%d", port), "--ranks", "2", "--bench", "--no-drop", "--count", "100",
		"--wait-subscribers", "1", "--linger", "500ms")
	for rank, s := range subscribers {
		requireReceived(t, s, sentBy(log, rank))
	}
}

// freePorts finds n ports in a row that are free now.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local
		require.NoError(t, err)
		port := first.Addr().(*net.TCPAddr).Port
		free := port+n < 65535
		for i := 1; i < n && free; i++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i)) //nolint:noctx // local
			free = err == nil
			if free {
				require.NoError(t, l.Close())
			}
		}
		require.NoError(t, first.Close())
		if free {
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

func TestFaultsAreSentAndLoggedAlike(t *testing.T) {
	endpoint := abstract(t)
	subscribers := subscribe(t, endpoint, 1, nil)
	summary, log := fpmgen(t, "--endpoint", endpoint, "--bench", "--no-drop", "--count", "3000", "--wait-subscribers", "1",
		"--linger", "500ms", "--drop-percent", "5", "--malformed-percent", "10", "--restart-every", "1000",
		"--new-worker-id-on-restart", "--end-marker", "2")
	require.Len(t, log, 3002)
	kinds, reasons := map[string]int{}, map[string]int{}
	for i, e := range log[:3000] {
		require.Equal(t, uint64(i%1000), e.Sequence)
		require.Equal(t, []string{"4192", "4192-1", "4192-2"}[i/1000], e.WorkerID)
		kinds[e.Kind]++
		if e.Kind == kindMalformed {
			reasons[e.Reason]++
		}
	}
	require.InDelta(t, 150, kinds[kindDropped], 60)
	require.InDelta(t, 285, kinds[kindMalformed], 90)
	require.Len(t, reasons, len(damages))
	require.Contains(t, summary, fmt.Sprintf("malformed=%d end=2 dropped=%d missed=0 restarts=2", kinds[kindMalformed], kinds[kindDropped]))

	sent := sentBy(log, 0)
	markers := len(sent) - 2
	require.Eventually(t, func() bool { return len(subscribers[0].received()) == len(sent) }, 30*time.Second, time.Millisecond)
	for _, frames := range subscribers[0].received()[markers:] {
		require.Equal(t, bytes.Repeat([]byte{0xff}, 8), frames[1])
		_, _, err := fpm.ParseFrames(frames)
		require.ErrorIs(t, err, fpm.ReasonBadSequenceFrame)
	}
	subscribers[0].messages = subscribers[0].messages[:markers]
	requireReceived(t, subscribers[0], sent[:markers])
}

// TestEachDamageHasItsReason breaks many payloads in every way, so that also
// the random cuts are judged as said.
func TestEachDamageHasItsReason(t *testing.T) {
	o := parse(t, "--malformed-percent", "100")
	f := newFaults(o, 0)
	e := newTestRank(t, o)
	seen := map[fpm.Reason]bool{}
	for range 200 * len(damages) {
		pass := e.engine.Step().Pass
		e.message.set(9, &pass, false)
		reason := f.breakMessage(&e.message, &pass)
		seen[reason] = true
		require.ErrorIs(t, judge(e.message.frames(), fpm.Decoder{}), reason)
	}
	require.Len(t, seen, len(damages))
	require.Len(t, seen, len(fpm.Reasons())-1, "all but oversize")
}

func judge(frames [][]byte, decoder fpm.Decoder) error {
	sequence, payload, err := fpm.ParseFrames(frames)
	if err != nil {
		return err
	}
	var pass fpm.ForwardPass
	return decoder.Decode(payload, sequence, &pass)
}

func parse(t *testing.T, args ...string) *options {
	t.Helper()
	o, err := parseOptions(args, &bytes.Buffer{})
	require.NoError(t, err)
	return o
}

// newTestRank is a rank without a socket.
func newTestRank(t *testing.T, o *options) *rank {
	t.Helper()
	r := &rank{opts: o, endpoint: o.endpoints[0]}
	require.NoError(t, r.startEngine())
	return r
}

// TestLegacyPayloads is STR-79 and STR-80.
func TestLegacyPayloads(t *testing.T) {
	r := newTestRank(t, parse(t, "--legacy"))
	for i := range 2000 {
		pass := r.engine.Step().Pass
		pass.CounterID = int64(i * i * i * i) // all widths
		r.message.set(uint64(i), &pass, true)
		require.ErrorIs(t, judge(r.message.frames(), fpm.Decoder{}), fpm.ReasonMissingField)

		decoder := fpm.Decoder{AcceptLegacy: true}
		var decoded fpm.ForwardPass
		require.NoError(t, decoder.Decode(r.message.payload, uint64(i), &decoded))
		require.True(t, decoded.Legacy)
		require.Equal(t, int64(i), decoded.CounterID)
		require.Equal(t, pass.Scheduled, decoded.Scheduled)
		require.Equal(t, pass.Queued, decoded.Queued)
	}
}

// TestSeedFixesThePayloads runs twice; faults change no other record.
func TestSeedFixesThePayloads(t *testing.T) {
	hashes := func(args ...string) map[uint64]string {
		args = append(args, "--endpoint", abstract(t), "--bench", "--count", "800")
		_, log := fpmgen(t, args...)
		sums := map[uint64]string{}
		for _, e := range log {
			if e.Kind != kindMalformed {
				sums[e.Sequence] = e.SHA256
			}
		}
		return sums
	}
	plain := hashes()
	require.Len(t, plain, 800)
	require.Equal(t, plain, hashes())
	require.NotEqual(t, plain, hashes("--seed", "2"))

	faulty := hashes("--malformed-percent", "20", "--drop-percent", "20")
	require.Less(t, len(faulty), 700)
	for sequence, sum := range faulty {
		require.Equal(t, plain[sequence], sum)
	}
}

// TestFullQueueDropsAreCounted has a subscriber that reads nothing until all is
// sent: the queue is small, what it cannot hold is a gap (ZMQ-66).
func TestFullQueueDropsAreCounted(t *testing.T) {
	endpoint := abstract(t)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	subscribers := subscribe(t, endpoint, 1, gate)
	time.AfterFunc(200*time.Millisecond, open)
	summary, log := fpmgen(t, "--endpoint", endpoint, "--bench", "--count", "5000", "--high-water-mark", "10",
		"--wait-subscribers", "1", "--linger", "1s")
	missed := 0
	for _, e := range log {
		missed += int(e.Missed)
		require.Equal(t, 1, e.Subscribers)
	}
	require.Positive(t, missed)
	require.Contains(t, summary, fmt.Sprintf("missed=%d", missed))
	require.Eventually(t, func() bool { return len(subscribers[0].received())+missed == len(log) }, 30*time.Second, time.Millisecond)
}

func TestStopIsCleanAndSumsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	var out, errOut bytes.Buffer
	require.Equal(t, exitOK, run(ctx, []string{"--endpoint", abstract(t), "--speed", "100"}, &out, &errOut), errOut.String())
	require.Regexp(t, `^fpmgen: sent \d+ messages, \d+ payload bytes, on 1 ranks in .*s \(\d+/s\): pass=\d+ `, out.String())
	require.Empty(t, errOut.String())
}

func TestDurationEndsTheRun(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"--endpoint", abstract(t), "--duration", "50ms"}, &out, &errOut), errOut.String())
	require.Contains(t, out.String(), "fpmgen: sent ")
}

func TestStopWhileWaitingForSubscribersIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	require.Equal(t, exitFailed, run(ctx, []string{"--endpoint", abstract(t), "--wait-subscribers", "3"}, &out, &errOut))
	require.Contains(t, errOut.String(), "stopped while waiting for 3 subscribers")
}

func TestAddressInUseIsAnErrorThatNamesIt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	var out, errOut bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"--endpoint", listener.Addr().String()}, &out, &errOut))
	require.Contains(t, errOut.String(), "cannot bind tcp://"+listener.Addr().String())
	require.Empty(t, out.String())
}

// TestDeadSocketFileIsReplaced as libzmq does it; a live one and other files stay.
func TestDeadSocketFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fpm")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	removeStale(path)
	require.FileExists(t, path)
	listener.SetUnlinkOnClose(false)
	require.NoError(t, listener.Close())
	require.FileExists(t, path)

	var out, errOut bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"--endpoint", "ipc://" + path, "--bench", "--count", "1"}, &out, &errOut), errOut.String())

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	removeStale(path)
	require.FileExists(t, path)
}

func TestFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"--ranks 0":                            "--ranks is 0",
		"--speed 0":                            "--speed is 0",
		"--speed NaN":                          "--speed is NaN",
		"--passes-per-second -1":               "--passes-per-second is -1",
		"--high-water-mark 0":                  "--high-water-mark is 0",
		"--duration -1s":                       "--duration is -1s",
		"--linger -1s":                         "--linger is -1s",
		"--wait-subscribers -1":                "--wait-subscribers is -1",
		"--end-marker -1":                      "--end-marker is -1",
		"--start-sequence 9223372036854775808": "--start-sequence is 9223372036854775808",
		"--drop-percent 101":                   "--drop-percent is 101",
		"--malformed-percent -1":               "--malformed-percent is -1",
		"--malformed-percent NaN":              "--malformed-percent is NaN",
		"--new-worker-id-on-restart":           "needs --restart-every",
		"--log-payload":                        "needs --log-file",
		"--bench --speed 2":                    "--bench and --speed",
		"--rate -3":                            "request rate -3",
		"--idle-for 5s":                        "idle for 5s does not fit into idle every 0s",
		"--endpoint http://x:1":                `endpoint "http://x:1"`,
		"--endpoint tcp://h:65535 --ranks 2":   "2 ranks",
		"--nope":                               "-nope",
		"--ranks two":                          "two",
		"now":                                  `unexpected argument "now"`,
		"--log-file /nonexistent/dir/x":        "--log-file",
	} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), strings.Fields(args), &out, &errOut)
		require.Contains(t, []int{exitUsage, exitFailed}, code, args)
		require.Contains(t, errOut.String(), want, args)
		require.Equal(t, 1, strings.Count(errOut.String(), "\n"), "one line: %s", errOut.String())
		require.Empty(t, out.String())
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"--help"}, &out, &errOut))
	require.Empty(t, errOut.String())
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, name := range []string{
		"endpoint", "ranks", "rate", "speed", "passes-per-second", "duration", "count", "worker-id", "start-sequence", "seed",
		"bench", "drop-percent", "restart-every", "new-worker-id-on-restart", "malformed-percent", "legacy",
		"heartbeat-interval", "idle-every", "idle-for", "log-file", "log-payload", "wait-subscribers", "no-drop", "high-water-mark",
		"kv-tokens", "token-budget", "prompt-tokens", "output-tokens", "timing-scope", "linger", "end-marker",
	} {
		require.Contains(t, out.String(), "  --"+name)
		require.Contains(t, string(readme), "`--"+name)
	}
	require.NotContains(t, out.String(), "\t")
}

func TestSequenceMayStartAtTheEnd(t *testing.T) {
	r := newTestRank(t, parse(t, "--start-sequence", strconv.FormatUint(math.MaxInt64, 10)))
	pass := r.engine.Step().Pass
	pass.CounterID = math.MaxInt64
	r.message.set(math.MaxInt64, &pass, false)
	require.NoError(t, judge(r.message.frames(), fpm.Decoder{}))
}
