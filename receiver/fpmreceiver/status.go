// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// health turns the ups and downs of the endpoints into the status of the
// component, reported only when it changes (ZMQ-54, COL-62).
type health struct {
	host  component.Host
	total int

	mu        sync.Mutex
	order     []string         // endpoints, as configured
	down      map[string]error // why, of those that are down
	up        map[string]bool
	reporting componentstatus.Status
}

func newHealth(host component.Host, endpoints []string) *health {
	return &health{
		host:  host,
		total: len(endpoints),
		order: endpoints,
		down:  make(map[string]error),
		up:    make(map[string]bool),
	}
}

func (h *health) setUp(endpoint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.down, endpoint)
	h.up[endpoint] = true
	h.report()
}

func (h *health) setDown(endpoint string, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.up, endpoint)
	h.down[endpoint] = cause
	h.report()
}

// report is called with the lock held, so that reports leave in order.
func (h *health) report() {
	switch {
	case len(h.down) > 0 && h.reporting != componentstatus.StatusRecoverableError:
		h.reporting = componentstatus.StatusRecoverableError
		componentstatus.ReportStatus(h.host, componentstatus.NewRecoverableErrorEvent(h.downError()))
	case len(h.up) == h.total && h.reporting != componentstatus.StatusOK:
		h.reporting = componentstatus.StatusOK
		componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
}

func (h *health) downError() error {
	for _, endpoint := range h.order {
		if cause, ok := h.down[endpoint]; ok {
			return fmt.Errorf("%d of %d endpoints down, the first one: %w", len(h.down), h.total, cause)
		}
	}
	return nil
}
