// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Package sharedcomponent lets the pipelines of several signals share one
// running component: one socket behind logs, metrics and traces (COL-55).
package sharedcomponent

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// Map holds the running components by key, usually the pointer to their
// configuration. The zero value is ready for use.
type Map[K comparable, V component.Component] struct {
	mu         sync.Mutex
	components map[K]*Component[V]
}

// Component is one component that several pipelines start and stop: the first
// Start and the first Shutdown count (COL-56).
type Component[V component.Component] struct {
	component V
	remove    func()

	start    sync.Once
	startErr error
	shutdown sync.Once
	status   statusFanOut
}

// LoadOrCreate gives the component of a key, made by create at the first call.
// After its Shutdown the key is free again (COL-51).
func (m *Map[K, V]) LoadOrCreate(key K, create func() (V, error)) (*Component[V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.components[key]; ok {
		return c, nil
	}
	v, err := create()
	if err != nil {
		return nil, err
	}
	c := &Component[V]{component: v, remove: func() { m.remove(key) }}
	if m.components == nil {
		m.components = make(map[K]*Component[V])
	}
	m.components[key] = c
	return c, nil
}

func (m *Map[K, V]) remove(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.components, key)
}

// Unwrap is the component itself.
func (c *Component[V]) Unwrap() V { return c.component }

// Start starts the component once. Every pipeline gets the same error, and its
// host gets the status reports, the last ones before it started included.
func (c *Component[V]) Start(ctx context.Context, host component.Host) error {
	c.status.add(host)
	c.start.Do(func() {
		c.startErr = c.component.Start(ctx, &reportingHost{Host: host, status: &c.status})
	})
	return c.startErr
}

// Shutdown stops the component once and frees its key. Only the first pipeline gets
// the error: the service joins those of all, and would tell one loss twice.
func (c *Component[V]) Shutdown(ctx context.Context) (err error) {
	c.shutdown.Do(func() {
		err = c.component.Shutdown(ctx)
		c.remove()
	})
	return err
}

// reportingHost passes on what the component reports to every pipeline's host.
type reportingHost struct {
	component.Host
	status *statusFanOut
}

var _ componentstatus.Reporter = (*reportingHost)(nil)

// Report implements componentstatus.Reporter.
func (h *reportingHost) Report(event *componentstatus.Event) { h.status.report(event) }

// keptEvents is how many of the last events a pipeline that starts later gets.
const keptEvents = 5

type statusFanOut struct {
	mu     sync.Mutex
	hosts  []component.Host
	recent []*componentstatus.Event
}

func (f *statusFanOut) add(host component.Host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, event := range f.recent {
		componentstatus.ReportStatus(host, event)
	}
	f.hosts = append(f.hosts, host)
}

func (f *statusFanOut) report(event *componentstatus.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent = append(f.recent, event)
	if len(f.recent) > keptEvents {
		f.recent = f.recent[1:]
	}
	for _, host := range f.hosts {
		componentstatus.ReportStatus(host, event)
	}
}
