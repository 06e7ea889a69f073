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

// staleAfter is how long a stream may be silent and still count as live
// (STR-98, STR-102).
const staleAfter = time.Minute

// maxSweepInterval bounds how late a silent stream is forgotten.
const maxSweepInterval = 10 * time.Second

// fpmReceiver is the one running receiver behind the pipelines of all signals
// (COL-55).
type fpmReceiver struct {
	cfg      *Config
	settings receiver.Settings
	nextLogs consumer.Logs
	retry    time.Duration // first wait after a transient error

	obs       *receiverhelper.ObsReport
	telemetry *metadata.TelemetryBuilder

	// Of a run, from Start to Shutdown.
	registry   *stream.Registry
	subscriber *zmtp.Subscriber
	publishers []*publisher
	logs       *logsSignal
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
	telemetry, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &fpmReceiver{cfg: cfg, settings: settings, retry: initialRetry, obs: obs, telemetry: telemetry}, nil
}

// Start returns at once, with every endpoint still to be connected (ZMQ-45).
func (r *fpmReceiver) Start(_ context.Context, host component.Host) error {
	targets, err := r.cfg.targets()
	if err != nil {
		return err
	}
	r.registry = stream.NewRegistry(stream.Config{
		StaleAfter: staleAfter, ForgetAfter: r.cfg.ForgetAfter, MaxStreams: r.cfg.MaxStreams,
	})
	if r.nextLogs != nil {
		r.logs = newLogsSignal(r.cfg, r.nextLogs, r.obs, r.settings.BuildInfo.Version)
		r.logs.delivery.initialRetry = r.retry
		r.running.Go(r.logs.delivery.run)
	}
	if err = r.addPublishers(targets, host); err != nil {
		return err
	}
	if err = r.observeTelemetry(); err != nil {
		return err
	}
	r.startSweep()     //nolint:contextcheck // lives until Shutdown (COL-49)
	return r.connect() //nolint:contextcheck // as above
}

func (r *fpmReceiver) addPublishers(targets []target, host component.Host) error {
	names := make([]string, 0, len(targets))
	for i := range targets {
		names = append(names, targets[i].endpoint.String())
	}
	health := newHealth(host, names)
	for i := range targets {
		p := &publisher{
			target:  targets[i],
			name:    names[i],
			health:  health,
			reports: newReports(r.settings.Logger),
			counts:  newCounts(),
			decoder: fpm.Decoder{MaxSize: int(r.cfg.MaxMessageSize), AcceptLegacy: r.cfg.AcceptLegacy},
		}
		p.serverAddress, p.serverPort = p.endpoint.Server()
		var err error
		if p.account, err = r.registry.Add(p.name); err != nil {
			return err
		}
		if r.logs != nil {
			p.logs = r.logs.newSource()
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

// startSweep forgets silent streams also when nothing arrives (STR-99).
func (r *fpmReceiver) startSweep() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stopSweep = cancel
	r.running.Go(func() {
		ticker := time.NewTicker(min(maxSweepInterval, r.cfg.ForgetAfter))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				r.registry.Sweep(now)
			}
		}
	})
}

// Shutdown stops reading, hands on what was received and waits, within the
// deadline of ctx. It is safe without Start and when called twice (COL-50).
func (r *fpmReceiver) Shutdown(ctx context.Context) error {
	r.shutdown.Do(func() { r.stopErr = r.stop(ctx) })
	return r.stopErr
}

func (r *fpmReceiver) stop(ctx context.Context) (err error) {
	defer r.telemetry.Shutdown()
	if r.subscriber != nil {
		err = errors.Join(err, r.subscriber.Close(ctx))
	}
	if r.stopSweep != nil {
		r.stopSweep()
	}
	if r.logs != nil {
		if drainErr := r.logs.delivery.shutdown(ctx); drainErr != nil {
			return errors.Join(err, drainErr)
		}
	}
	r.running.Wait()
	return err
}
