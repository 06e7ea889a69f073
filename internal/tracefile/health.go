// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import "sync"

// health turns the failures of many producers, and of the path as a whole, into one status: an error as long as any of
// them fails, nil otherwise.
type health struct {
	obs Observer

	mu         sync.Mutex
	failing    map[string]error // by source
	reported   string           // source whose error was reported last, "" for well
	delivering bool
}

// set notes that source fails; began says that it did not before.
func (h *health) set(source string, err error) (began bool) {
	h.mu.Lock()
	_, known := h.failing[source]
	if !known {
		if h.failing == nil {
			h.failing = make(map[string]error)
		}
		h.failing[source] = err
	}
	h.mu.Unlock()
	h.deliver()
	return !known
}

// clear notes that source is well; ended says that it failed before.
func (h *health) clear(source string) (ended bool) {
	h.mu.Lock()
	_, known := h.failing[source]
	delete(h.failing, source)
	h.mu.Unlock()
	if known {
		h.deliver()
	}
	return known
}

// deliver reports until the last report is true. One goroutine does it at a time, so reports neither overlap nor overtake
// each other, and nobody holds the lock meanwhile.
func (h *health) deliver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.delivering {
		return
	}
	h.delivering = true
	for source := h.wanted(); source != h.reported; source = h.wanted() {
		h.reported = source
		err := h.failing[source]
		h.mu.Unlock()
		h.obs.Status(err)
		h.mu.Lock()
	}
	h.delivering = false
}

// wanted keeps to the reported source as long as it fails.
func (h *health) wanted() string {
	if _, still := h.failing[h.reported]; still {
		return h.reported
	}
	for source := range h.failing {
		return source
	}
	return ""
}
