// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package sharedcomponent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

type fake struct {
	starts, stops     int
	startErr, stopErr error
	host              component.Host
}

func (f *fake) Start(_ context.Context, host component.Host) error {
	f.starts++
	f.host = host
	return f.startErr
}

func (f *fake) Shutdown(context.Context) error {
	f.stops++
	return f.stopErr
}

type recordingHost struct{ events []*componentstatus.Event }

func (*recordingHost) GetExtensions() map[component.ID]component.Component { return nil }
func (h *recordingHost) Report(event *componentstatus.Event)               { h.events = append(h.events, event) }

func create(f *fake) func() (*fake, error) { return func() (*fake, error) { return f, nil } }

func TestCOL_56_OneLife(t *testing.T) {
	var m Map[string, *fake]
	f := &fake{startErr: errors.New("no start"), stopErr: errors.New("no stop")}
	logs, err := m.LoadOrCreate("config", create(f))
	require.NoError(t, err)
	metrics, err := m.LoadOrCreate("config", create(&fake{}))
	require.NoError(t, err)
	require.Same(t, logs, metrics)
	require.Same(t, f, metrics.Unwrap())

	for range 2 {
		require.ErrorIs(t, logs.Start(t.Context(), &recordingHost{}), f.startErr)
	}
	require.ErrorIs(t, logs.Shutdown(t.Context()), f.stopErr)
	require.NoError(t, metrics.Shutdown(t.Context()), "told once")
	require.Equal(t, 1, f.starts)
	require.Equal(t, 1, f.stops)
}

func TestCOL_51_ANewLifeAfterShutdown(t *testing.T) {
	var m Map[string, *fake]
	first, err := m.LoadOrCreate("config", create(&fake{}))
	require.NoError(t, err)
	require.NoError(t, first.Shutdown(t.Context()))
	second, err := m.LoadOrCreate("config", create(&fake{}))
	require.NoError(t, err)
	require.NotSame(t, first, second)
}

func TestCreateErrorLeavesTheKeyFree(t *testing.T) {
	var m Map[string, *fake]
	_, err := m.LoadOrCreate("config", func() (*fake, error) { return nil, errors.New("bad") })
	require.EqualError(t, err, "bad")
	_, err = m.LoadOrCreate("config", create(&fake{}))
	require.NoError(t, err)
}

func TestCOL_56_StatusGoesToEveryPipeline(t *testing.T) {
	var m Map[string, *fake]
	f := &fake{}
	c, err := m.LoadOrCreate("config", create(f))
	require.NoError(t, err)
	early, late := &recordingHost{}, &recordingHost{}
	require.NoError(t, c.Start(t.Context(), early))
	for i := range keptEvents + 2 {
		componentstatus.ReportStatus(f.host, componentstatus.NewRecoverableErrorEvent(fmt.Errorf("event %d", i)))
	}
	require.NoError(t, c.Start(t.Context(), late))
	require.Len(t, early.events, keptEvents+2)
	require.Equal(t, early.events[2:], late.events)
	componentstatus.ReportStatus(f.host, componentstatus.NewEvent(componentstatus.StatusOK))
	require.Len(t, late.events, keptEvents+1)
}
