// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/stream"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/receiver/fpmreceiver/internal/metadata"
)

// dataFormat is the name of the payload's encoding in the receiver's reports.
const dataFormat = "msgpack"

// sweepInterval bounds how late a window of traces is closed and a silent stream
// forgotten when nothing arrives.
const sweepInterval = time.Second

// fpmReceiver is the one running receiver behind the pipelines of all signals
// (COL-55).
type fpmReceiver struct {
	cfg         *Config
	settings    receiver.Settings
	nextLogs    consumer.Logs // nil: no pipeline; likewise the others (COL-57)
	nextTraces  consumer.Traces
	nextMetrics consumer.Metrics
	retry       time.Duration // first wait after a transient error

	obs      *receiverhelper.ObsReport
	counters *metadata.TelemetryBuilder // outlive the run
	gauges   *metadata.TelemetryBuilder // end with it

	// Of a run, from Start to Shutdown.
	registry   *stream.Registry
	subscriber *zmtp.Subscriber
	publishers []*publisher
	logs       *logsSignal
	traces     *tracesSignal
	metrics    *metricsSignal
	stopSweep  context.CancelFunc
	running    sync.WaitGroup
	shutdown   sync.Once
	stopErr    error
}

func newReceiver(cfg *Config, settings receiver.Settings) (*fpmReceiver, error) {
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID:             settings.ID,
		Transport:              "zmq",
		LongLivedCtx:           true,
		ReceiverCreateSettings: settings,
	})
	if err != nil {
		return nil, err
	}
	counters, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	gauges, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &fpmReceiver{cfg: cfg, settings: settings, retry: initialRetry, obs: obs, counters: counters, gauges: gauges}, nil
}

// Start returns at once, with every endpoint still to be connected (ZMQ-45).
func (r *fpmReceiver) Start(_ context.Context, host component.Host) error {
	targets, err := r.cfg.targets()
	if err != nil {
		return err
	}
	r.registry = stream.NewRegistry(stream.Config{
		StaleAfter: r.cfg.Metrics.StaleAfter, ForgetAfter: r.cfg.ForgetAfter, MaxStreams: r.cfg.MaxStreams,
		OnForget: forget,
	})
	r.createSignals()
	if err = r.addPublishers(targets, host); err != nil {
		return err
	}
	if err = errors.Join(r.observeCounters(), r.observeGauges()); err != nil {
		return err
	}
	r.startSignals()
	r.startSweep()     //nolint:contextcheck // lives until Shutdown (COL-49)
	return r.connect() //nolint:contextcheck // as above
}

// createSignals makes the signals that have a consumer.
func (r *fpmReceiver) createSignals() {
	if r.nextLogs != nil {
		r.logs = newLogsSignal(r)
	}
	if r.nextTraces != nil {
		r.traces = newTracesSignal(r)
	}
	if r.nextMetrics != nil {
		r.metrics = newMetricsSignal(r)
	}
}

func (r *fpmReceiver) startSignals() {
	if r.logs != nil {
		r.running.Go(r.logs.delivery.run)
	}
	if r.traces != nil {
		r.running.Go(r.traces.delivery.run)
	}
	if r.metrics != nil {
		r.running.Go(r.metrics.run)
	}
}

func (r *fpmReceiver) addPublishers(targets []target, host component.Host) error {
	names := make([]string, 0, len(targets))
	for i := range targets {
		names = append(names, targets[i].endpoint.String())
	}
	health := newHealth(host, names)
	for i := range targets {
		counts := newCounts(names[i])
		p := &publisher{
			target:  targets[i],
			name:    names[i],
			health:  health,
			reports: newReports(r.settings.Logger),
			counts:  counts,
			logs:    r.logs.newSource(counts),
			traces:  r.traces.newSource(counts),
			metrics: r.metrics,
			decoder: fpm.Decoder{MaxSize: int(r.cfg.MaxMessageSize), AcceptLegacy: r.cfg.AcceptLegacy},
		}
		p.serverAddress, p.serverPort = p.endpoint.Server()
		var err error
		if p.account, err = r.registry.Add(p.name); err != nil {
			return err
		}
		r.publishers = append(r.publishers, p)
	}
	return nil
}

func (r *fpmReceiver) connect() error {
	r.subscriber = zmtp.NewSubscriber(zmtp.Config{
		DialTimeout:      r.cfg.Connection.DialTimeout,
		HandshakeTimeout: r.cfg.Connection.HandshakeTimeout,
		IdleTimeout:      r.cfg.Connection.IdleTimeout,
		InitialBackoff:   r.cfg.Connection.InitialBackoff,
		MaxBackoff:       r.cfg.Connection.MaxBackoff,
		MaxMessageSize:   int64(r.cfg.MaxMessageSize),
	})
	for _, p := range r.publishers {
		if err := r.subscriber.Add(p.endpoint, p); err != nil {
			return err
		}
	}
	return nil
}

// startSweep forgets silent streams and closes windows also when nothing arrives
// (STR-99).
func (r *fpmReceiver) startSweep() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stopSweep = cancel
	r.running.Go(func() {
		ticker := time.NewTicker(sweepInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				r.registry.Sweep(now)
				r.closeWindows(now, false)
			}
		}
	})
}

func (r *fpmReceiver) closeWindows(now time.Time, all bool) {
	for _, p := range r.publishers {
		p.traces.closeWindows(p, now, all)
	}
}

// Shutdown stops reading, hands on what was received and waits, within the
// deadline of ctx. It is safe without Start and when called twice (COL-50).
func (r *fpmReceiver) Shutdown(ctx context.Context) error {
	r.shutdown.Do(func() { r.stopErr = r.stop(ctx) })
	return r.stopErr
}

func (r *fpmReceiver) stop(ctx context.Context) (err error) {
	defer r.gauges.Shutdown()
	if r.subscriber != nil {
		err = errors.Join(err, r.subscriber.Close(ctx))
	}
	if r.stopSweep != nil {
		r.stopSweep()
	}
	r.closeWindows(time.Now(), true)
	if drainErr := r.drain(ctx); drainErr != nil {
		return errors.Join(err, drainErr)
	}
	r.running.Wait()
	return err
}

// drain hands on what the signals still hold, all at the same time.
func (r *fpmReceiver) drain(ctx context.Context) error {
	var signals []func(context.Context) error
	if r.logs != nil {
		signals = append(signals, r.logs.delivery.shutdown)
	}
	if r.traces != nil {
		signals = append(signals, r.traces.delivery.shutdown)
	}
	if r.metrics != nil {
		signals = append(signals, r.metrics.shutdown)
	}
	failed := make([]error, len(signals))
	var draining sync.WaitGroup
	for i, shutdown := range signals {
		draining.Go(func() { failed[i] = shutdown(ctx) })
	}
	draining.Wait()
	return errors.Join(failed...)
}
