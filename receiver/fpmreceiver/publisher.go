// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"errors"
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
	p.logs.push(p, &verdict, sequence, m.ReceivedAt)
}

// workerOf gives the resource of a record's worker, kept with its stream.
func (p *publisher) workerOf(verdict *stream.Verdict) (worker *fpmpdata.Worker, workerID string) {
	if verdict.Stream == nil {
		workerID = string(p.pass.WorkerID)
		return p.worker(workerID, verdict.Identity), workerID
	}
	workerID = verdict.Stream.Key().WorkerID
	worker, ok := verdict.Stream.State.(*fpmpdata.Worker)
	if !ok || verdict.Returned {
		worker = p.worker(workerID, verdict.Identity)
		verdict.Stream.State = worker
	}
	return worker, workerID
}

func (p *publisher) warnOfIdentity(verdict *stream.Verdict) {
	if verdict.Overflow > 0 {
		p.reports.warn("stream_overflow", "More streams than max_streams: streams silent longest lose their loss state, or new ones get none", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name)}
		})
	}
	if !verdict.New && !verdict.Returned {
		return
	}
	if len(p.pass.WorkerID) == 0 {
		p.reports.warn("empty_worker_id", "The engine sends an empty worker_id: the endpoint stands for the worker. Set producer_id to name it", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name), zap.Int64("dp_rank", p.pass.DPRank)}
		})
	}
	if verdict.Shared {
		p.reports.warn("shared_worker_id", "Another live endpoint has the same worker_id and dp_rank: the endpoint stands for this worker", func() []zap.Field {
			return []zap.Field{zap.String("endpoint", p.name), zap.String("worker_id", excerpt(p.pass.WorkerID)), zap.Int64("dp_rank", p.pass.DPRank)}
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
	p.reports.warn("invalid_"+reason.String(), "Invalid message", func() []zap.Field {
		return []zap.Field{zap.String("endpoint", p.name), zap.String("reason", reason.String()), zap.Int("length", length)}
	})
}

// OnConnect implements zmtp.Handler.
func (p *publisher) OnConnect(uint64) { p.counts.connected.Add(1) }

// OnAttemptFailed implements zmtp.Handler.
func (p *publisher) OnAttemptFailed(err *zmtp.Error) { p.counts.failed[err.Reason].Add(1) }

// OnDisconnect implements zmtp.Handler. A message beyond max_message_size ends
// the connection; it was received all the same (STR-8, ZMQ-19).
func (p *publisher) OnDisconnect(err *zmtp.Error) {
	p.counts.disconnects[err.Reason].Add(1)
	if err.Reason == zmtp.ReasonTooLarge {
		p.counts.messages.Add(1)
		p.counts.invalid[fpm.ReasonOversize].Add(1)
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
	p.reports.warn("down_"+err.Reason.String(), "Endpoint down, trying on", func() []zap.Field {
		return []zap.Field{zap.String("endpoint", p.name), zap.String("reason", err.Reason.String()), zap.Error(err)}
	})
}

// OnIO implements zmtp.Handler.
func (p *publisher) OnIO(bytes, pings int) {
	p.counts.bytes.Add(int64(bytes))
	p.counts.pings.Add(int64(pings))
}

func frameBytes(frames [][]byte) (n int) {
	for _, frame := range frames {
		n += len(frame)
	}
	return n
}

// maxExcerpt bounds text of a peer in a log line (ZMQ-63); the logger escapes it.
const maxExcerpt = 255

func excerpt(text []byte) string { return string(text[:min(len(text), maxExcerpt)]) }

// logsSource is the publisher's way into the logs; nil when no pipeline wants
// them.
type logsSource struct {
	signal *logsSignal
	queue  queueSource
	drops  deliveryDrops
}

func (s *logsSource) push(p *publisher, verdict *stream.Verdict, sequence int64, receivedAt time.Time) {
	if s == nil || (s.signal.dropHeartbeats && p.pass.RecordKind() == fpm.RecordHeartbeat) {
		return
	}
	r := newRecord(&p.decoder, &p.pass, s.signal.asBytes)
	r.Worker, r.WorkerID = p.workerOf(verdict)
	r.Sequence, r.ReceivedAt = sequence, receivedAt
	r.ServerAddress, r.ServerPort = p.serverAddress, p.serverPort
	r.from = p
	s.queue.Push(r, int64(len(r.Payload)))
}
