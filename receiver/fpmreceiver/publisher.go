// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/stream"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

// publisher takes what one endpoint sends: it decodes, accounts for loss and
// hands on. The supervisor of the endpoint is the only caller of its methods.
type publisher struct {
	target
	name          string // the endpoint as it is shown
	serverAddress string
	serverPort    int

	account *stream.Endpoint
	health  *health
	reports *reports
	counts  *counts

	logs    *logsSource
	traces  *tracesSource
	metrics *metricsSignal // shared; nil when no pipeline wants them

	up         atomic.Bool
	lastRecord atomic.Int64 // Unix nanoseconds; 0: none yet

	decoder fpm.Decoder
	pass    fpm.ForwardPass
}

var _ zmtp.Handler = (*publisher)(nil)

// OnMessage gives every message its one outcome (STR-50).
func (p *publisher) OnMessage(m *zmtp.Message) {
	p.counts.messages.Add(1)
	sequence, payload, err := fpm.ParseFrames(m.Frames)
	if err != nil {
		p.invalid(err, frameBytes(m.Frames))
		return
	}
	if err = p.decoder.Decode(payload, sequence, &p.pass); err != nil {
		p.account.Invalid(int64(sequence)) //nolint:gosec // ParseFrames bounds it by 2^63-1 (STR-5)
		p.invalid(err, len(payload))
		return
	}
	p.record(m, int64(sequence), payload) //nolint:gosec // as above
}

// record hands on a valid record, unless it came before.
func (p *publisher) record(m *zmtp.Message, sequence int64, payload []byte) {
	verdict := p.account.Observe(stream.Arrival{
		WorkerID:   p.pass.WorkerID,
		DPRank:     p.pass.DPRank,
		CounterID:  p.pass.CounterID,
		Sequence:   sequence,
		Generation: m.Generation,
		Payload:    payload,
		ReceivedAt: m.ReceivedAt,
	})
	p.counts.verdict(&verdict)
	if verdict.Duplicate {
		return
	}
	p.counts.pass(&p.pass)
	p.warnOfIdentity(&verdict)
	p.lastRecord.Store(m.ReceivedAt.UnixNano())
	state := p.stateOf(&verdict, m.ReceivedAt)
	p.pass.TimingScope = state.scopes.Limit(p.pass.TimingScope) // the log's body keeps the payload's own
	if state.metrics != nil {
		state.metrics.Fold(&p.pass, verdict.Missing, m.ReceivedAt)
	}
	p.traces.push(p, state, m.ReceivedAt)
	p.logs.push(p, state, sequence, m.ReceivedAt)
}

func (p *publisher) warnOfIdentity(verdict *stream.Verdict) {
	if verdict.Overflow > 0 {
		p.reports.warn("stream_overflow", "No loss state for some streams: there are more than max_streams, so that those silent longest lose theirs or new ones get none, or a worker_id is longer than 1,024 bytes", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name)}
		})
	}
	if !verdict.New && !verdict.Returned {
		return
	}
	if len(p.pass.WorkerID) == 0 {
		p.reports.warn("empty_worker_id", "The engine sends an empty worker_id: its telemetry is named after the endpoint. Set producer_id to name its trace files", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name), zap.Int64("dp_rank", p.pass.DPRank)}
		})
	}
	if verdict.Shared {
		p.reports.warn("shared_worker_id", "Another live endpoint has the same worker_id and dp_rank: this one's telemetry is named after the endpoint", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name), zap.String("worker_id", zmtp.EscapePeerText(p.pass.WorkerID)), zap.Int64("dp_rank", p.pass.DPRank)}
		})
	}
}

// invalid counts a message that is no record, by its first fault (STR-51).
func (p *publisher) invalid(err error, length int) {
	var reason fpm.Reason
	if !errors.As(err, &reason) {
		return
	}
	p.counts.invalid[reason].Add(1)
	p.warnOfInvalid(reason, zap.Int("length", length))
}

func (p *publisher) warnOfInvalid(reason fpm.Reason, detail zap.Field) {
	p.reports.warn("invalid_"+reason.String(), "Invalid message", func() []zap.Field {
		return []zap.Field{zap.String("endpoint", p.name), zap.String("reason", reason.String()), detail}
	})
}

// OnConnect implements zmtp.Handler.
func (p *publisher) OnConnect(uint64) {
	p.up.Store(true)
	p.counts.connected.Add(1)
}

// OnAttemptFailed implements zmtp.Handler.
func (p *publisher) OnAttemptFailed(err *zmtp.Error) { p.counts.failed[err.Reason].Add(1) }

// OnDisconnect implements zmtp.Handler. A message beyond max_message_size ends
// the connection; it was received all the same (STR-8, ZMQ-19).
func (p *publisher) OnDisconnect(err *zmtp.Error) {
	p.up.Store(false)
	p.counts.disconnects[err.Reason].Add(1)
	if err.Reason == zmtp.ReasonTooLarge {
		p.counts.messages.Add(1)
		p.counts.invalid[fpm.ReasonOversize].Add(1)
		p.warnOfInvalid(fpm.ReasonOversize, zap.Error(err)) // which names the length
	}
}

// OnStatus implements zmtp.Handler.
func (p *publisher) OnStatus(up bool, err *zmtp.Error) {
	if up {
		p.health.setUp(p.name)
		p.reports.info("up", "Connected", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name)}
		})
		return
	}
	p.health.setDown(p.name, err)
	p.reports.warn("down_"+err.Reason.String(), "Endpoint down, retrying", func() []zap.Field {
		return []zap.Field{zap.String("endpoint", p.name), zap.String("reason", err.Reason.String()), zap.Error(err)}
	})
}

// OnIO implements zmtp.Handler.
func (p *publisher) OnIO(bytes, pings int) {
	p.counts.bytes.Add(int64(bytes))
	p.counts.pings.Add(int64(pings))
}

// state is what the metrics say of the endpoint.
func (p *publisher) state(start time.Time) *fpmpdata.EndpointState {
	state := &fpmpdata.EndpointState{
		Namespace: p.namespace, Component: p.component, InstanceID: p.instanceID(),
		ServerAddress: p.serverAddress, ServerPort: p.serverPort,
		Start: start, Up: p.up.Load(), Restarts: p.counts.restarts.Load(),
	}
	if last := p.lastRecord.Load(); last != 0 {
		state.LastRecord = time.Unix(0, last)
	}
	return state
}

// instanceID is host:port, or the path of an ipc endpoint.
func (p *publisher) instanceID() string {
	if p.serverPort == 0 {
		return p.serverAddress
	}
	return net.JoinHostPort(p.serverAddress, strconv.Itoa(p.serverPort))
}

func frameBytes(frames [][]byte) (n int) {
	for _, frame := range frames {
		n += len(frame)
	}
	return n
}
