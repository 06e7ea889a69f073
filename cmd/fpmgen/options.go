// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/engine"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

// options are the command line.
type options struct {
	endpoint string
	ranks    int
	workerID string
	seed     uint64

	rate            float64
	speed           float64
	passesPerSecond float64
	bench           bool
	noDrop          bool
	highWaterMark   int

	duration        time.Duration
	count           uint64
	startSequence   uint64
	waitSubscribers int
	linger          time.Duration
	endMarker       int

	promptTokens, outputTokens float64
	tokenBudget, kvTokens      int64
	heartbeatInterval          time.Duration
	idleEvery, idleFor         time.Duration
	timingScope                string

	dropPercent      float64
	malformedPercent float64
	restartEvery     uint64
	newWorkerID      bool
	legacy           bool

	logFile    string
	logPayload bool

	endpoints []zmtp.Endpoint // one for each rank
}

// parseOptions reads the command line. With flag.ErrHelp, help was asked for and
// went to out.
func parseOptions(args []string, out io.Writer) (*options, error) {
	o := &options{}
	flags := o.flagSet()
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printHelp(flags, out)
		}
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: everything is a flag, see --help", flags.Arg(0))
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return o, o.expandEndpoint()
}

func (o *options) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet("fpmgen", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are returned, and printed once
	f.Usage = func() {}

	f.StringVar(&o.endpoint, "endpoint", "tcp://127.0.0.1:20380", "`address` of rank 0: tcp://host:port (rank r binds port + r), ipc:///path or ipc://@name (suffix .r when there are several ranks); tcp://*:port binds all interfaces")
	f.IntVar(&o.ranks, "ranks", 1, "number of data-parallel `ranks`, each with its own engine and socket")
	f.StringVar(&o.workerID, "worker-id", "4192", "worker_id of every record")
	f.Uint64Var(&o.seed, "seed", 1, "`number` that selects the simulation: equal seeds and flags give equal payload bytes")

	f.Float64Var(&o.rate, "rate", 4, "mean `requests/s` that arrive at a rank, by the engine's clock")
	f.Float64Var(&o.speed, "speed", 1, "engine seconds a second: `10` replays ten times as fast as the engine would run")
	f.Float64Var(&o.passesPerSecond, "passes-per-second", 0, "exact `records/s` of a rank, whatever the engine's clock says (0: by the engine's clock)")
	f.BoolVar(&o.bench, "bench", false, "as fast as possible, or exactly at --passes-per-second")
	f.BoolVar(&o.noDrop, "no-drop", false, "wait for a subscriber whose queue is full; without it the message is dropped for that subscriber, as engines do")
	f.IntVar(&o.highWaterMark, "high-water-mark", 1000, "`messages` queued for a subscriber at most; libzmq's default")

	f.DurationVar(&o.duration, "duration", 0, "stop after this `time` (0: not)")
	f.Uint64Var(&o.count, "count", 0, "stop a rank after this many `records`, those of --drop-percent included (0: not)")
	f.Uint64Var(&o.startSequence, "start-sequence", 0, "first `sequence` and counter_id")
	f.IntVar(&o.waitSubscribers, "wait-subscribers", 0, "start only when each rank has this `number` of subscribers")
	f.DurationVar(&o.linger, "linger", time.Second, "`time` that queued messages get to leave when the generator stops")
	f.IntVar(&o.endMarker, "end-marker", 0, "send sequence 2^64-1 this many `times` at the end, so that a receiver that lost messages still learns of it (counted there as bad_sequence_frame)")

	f.Float64Var(&o.promptTokens, "prompt-tokens", 700, "median prompt length in `tokens` (lognormal, sigma 1)")
	f.Float64Var(&o.outputTokens, "output-tokens", 180, "median output length in `tokens` (lognormal, sigma 0.8)")
	f.Int64Var(&o.tokenBudget, "token-budget", 2048, "`tokens` that a pass computes at most; longer prefills are chunked")
	f.Int64Var(&o.kvTokens, "kv-tokens", 131072, "size of the KV cache in `tokens`; small values give preemptions")
	f.DurationVar(&o.heartbeatInterval, "heartbeat-interval", time.Second, "silence after which a heartbeat is sent, by the engine's clock")
	f.DurationVar(&o.idleEvery, "idle-every", 0, "period of idle phases, by the engine's clock (0: none)")
	f.DurationVar(&o.idleFor, "idle-for", 0, "length of an idle phase: no requests arrive, heartbeats follow")
	f.StringVar(&o.timingScope, "timing-scope", "", "timing_scope of every record, as native vLLM sends it (empty: none)")

	f.Float64Var(&o.dropPercent, "drop-percent", 0, "`percent` of the records that get a sequence but are not sent: gaps")
	f.Float64Var(&o.malformedPercent, "malformed-percent", 0, "`percent` of the records that are sent broken, in twelve ways in turn")
	f.Uint64Var(&o.restartEvery, "restart-every", 0, "restart the engine of a rank after this many `records`: the socket closes and binds again, the sequence returns to 0")
	f.BoolVar(&o.newWorkerID, "new-worker-id-on-restart", false, "a restarted engine gets a new worker_id: the old one, a dash and the number of the restart")
	f.BoolVar(&o.legacy, "legacy", false, "payloads of the first SGLang release: neither version nor counter_id")

	f.StringVar(&o.logFile, "log-file", "", "`file` for one JSON line for each record: what was sent, what was not, and why")
	f.BoolVar(&o.logPayload, "log-payload", false, "the log holds whole payloads in hex besides their SHA-256")
	return f
}

