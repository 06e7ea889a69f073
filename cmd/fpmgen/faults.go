// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// faults decides which records of a rank go wrong. Its random numbers are not
// those of the engine: faults change no payload of the other records.
type faults struct {
	random    *rand.Rand
	drop      float64 // 0..1
	malformed float64 // 0..1
	broken    int     // malformed records so far
}

func newFaults(o *options, rank int) *faults {
	return &faults{
		random:    rand.New(rand.NewPCG(o.seed, uint64(rank))), //nolint:gosec // a simulation; rank is not negative
		drop:      o.dropPercent / 100,
		malformed: o.malformedPercent / 100,
	}
}

func (f *faults) drops() bool  { return f.drop > 0 && f.random.Float64() < f.drop }
func (f *faults) breaks() bool { return f.malformed > 0 && f.random.Float64() < f.malformed }

// breakMessage damages a good message in the next of the ways and returns the
// reason for which a receiver must refuse it.
func (f *faults) breakMessage(m *message, pass *fpm.ForwardPass) fpm.Reason {
	way := damages[f.broken%len(damages)]
	f.broken++
	way.damage(m, pass, f.random)
	return way.reason
}

// damages are the ways to break a message but for "oversize", which ends the
// connection.
var damages = []struct {
	reason fpm.Reason
	damage func(*message, *fpm.ForwardPass, *rand.Rand)
}{
	{fpm.ReasonTruncated, func(m *message, _ *fpm.ForwardPass, random *rand.Rand) {
		m.payload = m.payload[:random.IntN(len(m.payload))]
	}},
	{fpm.ReasonTrailingBytes, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendNil(m.payload)
	}},
	{fpm.ReasonOutOfRange, func(m *message, pass *fpm.ForwardPass, _ *rand.Rand) {
		bad := *pass
		bad.WallTime = -1
		m.payload = fpm.AppendPayload(m.payload[:0], &bad)
	}},
	{fpm.ReasonInvalidUTF8, func(m *message, pass *fpm.ForwardPass, _ *rand.Rand) {
		bad := *pass
		bad.WorkerID = []byte{0xff, 0xfe}
		m.payload = fpm.AppendPayload(m.payload[:0], &bad)
	}},
	{fpm.ReasonUnsupportedVersion, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendInt(fpm.AppendString(fpm.AppendMapHeader(m.payload[:0], 1), "version"), 2)
	}},
	{fpm.ReasonMissingField, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendMapHeader(m.payload[:0], 0)
	}},
	{fpm.ReasonWrongType, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendNil(fpm.AppendString(fpm.AppendMapHeader(m.payload[:0], 1), "version"))
	}},
	{fpm.ReasonBadKey, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendInt(fpm.AppendInt(fpm.AppendMapHeader(m.payload[:0], 1), 1), 1)
	}},
	{fpm.ReasonNotAMap, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendArrayHeader(m.payload[:0], 0)
	}},
	{fpm.ReasonTooDeep, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.payload = fpm.AppendString(fpm.AppendMapHeader(m.payload[:0], 1), "nested")
		for range 20 {
			m.payload = fpm.AppendArrayHeader(m.payload, 1)
		}
	}},
	{fpm.ReasonBadSequenceFrame, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.sequence = m.sequence[:7]
	}},
	{fpm.ReasonBadFrameCount, func(m *message, _ *fpm.ForwardPass, _ *rand.Rand) {
		m.noTopic = true
	}},
}

// lifeWorkerID is the worker_id of a rank's engine after its n-th restart.
func (o *options) lifeWorkerID(restarts uint64) string {
	if restarts == 0 || !o.newWorkerID {
		return o.workerID
	}
	return fmt.Sprintf("%s-%d", o.workerID, restarts)
}
