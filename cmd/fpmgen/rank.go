// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/engine"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

// Kinds of a log entry beside the record kinds.
const (
	kindMalformed = "malformed"
	kindDropped   = "dropped"
	kindEnd       = "end"
)

// rank is one data-parallel rank: an engine and its PUB socket.
type rank struct {
	opts     *options
	number   int
	endpoint zmtp.Endpoint
	log      *sendLog

	socket   *zmtptest.Publisher
	engine   *engine.Engine
	faults   *faults
	pacer    *pacer
	message  message
	workerID string
	sequence uint64 // of the next record
	lives    uint64 // restarts so far
	inLife   uint64 // records since the last restart
	totals   totals
}

// newRank binds the socket; nothing is sent yet.
func newRank(o *options, number int, log *sendLog) (*rank, error) {
	r := &rank{
		opts:     o,
		number:   number,
		endpoint: o.endpoints[number],
		log:      log,
		faults:   newFaults(o, number),
		sequence: o.startSequence,
	}
	if err := r.startEngine(); err != nil {
		return nil, err
	}
	socket, err := bind(r.endpoint, o)
	r.socket = socket
	return r, err
}

func (r *rank) startEngine() (err error) {
	r.workerID = r.opts.lifeWorkerID(r.lives)
	r.engine, err = engine.New(r.opts.engineConfig(int64(r.number), r.lives, r.workerID))
	return err
}

// ready waits for the subscribers that the user wants.
func (r *rank) ready(ctx context.Context) error {
	return waitSubscribers(ctx, r.socket, r.opts.waitSubscribers)
}

// run publishes until the context ends or the rank's count is reached.
func (r *rank) run(ctx context.Context, start time.Time) error {
	r.pacer = newPacer(r.opts, start)
	defer r.pacer.stop()
	for n := uint64(0); r.opts.count == 0 || n < r.opts.count; n++ {
		if r.opts.restartEvery > 0 && r.inLife == r.opts.restartEvery {
			if err := r.restart(ctx); err != nil {
				return ignoreCanceled(err)
			}
		}
		record := r.engine.Step()
		if !r.pacer.wait(ctx, record.At) {
			return nil
		}
		if err := r.publish(&record.Pass); err != nil {
			return err
		}
	}
	return nil
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// restart is a new process of the engine: what waited is given time to leave, so
// that the log stays true, then all state is gone.
func (r *rank) restart(ctx context.Context) error {
	r.drain()
	if err := r.close(); err != nil {
		return err
	}
	socket, err := bind(r.endpoint, r.opts)
	if err != nil {
		return err
	}
	r.socket = socket
	r.lives++
	r.sequence, r.inLife = 0, 0
	r.totals.restarted()
	if err := r.startEngine(); err != nil {
		return err
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	r.pacer.restart()
	return nil
}

// publish numbers a record and sends it, unless a fault strikes.
func (r *rank) publish(pass *fpm.ForwardPass) error {
	pass.CounterID = int64(r.sequence) //nolint:gosec // starts at most at 2^63-1 and nobody counts that far
	if r.opts.timingScope != "" {
		pass.TimingScope = []byte(r.opts.timingScope)
	}
	r.message.set(r.sequence, pass, r.opts.legacy)
	e := entry{Sequence: r.sequence, Kind: pass.RecordKind().String()}
	r.sequence++
	r.inLife++

	drop := r.faults.drops()
	switch {
	case drop:
		e.Kind = kindDropped
	case r.faults.breaks():
		e.Kind, e.Reason = kindMalformed, r.faults.breakMessage(&r.message, pass).String()
	}
	return r.send(e, drop)
}

// send publishes the message, unless it is dropped, and logs what became of it.
func (r *rank) send(e entry, drop bool) error {
	r.totals.count(e.Kind, len(r.message.payload))
	if r.log == nil && drop {
		return nil
	}
	if r.log == nil {
		r.socket.Publish(r.message.frames()...)
		return nil
	}
	e.Rank, e.Endpoint, e.WorkerID = r.number, r.endpoint.String(), r.workerID
	e.Subscribers = r.socket.Subscribers()
	if !drop {
		before := r.socket.Dropped()
		r.socket.Publish(r.message.frames()...)
		e.Missed = r.socket.Dropped() - before
	}
	return r.log.write(&e, r.message.payload)
}

// finish sends the end markers and gives what waits time to leave.
func (r *rank) finish() error {
	const apart = 20 * time.Millisecond // a full queue must not swallow all of them
	for range r.opts.endMarker {
		r.message.set(math.MaxUint64, &fpm.ForwardPass{}, false)
		if err := r.send(entry{Sequence: math.MaxUint64, Kind: kindEnd}, false); err != nil {
			return err
		}
		time.Sleep(apart)
	}
	r.drain()
	return nil
}

// drain waits for the linger time, as Dynamo does before it closes (STR-27).
func (r *rank) drain() {
	if r.socket.Subscribers() > 0 {
		time.Sleep(r.opts.linger)
	}
}

// close ends the socket; what still waits there is lost.
func (r *rank) close() error {
	r.totals.retired(r.socket.Dropped())
	if err := r.socket.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", r.endpoint, err)
	}
	return nil
}
