// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/processor/fpmsampler/internal/metadata"
)

func configOf(mode string) *Config {
	cfg := testConfig()
	cfg.Mode = mode
	return cfg
}

// startLogs makes a started logs processor; it is shut down after the test.
func startLogs(t *testing.T, cfg *Config, next consumer.Logs) processor.Logs {
	t.Helper()
	p, err := NewFactory().CreateLogs(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

func startTraces(t *testing.T, cfg *Config, next consumer.Traces) processor.Traces {
	t.Helper()
	p, err := NewFactory().CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

func logsJSON(t *testing.T, ld plog.Logs) string {
	t.Helper()
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(ld)
	require.NoError(t, err)
	return string(text)
}

func tracesJSON(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	return string(text)
}

// richLogs is one forward pass with everything set that a log record, its scope
// and its resource can have.
func richLogs(counter int64) plog.Logs {
	ld := plog.NewLogs()
	record := rank(3, counter).appendTo(ld)
	record.SetTimestamp(1000)
	record.SetObservedTimestamp(1001)
	record.SetSeverityNumber(plog.SeverityNumberInfo)
	record.SetSeverityText("info")
	record.SetFlags(1)
	record.SetTraceID([16]byte{1})
	record.SetSpanID([8]byte{2})
	record.SetDroppedAttributesCount(4)
	body := record.Body().SetEmptyMap()
	body.PutInt("counter_id", counter)
	body.PutEmptySlice("extend_lengths").AppendEmpty().SetInt(17)
	rl := ld.ResourceLogs().At(0)
	rl.SetSchemaUrl("https://example.com/resource")
	rl.Resource().Attributes().PutStr("deployment.environment", "test")
	rl.Resource().SetDroppedAttributesCount(5)
	sl := rl.ScopeLogs().At(0)
	sl.SetSchemaUrl("https://example.com/scope")
	sl.Scope().SetName("fpm")
	sl.Scope().SetVersion("1")
	sl.Scope().Attributes().PutStr("scope.attribute", "x")
	sl.Scope().SetDroppedAttributesCount(6)
	return ld
}

func richTraces(counter int64) ptrace.Traces {
	td := ptrace.NewTraces()
	span := rank(3, counter).appendSpanTo(td)
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{2})
	span.SetParentSpanID([8]byte{3})
	span.TraceState().FromRaw("a=b")
	span.SetKind(ptrace.SpanKindInternal)
	span.SetStartTimestamp(900)
	span.SetEndTimestamp(1000)
	span.Status().SetCode(ptrace.StatusCodeOk)
	span.Links().AppendEmpty().SetTraceID([16]byte{9})
	span.Events().AppendEmpty().SetName("event")
	rs := td.ResourceSpans().At(0)
	rs.SetSchemaUrl("https://example.com/resource")
	rs.Resource().Attributes().PutStr("deployment.environment", "test")
	ss := rs.ScopeSpans().At(0)
	ss.SetSchemaUrl("https://example.com/scope")
	ss.Scope().SetName("fpm")
	ss.Scope().Attributes().PutStr("scope.attribute", "x")
	return td
}

// SMP-24 and SMP-25: the stamp is all that changes, in both modes; what arrived
// is not written to in mode sampled.
func TestSMP25OnlyTheStampChanges(t *testing.T) {
	for _, mode := range []string{"sampled", "full"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, traces := new(consumertest.LogsSink), new(consumertest.TracesSink)
				lp, tp := startLogs(t, configOf(mode), logs), startTraces(t, configOf(mode), traces)
				for counter := range int64(3) { // the pending record is copied over
					ld, td := richLogs(counter), richTraces(counter)
					if mode == "sampled" {
						ld.MarkReadOnly()
						td.MarkReadOnly()
					}
					require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
					require.NoError(t, tp.ConsumeTraces(t.Context(), td))
				}
				tick()
				wantLogs, wantTraces := richLogs(2), richTraces(2)
				wantLogs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().PutStr("fpm.capture_mode", mode)
				wantTraces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().PutStr("fpm.capture_mode", mode)
				gotLogs, gotTraces := logs.AllLogs(), traces.AllTraces()
				require.JSONEq(t, logsJSON(t, wantLogs), logsJSON(t, gotLogs[len(gotLogs)-1]))
				require.JSONEq(t, tracesJSON(t, wantTraces), tracesJSON(t, gotTraces[len(gotTraces)-1]))
			})
		})
	}
}

