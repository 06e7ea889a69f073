// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

type gateState uint8

const (
	gateOpening gateState = iota // the first attempt has no outcome yet
	gateBlocked                  // the last attempt failed, there will be another
	gateOpen
	gateEnded // shutdown came before it opened
)

// Sources of health; every producer is another.
const (
	healthPreflight = "preflight"
	healthBaseLock  = "lock"
)

// gate keeps all producers from the disk until the directory is writable and the lock of the base is held (FIL-43,
// FIL-45). Once open it stays so.
type gate struct {
	w    *Writer
	done chan struct{}

	mu      sync.Mutex
	state   gateState
	err     error
	lock    lockFile
	closed  bool          // no lock is to be held any more
	changed chan struct{} // closed and replaced whenever state changes

	retake sync.Mutex // held while a lost lock is taken again
}

func newGate(w *Writer) *gate {
	return &gate{w: w, done: make(chan struct{}), changed: make(chan struct{})}
}

// run tries until it opens. When shutdown finds it waiting it tries a last time, for the rows in the queues.
func (g *gate) run() {
	defer close(g.done)
	pause := backoff{least: g.w.limits.retryMin, most: g.w.limits.retryMax}
	checked := false
	for {
		lock, err := g.attempt(&checked)
		if err == nil {
			g.open(lock)
			return
		}
		if g.w.stopped() {
			g.set(gateEnded, err)
			return
		}
		g.set(gateBlocked, err)
		wait := pause.next()
		if errors.Is(err, errLocked) {
			wait = g.w.limits.lockRetry
		}
		g.w.pause(wait)
	}
}

// attempt takes both hurdles; checked says that the first is taken.
func (g *gate) attempt(checked *bool) (lockFile, error) {
	w := g.w
	if !*checked {
		if err := preflight(w.disk, w.dir, w.name); err != nil {
			return nil, g.failed(OpPreflight, healthPreflight, fmt.Errorf(
				"trace files can't be written below %s, %s until they can: %w", w.cfg.Base, w.cfg.Durability.blocked(), err))
		}
		*checked = true
		g.passed(healthPreflight)
	}
	lock, err := w.locks.take(baseLockPath(w.cfg.Base), baseLock, true)
	if err != nil {
		*checked = errors.Is(err, errLocked)
		return nil, g.failed(OpLock, healthBaseLock, baseLockError(&w.cfg, err))
	}
	g.passed(healthBaseLock)
	return lock, nil
}

func baseLockError(cfg *Config, err error) error {
	if errors.Is(err, errLocked) {
		return fmt.Errorf("another exporter writes below %s, %s until it ends; give each its own path: %w",
			cfg.Base, cfg.Durability.blocked(), err)
	}
	return fmt.Errorf("the lock of the trace files below %s can't be taken, %s until it can: %w",
		cfg.Base, cfg.Durability.blocked(), err)
}

func (g *gate) failed(op Op, source string, err error) error {
	g.w.obs.Failed(op)
	if g.w.health.set(source, err) {
		g.w.logger.Error("Trace files can't be written", zap.Stringer("op", op), zap.Error(err))
	}
	return err
}

func (g *gate) passed(source string) {
	if g.w.health.clear(source) {
		g.w.logger.Info("Trace files can be written again", zap.String("path", g.w.cfg.Base))
	}
}

// open keeps lock until release. When that was before, because the shutdown could not wait, there is nothing to open.
func (g *gate) open(lock lockFile) {
	g.mu.Lock()
	g.lock = lock
	late := g.closed
	g.mu.Unlock()
	if late {
		g.release()
		g.set(gateEnded, errShutdown)
		return
	}
	g.set(gateOpen, nil)
}

func (g *gate) set(state gateState, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state, g.err = state, err
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) get() (state gateState, changed <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state, g.changed, g.err
}

// wait returns once the gate is open, or will never be.
func (g *gate) wait() (open bool) {
	for {
		state, changed, _ := g.get()
		switch state {
		case gateOpen:
			return true
		case gateEnded:
			return false
		case gateOpening, gateBlocked:
			<-changed
		}
	}
}

// outcome waits only for the first attempt, and returns what the last one came to.
func (g *gate) outcome() error {
	for {
		state, changed, err := g.get()
		if state != gateOpening {
			return err
		}
		<-changed
	}
}

// confirm makes sure that the lock of the base still keeps others away before a segment is created: whoever removes or
// replaces its file lets another exporter in. A lost lock is taken again, unless another holds it by now.
func (g *gate) confirm() error {
	if g.holds(g.held()) {
		return nil
	}
	g.retake.Lock()
	defer g.retake.Unlock()
	if g.holds(g.held()) {
		return nil // again, by another producer
	}
	w := g.w
	if err := w.disk.MkdirAll(w.dir); err != nil {
		return err
	}
	lock, err := w.locks.take(baseLockPath(w.cfg.Base), baseLock, true)
	if err != nil {
		return baseLockError(&w.cfg, err)
	}
	return g.replace(lock)
}

// holds says whether the path of the lock still leads to lock. Without locks there is nothing to lose (FIL-44).
func (g *gate) holds(lock lockFile) bool {
	if lock == nil {
		return true
	}
	onPath, err := g.w.disk.Lstat(baseLockPath(g.w.cfg.Base))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	own, err := lock.Stat()
	return err == nil && os.SameFile(own, onPath)
}

func (g *gate) held() lockFile {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lock
}

// replace keeps lock instead of the one before. After the end there is none to keep.
func (g *gate) replace(lock lockFile) error {
	g.mu.Lock()
	late := g.closed
	if !late {
		g.lock, lock = lock, g.lock
	}
	g.mu.Unlock()
	g.giveBack(lock)
	if late {
		return errShutdown
	}
	g.w.logger.Warn("The lock of the trace files was removed from outside and is taken again",
		zap.String("path", baseLockPath(g.w.cfg.Base)))
	return nil
}

// release gives the lock of the base back.
func (g *gate) release() {
	g.mu.Lock()
	lock := g.lock
	g.lock, g.closed = nil, true
	g.mu.Unlock()
	g.giveBack(lock)
}

func (g *gate) giveBack(lock lockFile) {
	if lock == nil {
		return
	}
	if err := lock.Close(); err != nil {
		g.w.obs.Failed(OpClose)
	}
}

// pause waits, but not beyond the beginning of the shutdown.
func (w *Writer) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.stop:
	}
}
