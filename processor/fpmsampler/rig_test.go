// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadatatest"
)

// pass describes one forward pass for a test. Empty texts make no attribute.
type pass struct {
	namespace, component, producer, instance, worker string
	rank, counter                                    int64
}

// rank is a pass of the one worker that most tests need.
func rank(rank, counter int64) pass {
	return pass{namespace: "default", component: "backend", producer: "w0", instance: "w0", worker: "w0", rank: rank, counter: counter}
}

func (p pass) fillResource(attributes pcommon.Map) {
	putText(attributes, fpmpdata.AttrServiceNamespace, p.namespace)
	putText(attributes, fpmpdata.AttrServiceName, p.component)
	putText(attributes, fpmpdata.AttrServiceInstanceID, p.instance)
	putText(attributes, fpmpdata.AttrProducerID, p.producer)
}

func (p pass) fillItem(attributes pcommon.Map) {
	attributes.PutInt(fpmpdata.AttrDPRank, p.rank)
	attributes.PutInt(fpmpdata.AttrCounterID, p.counter)
}

func (p pass) appendTo(ld plog.Logs) plog.LogRecord {
	rl := ld.ResourceLogs().AppendEmpty()
	p.fillResource(rl.Resource().Attributes())
	record := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.SetEventName(fpmpdata.EventName)
	putText(record.Attributes(), fpmpdata.AttrWorkerID, p.worker)
	p.fillItem(record.Attributes())
	return record
}

func (p pass) appendSpanTo(td ptrace.Traces) ptrace.Span {
	rs := td.ResourceSpans().AppendEmpty()
	p.fillResource(rs.Resource().Attributes())
	span := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName("forward_pass")
	p.fillItem(span.Attributes())
	return span
}

func putText(attributes pcommon.Map, name, value string) {
	if value != "" {
		attributes.PutStr(name, value)
	}
}

func logsOf(passes ...pass) plog.Logs {
	ld := plog.NewLogs()
	for _, p := range passes {
		p.appendTo(ld)
	}
	return ld
}

func tracesOf(passes ...pass) ptrace.Traces {
	td := ptrace.NewTraces()
	for _, p := range passes {
		p.appendSpanTo(td)
	}
	return td
}

// emission is one call of the next component.
type emission struct {
	at     time.Duration // since the rig was made
	passes string        // "rank:counter ..." in their order
}

// rig is a sampler of one signal between a test and a next component.
type rig struct {
	component.Component
	t      *testing.T
	tel    *componenttest.Telemetry
	began  time.Time
	send   func(passes ...pass)
	decide func(ctx context.Context) error // what the next component does; nil accepts

	mu        sync.Mutex
	emissions []emission
	items     []arrived
}

// arrived is an item as the next component got it.
type arrived struct {
	key  key
	mode string
	counter
}

func newRig(t *testing.T, signal string, cfg *Config) *rig {
	t.Helper()
	r := &rig{t: t, tel: componenttest.NewTelemetry(), began: time.Now()}
	t.Cleanup(func() { require.NoError(t, r.tel.Shutdown(context.Background())) })
	if signal == "logs" {
		r.makeLogs(cfg)
	} else {
		r.makeTraces(cfg)
	}
	return r
}

func (r *rig) makeLogs(cfg *Config) {
	next, err := consumer.NewLogs(func(ctx context.Context, ld plog.Logs) error {
		var items []arrived
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, record := range sl.LogRecords().All() {
					items = append(items, readItem(rl.Resource().Attributes(), record.Attributes()))
				}
			}
		}
		return r.receive(ctx, items)
	})
	require.NoError(r.t, err)
	logs, err := NewFactory().CreateLogs(context.Background(), metadatatest.NewSettings(r.tel), cfg, next)
	require.NoError(r.t, err)
	r.Component = logs
	r.send = func(passes ...pass) {
		require.NoError(r.t, logs.ConsumeLogs(context.Background(), logsOf(passes...)))
	}
}

func (r *rig) makeTraces(cfg *Config) {
	next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		var items []arrived
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					items = append(items, readItem(rs.Resource().Attributes(), span.Attributes()))
				}
			}
		}
		return r.receive(ctx, items)
	})
	require.NoError(r.t, err)
	traces, err := NewFactory().CreateTraces(context.Background(), metadatatest.NewSettings(r.tel), cfg, next)
	require.NoError(r.t, err)
	r.Component = traces
	r.send = func(passes ...pass) {
		require.NoError(r.t, traces.ConsumeTraces(context.Background(), tracesOf(passes...)))
	}
}

func readItem(resource, attributes pcommon.Map) arrived {
	k, c := itemKey(resourceKey(resource), attributes)
	mode, _ := attributes.Get(fpmpdata.AttrCaptureMode)
	return arrived{key: k, counter: c, mode: mode.AsString()}
}

// receive notes the call when it begins, then lets decide act.
func (r *rig) receive(ctx context.Context, items []arrived) error {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = fmt.Sprintf("%d:%d", it.key.rank, it.id)
	}
	r.mu.Lock()
	r.emissions = append(r.emissions, emission{at: time.Since(r.began), passes: strings.Join(texts, " ")})
	r.items = append(r.items, items...)
	decide := r.decide
	r.mu.Unlock()
	if decide == nil {
		return nil
	}
	return decide(ctx)
}

func (r *rig) setDecide(decide func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decide = decide
}

// got gives the emissions so far.
func (r *rig) got() []emission {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]emission(nil), r.emissions...)
}

// passes gives what was emitted so far, an emission a text.
func (r *rig) passes() []string {
	texts := []string{}
	for _, e := range r.got() {
		texts = append(texts, e.passes)
	}
	return texts
}

func (r *rig) start() {
	require.NoError(r.t, r.Start(context.Background(), componenttest.NewNopHost()))
}

func (r *rig) stop() {
	require.NoError(r.t, r.Shutdown(context.Background()))
}

// count reads an own metric; reason is for "dropped" only.
func (r *rig) count(name, reason string) int64 {
	r.t.Helper()
	m, err := r.tel.GetMetric("otelcol_fpm_sampler_processor_" + name)
	if err != nil {
		return 0 // never recorded
	}
	sum := int64(0)
	for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
		if got, ok := point.Attributes.Value("reason"); !ok || got.AsString() == reason {
			sum += point.Value
		}
	}
	return sum
}

func testConfig() *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Interval = 100 * time.Millisecond
	return cfg
}

// tick waits until the next tick of testConfig has been served.
func tick() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// onBothSignals runs a test on a fake clock, with logs and with traces (SMP-22).
// The rig is started before it and stopped after it.
func onBothSignals(t *testing.T, cfg *Config, test func(r *rig)) {
	t.Helper()
	for _, signal := range []string{"logs", "traces"} {
		t.Run(signal, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, signal, cfg)
				r.start()
				// The error of a shutdown is the subject of its own tests.
				t.Cleanup(func() { _ = r.Shutdown(context.Background()) })
				test(r)
			})
		})
	}
}