// COL-54: the batch belongs to its owner, who may do anything with it later.
func TestSMP25ArrivedBatchIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.LogsSink)
		p := startLogs(t, testConfig(), sink)
		ld := richLogs(1)
		require.NoError(t, p.ConsumeLogs(t.Context(), ld))
		rl := ld.ResourceLogs().At(0)
		rl.Resource().Attributes().PutStr("service.name", "changed")
		rl.ScopeLogs().At(0).LogRecords().At(0).Attributes().PutInt("fpm.counter_id", 99)
		rl.ScopeLogs().At(0).LogRecords().At(0).Body().SetStr("changed")
		tick()
		require.NotContains(t, logsJSON(t, sink.AllLogs()[0]), "changed")
		require.NotContains(t, logsJSON(t, sink.AllLogs()[0]), "99")
	})
}

// A key whose resource changes while a record is pending leaves with the new one.
func TestSMP25ChangedResourceGoesWithItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.LogsSink)
		p := startLogs(t, testConfig(), sink)
		changes := []func(plog.ResourceLogs){
			func(rl plog.ResourceLogs) { rl.Resource().Attributes().PutStr("deployment.environment", "new") },
			func(rl plog.ResourceLogs) { rl.Resource().SetDroppedAttributesCount(50) },
			func(rl plog.ResourceLogs) { rl.SetSchemaUrl("new") },
			func(rl plog.ResourceLogs) { rl.ScopeLogs().At(0).SetSchemaUrl("new") },
			func(rl plog.ResourceLogs) { rl.ScopeLogs().At(0).Scope().SetName("new") },
			func(rl plog.ResourceLogs) { rl.ScopeLogs().At(0).Scope().SetVersion("new") },
			func(rl plog.ResourceLogs) { rl.ScopeLogs().At(0).Scope().SetDroppedAttributesCount(60) },
			func(rl plog.ResourceLogs) { rl.ScopeLogs().At(0).Scope().Attributes().PutStr("scope.attribute", "new") },
		}
		for i, change := range changes {
			require.NoError(t, p.ConsumeLogs(t.Context(), richLogs(int64(2*i))))
			ld := richLogs(int64(2*i + 1))
			change(ld.ResourceLogs().At(0))
			require.NoError(t, p.ConsumeLogs(t.Context(), ld))
			tick()
			ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().PutStr("fpm.capture_mode", "sampled")
			require.JSONEq(t, logsJSON(t, ld), logsJSON(t, sink.AllLogs()[i]))
		}
	})
}

// Records of one resource leave in one ResourceLogs as far as the order of the
// keys allows.
func TestSMP11NeighborsShareTheirResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, traces := new(consumertest.LogsSink), new(consumertest.TracesSink)
		lp, tp := startLogs(t, testConfig(), logs), startTraces(t, testConfig(), traces)
		prefill := rank(0, 1)
		prefill.component = "prefill"
		for _, p := range []pass{rank(1, 1), prefill, rank(0, 1), rank(2, 1)} {
			require.NoError(t, lp.ConsumeLogs(t.Context(), logsOf(p)))
			require.NoError(t, tp.ConsumeTraces(t.Context(), tracesOf(p)))
		}
		tick()
		rl := logs.AllLogs()[0].ResourceLogs()
		require.Equal(t, 2, rl.Len())
		require.Equal(t, 1, rl.At(0).ScopeLogs().Len())
		require.Equal(t, 3, rl.At(0).ScopeLogs().At(0).LogRecords().Len())
		require.Equal(t, 1, rl.At(1).ScopeLogs().At(0).LogRecords().Len())
		rs := traces.AllTraces()[0].ResourceSpans()
		require.Equal(t, 2, rs.Len())
		require.Equal(t, 3, rs.At(0).ScopeSpans().At(0).Spans().Len())
	})
}

func TestSMP25ScopesOfOneResourceStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, traces := new(consumertest.LogsSink), new(consumertest.TracesSink)
		lp, tp := startLogs(t, testConfig(), logs), startTraces(t, testConfig(), traces)
		for i, name := range []string{"first", "second"} {
			ld, td := logsOf(rank(int64(i), 1)), tracesOf(rank(int64(i), 1))
			ld.ResourceLogs().At(0).ScopeLogs().At(0).Scope().SetName(name)
			td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName(name)
			require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
			require.NoError(t, tp.ConsumeTraces(t.Context(), td))
		}
		tick()
		require.Equal(t, 1, logs.AllLogs()[0].ResourceLogs().Len())
		require.Equal(t, 1, traces.AllTraces()[0].ResourceSpans().Len())
		for i, name := range []string{"first", "second"} {
			require.Equal(t, name, logs.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().At(i).Scope().Name())
			require.Equal(t, name, traces.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(i).Scope().Name())
		}
	})
}