func (o *options) validate() error {
	switch {
	case o.ranks < 1 || o.ranks > 65535:
		return flagError("ranks", o.ranks, "give 1 to 65535")
	case !(o.speed > 0) || math.IsInf(o.speed, 1):
		return flagError("speed", o.speed, "give a number above 0")
	case !(o.passesPerSecond >= 0) || o.passesPerSecond > 1e9:
		return flagError("passes-per-second", o.passesPerSecond, "give 0 to 1e9")
	case o.highWaterMark < 1:
		return flagError("high-water-mark", o.highWaterMark, "give at least 1")
	case o.duration < 0:
		return flagError("duration", o.duration, "give 0 or more")
	case o.linger < 0:
		return flagError("linger", o.linger, "give 0 or more")
	case o.waitSubscribers < 0:
		return flagError("wait-subscribers", o.waitSubscribers, "give 0 or more")
	case o.endMarker < 0:
		return flagError("end-marker", o.endMarker, "give 0 or more")
	case o.startSequence > math.MaxInt64:
		return flagError("start-sequence", o.startSequence, "give 0 to 2^63-1")
	case !isPercent(o.dropPercent):
		return flagError("drop-percent", o.dropPercent, "give 0 to 100")
	case !isPercent(o.malformedPercent):
		return flagError("malformed-percent", o.malformedPercent, "give 0 to 100")
	case o.newWorkerID && o.restartEvery == 0:
		return errors.New("--new-worker-id-on-restart needs --restart-every")
	case o.logPayload && o.logFile == "":
		return errors.New("--log-payload needs --log-file")
	case o.bench && o.speed != 1:
		return errors.New("--bench and --speed exclude each other: a benchmark has no engine's clock")
	}
	cfg := o.engineConfig(0, 0, o.workerID)
	return cfg.Validate()
}

func isPercent(v float64) bool { return v >= 0 && v <= 100 }

func flagError(name string, value any, advice string) error {
	return fmt.Errorf("--%s is %v: %s", name, value, advice)
}

// expandEndpoint gives each rank its address, as engines number them (STR-9, STR-13).
func (o *options) expandEndpoint() error {
	address := o.endpoint
	if rest, all := strings.CutPrefix(address, "tcp://*:"); all {
		address = "tcp://0.0.0.0:" + rest
	}
	base, err := zmtp.ParseEndpoint(address)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	o.endpoints, err = base.Expand(o.ranks)
	if err != nil {
		return fmt.Errorf("--endpoint with %d ranks: %w", o.ranks, err)
	}
	return nil
}

// engineConfig is the engine of a rank in its n-th life.
func (o *options) engineConfig(rank int64, life uint64, workerID string) engine.Config {
	cfg := engine.DefaultConfig()
	cfg.Seed, cfg.Rank, cfg.Incarnation = o.seed, rank, life
	cfg.WorkerID = workerID
	cfg.RequestRate = o.rate
	cfg.Prompt.Median, cfg.Output.Median = o.promptTokens, o.outputTokens
	cfg.TokenBudget, cfg.KVTokens = o.tokenBudget, o.kvTokens
	cfg.MaxContext = min(cfg.MaxContext, o.kvTokens)
	cfg.HeartbeatInterval = o.heartbeatInterval
	cfg.IdleEvery, cfg.IdleFor = o.idleEvery, o.idleFor
	return cfg
}
