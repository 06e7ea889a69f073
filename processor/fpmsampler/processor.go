// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadata"
)

// sampler is the mode sampled of either signal. Every pipeline has its own
// (SMP-22).
type sampler[T item[T]] struct {
	state    *state[T]
	emitter  *emitter[T]
	recorder recorder
	logger   *zap.Logger
	complain rate.Sometimes // about max_keys
}

func newSampler[T item[T]](
	set processor.Settings, cfg *Config, newItem func() T, send func(context.Context, []outgoing[T]) error,
) (*sampler[T], error) {
	r, err := newRecorder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	s := newState(cfg, newItem)
	return &sampler[T]{
		state:    s,
		emitter:  newEmitter(s, r, set.Logger, send),
		recorder: r,
		logger:   set.Logger,
		complain: rate.Sometimes{First: 1, Interval: logEvery},
	}, nil
}

// Start starts the ticks. The first one comes a whole interval later (SMP-9).
func (s *sampler[T]) Start(context.Context, component.Host) error {
	s.emitter.start() //nolint:contextcheck // the context of Start ends with it (COL-49)
	return nil
}

// Shutdown sends every pending forward pass (SMP-15) within the deadline of ctx.
func (s *sampler[T]) Shutdown(ctx context.Context) error {
	defer s.recorder.builder.Shutdown()
	return s.emitter.shutdown(ctx)
}

// Capabilities: what arrives is only read, and what is kept is copied.
func (*sampler[T]) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: false}
}

// ingest takes in one arriving batch; see state.ingest.
func (s *sampler[T]) ingest(ctx context.Context, walk func(in *intake[T])) {
	t := s.state.ingest(time.Now(), walk)
	s.recorder.record(ctx, t)
	if t.droppedMaxKeys > 0 {
		s.complain.Do(func() {
			s.logger.Warn("Forward passes of new keys are dropped: every key that the sampler can hold has one pending. Similar drops are counted but not logged for a minute",
				zap.Int("max_keys", maxKeys), zap.Int64("records", t.droppedMaxKeys))
		})
	}
}

// passer is the mode full of either signal: it keeps no state (SMP-17).
type passer struct {
	component.StartFunc
	recorder recorder
}

// Shutdown has nothing to send.
func (p passer) Shutdown(context.Context) error {
	p.recorder.builder.Shutdown()
	return nil
}

// Capabilities: the capture mode is stamped in place.
func (passer) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// passed counts n forward passes that went on at once. An error goes back to the
// sender, who may repeat them: nothing is dropped here.
func (p passer) passed(ctx context.Context, n int64, err error) error {
	t := tally{in: n}
	if err == nil {
		t.out = n
	}
	p.recorder.record(ctx, t)
	return err
}

func newRecorder(set component.TelemetrySettings) (recorder, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return recorder{}, err
	}
	r := recorder{builder: builder}
	r.countZeros()
	return r, nil
}