func TestSMP23OtherItemsPassAtOnceAndUntouched(t *testing.T) {
	for _, mode := range []string{"sampled", "full"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, traces := new(consumertest.LogsSink), new(consumertest.TracesSink)
				lp, tp := startLogs(t, configOf(mode), logs), startTraces(t, configOf(mode), traces)
				ld, td := otherRichLogs(), otherRichTraces()
				wantLogs, wantTraces := logsJSON(t, ld), tracesJSON(t, td)
				require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
				require.NoError(t, tp.ConsumeTraces(t.Context(), td))
				require.Len(t, logs.AllLogs(), 1)
				require.Len(t, traces.AllTraces(), 1)
				require.JSONEq(t, wantLogs, logsJSON(t, logs.AllLogs()[0]))
				require.JSONEq(t, wantTraces, tracesJSON(t, traces.AllTraces()[0]))
			})
		})
	}
}

// otherRichLogs has another event name; otherRichTraces is the root of a window.
func otherRichLogs() plog.Logs {
	ld := richLogs(1)
	ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).SetEventName("engine.started")
	return ld
}

func otherRichTraces() ptrace.Traces {
	td := richTraces(1)
	root := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	root.SetName("forward_pass.window")
	root.Attributes().Remove(fpmpdata.AttrCounterID)
	return td
}

func TestSMP23MixedBatchIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, traces := new(consumertest.LogsSink), new(consumertest.TracesSink)
		lp, tp := startLogs(t, testConfig(), logs), startTraces(t, testConfig(), traces)

		ld := richLogs(1)
		ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().AppendEmpty().Body().SetStr("first")
		rank(7, 1).appendTo(ld)
		otherRichLogs().ResourceLogs().At(0).CopyTo(ld.ResourceLogs().AppendEmpty())
		ld.MarkReadOnly()
		require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
		require.Equal(t, 2, logs.LogRecordCount(), "at once")
		want := richLogs(1)
		want.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().RemoveIf(func(plog.LogRecord) bool { return true })
		want.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().AppendEmpty().Body().SetStr("first")
		otherRichLogs().ResourceLogs().At(0).CopyTo(want.ResourceLogs().AppendEmpty())
		require.JSONEq(t, logsJSON(t, want), logsJSON(t, logs.AllLogs()[0]))

		td := richTraces(1)
		rank(7, 1).appendSpanTo(td)
		otherRichTraces().ResourceSpans().At(0).CopyTo(td.ResourceSpans().AppendEmpty())
		td.MarkReadOnly()
		require.NoError(t, tp.ConsumeTraces(t.Context(), td))
		require.Equal(t, 1, traces.SpanCount(), "the root of the window, at once")
		require.JSONEq(t, tracesJSON(t, otherRichTraces()), tracesJSON(t, traces.AllTraces()[0]))

		tick()
		require.Equal(t, 4, logs.LogRecordCount())
		require.Equal(t, 3, traces.SpanCount())
	})
}

// The error for the rest reaches the sender; its repetition changes nothing for
// the forward passes.
func TestSMP23ErrorOfOtherItemsReachesTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		sink := new(consumertest.LogsSink)
		refuse := true
		next, err := consumer.NewLogs(func(ctx context.Context, ld plog.Logs) error {
			if refuse {
				return full
			}
			return sink.ConsumeLogs(ctx, ld)
		})
		require.NoError(t, err)
		p := startLogs(t, testConfig(), next)
		batch := func() plog.Logs {
			ld := richLogs(1)
			otherRichLogs().ResourceLogs().At(0).CopyTo(ld.ResourceLogs().AppendEmpty())
			return ld
		}
		require.ErrorIs(t, p.ConsumeLogs(t.Context(), batch()), full)
		refuse = false
		require.NoError(t, p.ConsumeLogs(t.Context(), batch()))
		tick()
		require.Equal(t, 2, sink.LogRecordCount())
	})
}

func TestSMP17FullPassesEverythingInArrivalOrder(t *testing.T) {
	onBothSignals(t, configOf("full"), func(r *rig) {
		t := r.t
		r.send(rank(1, 7), rank(0, 7), rank(1, 7))
		r.send(rank(1, 6))
		require.Equal(t, []string{"1:7 0:7 1:7", "1:6"}, r.passes())
		for _, it := range r.items {
			require.Equal(t, "full", it.mode)
		}
		require.EqualValues(t, 4, r.count("records_in", ""))
		require.EqualValues(t, 4, r.count("records_out", ""))
		require.Zero(t, r.count("keys", ""))
	})
}

func TestSMP17FullReturnsTheErrorToTheSender(t *testing.T) {
	full := errors.New("full")
	logs := startLogs(t, configOf("full"), consumertest.NewErr(full))
	require.ErrorIs(t, logs.ConsumeLogs(t.Context(), logsOf(rank(0, 1))), full)
	traces := startTraces(t, configOf("full"), consumertest.NewErr(full))
	require.ErrorIs(t, traces.ConsumeTraces(t.Context(), tracesOf(rank(0, 1))), full)
}

