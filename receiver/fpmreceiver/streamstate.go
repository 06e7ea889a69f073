// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/stream"
)

// streamState is what the receiver keeps with a stream.
type streamState struct {
	publisher *publisher
	worker    *fpmpdata.Worker
	workerID  string
	scopes    fpmpdata.TimingScopes
	metrics   *fpmpdata.StreamMetrics // nil: no pipeline, or no state
	traces    *fpmpdata.StreamTraces  // likewise
}

// stateOf gives the state of a record's stream. A record without state goes to
// the logs alone (STR-99).
func (p *publisher) stateOf(verdict *stream.Verdict, at time.Time) *streamState {
	if verdict.Stream == nil {
		workerID := string(p.pass.WorkerID)
		return &streamState{publisher: p, worker: p.worker(workerID, verdict.Identity), workerID: workerID}
	}
	state, ok := verdict.Stream.State.(*streamState)
	if !ok {
		state = p.newState(verdict, at)
		verdict.Stream.State = state
	} else if verdict.Returned {
		p.rename(state, p.worker(state.workerID, verdict.Identity))
	}
	if verdict.Restart {
		p.traces.forget(p, state) // no trace holds passes of two lives (FR-33)
	}
	return state
}

// rename gives a stream that returned from stale the identity that was decided
// anew.
func (p *publisher) rename(state *streamState, worker *fpmpdata.Worker) {
	if worker.Key() == state.worker.Key() {
		return
	}
	p.traces.forget(p, state) // an open window belongs to the old name
	state.worker = worker
	state.metrics = p.metrics.rename(state.metrics, worker)
}

func (p *publisher) newState(verdict *stream.Verdict, at time.Time) *streamState {
	key := verdict.Stream.Key()
	state := &streamState{publisher: p, workerID: key.WorkerID, worker: p.worker(key.WorkerID, verdict.Identity)}
	state.metrics = p.metrics.newStream(state.worker, key.DPRank, at)
	if p.traces != nil {
		state.traces = fpmpdata.NewStreamTraces(p.traces.signal.cfg, key, at)
	}
	return state
}

// forget ends what a stream without state leaves behind: its series and its
// open window.
func forget(s *stream.Stream) {
	state, ok := s.State.(*streamState)
	if !ok {
		return
	}
	state.publisher.metrics.forget(state.metrics)
	state.publisher.traces.forget(state.publisher, state)
}