func TestSMP24TwoSamplersInARow(t *testing.T) {
	for _, tt := range []struct{ before, mode, want string }{
		{"", "full", "full"},
		{"full", "full", "full"},
		{"sampled", "full", "sampled"}, // full never overwrites sampled
		{"other", "full", "full"},
		{"", "sampled", "sampled"},
		{"full", "sampled", "sampled"},
		{"other", "sampled", "sampled"},
	} {
		t.Run(tt.before+" then "+tt.mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := new(consumertest.LogsSink)
				p := startLogs(t, configOf(tt.mode), sink)
				ld := logsOf(rank(0, 1))
				attributes := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes()
				putText(attributes, fpmpdata.AttrCaptureMode, tt.before)
				require.NoError(t, p.ConsumeLogs(t.Context(), ld))
				tick()
				got := sink.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes()
				mode, _ := got.Get(fpmpdata.AttrCaptureMode)
				require.Equal(t, tt.want, mode.Str())
			})
		})
	}
}

func TestSMP24FullReplacesAStampOfAnotherType(t *testing.T) {
	ld := logsOf(rank(0, 1))
	attributes := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes()
	attributes.PutInt(fpmpdata.AttrCaptureMode, 1)
	stampFull(attributes)
	mode, _ := attributes.Get(fpmpdata.AttrCaptureMode)
	require.Equal(t, "full", mode.AsString())
}

func TestSMP22MetricsAreNotSupported(t *testing.T) {
	_, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), testConfig(), consumertest.NewNop())
	require.ErrorIs(t, err, pipeline.ErrSignalNotSupported)
}

// SMP-22 and SMP-26: pipelines share nothing, so full and sampled capture run
// side by side, also from one configuration.
func TestSMP26PipelinesSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		first, second, full := new(consumertest.LogsSink), new(consumertest.LogsSink), new(consumertest.LogsSink)
		samplers := []processor.Logs{
			startLogs(t, cfg, first),
			startLogs(t, cfg, second),
			startLogs(t, configOf("full"), full),
		}
		for i := range int64(3) {
			for _, p := range samplers {
				require.NoError(t, p.ConsumeLogs(t.Context(), logsOf(rank(0, i))))
			}
		}
		tick()
		require.Equal(t, 1, first.LogRecordCount())
		require.Equal(t, 1, second.LogRecordCount())
		require.Equal(t, 3, full.LogRecordCount())
	})
}

func TestCOL68MutatesDataOnlyInModeFull(t *testing.T) {
	require.False(t, startLogs(t, testConfig(), consumertest.NewNop()).Capabilities().MutatesData)
	require.False(t, startTraces(t, testConfig(), consumertest.NewNop()).Capabilities().MutatesData)
	require.True(t, startLogs(t, configOf("full"), consumertest.NewNop()).Capabilities().MutatesData)
	require.True(t, startTraces(t, configOf("full"), consumertest.NewNop()).Capabilities().MutatesData)
}

func TestCOL82VerifyShutdown(t *testing.T) {
	for _, mode := range []string{"sampled", "full"} {
		processortest.VerifyShutdown(t, NewFactory(), configOf(mode))
	}
}

// Many senders, ticks and a shutdown at the same time: every record is counted
// exactly once, whatever became of it.
func TestConcurrentSendersLoseNothingUncounted(t *testing.T) {
	for _, signal := range []string{"logs", "traces"} {
		t.Run(signal, func(t *testing.T) {
			cfg := testConfig()
			cfg.Interval = time.Millisecond
			r := newRig(t, signal, cfg)
			calls := 0
			r.setDecide(func(context.Context) error {
				if calls++; calls%3 == 0 {
					return errors.New("full")
				}
				return nil
			})
			r.start()
			done := make(chan struct{})
			for sender := range int64(4) {
				go func() {
					defer func() { done <- struct{}{} }()
					for i := range int64(500) {
						r.send(rank(sender, i), rank(9, i%3))
					}
				}()
			}
			<-done
			r.stop()
			for range 3 {
				<-done
			}
			out, dropped := r.count("records_out", ""), r.count("dropped", "downstream")+r.count("dropped", "shutdown")
			require.EqualValues(t, 4*500*2, r.count("records_in", ""))
			require.EqualValues(t, 4*500*2, out+dropped+r.count("suppressed", "")+r.count("replaced", ""))
			require.EqualValues(t, len(r.items), out+r.count("dropped", "downstream"))
			require.Zero(t, r.count("keys", ""))
		})
	}
}
