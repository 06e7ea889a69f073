// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopGrace is how long ranks get to stop beyond the linger time. Only one that
// waits for a subscriber which does not read (--no-drop) needs more.
const stopGrace = 2 * time.Second

// generate publishes on all ranks until they are done or the context ends. The
// summary is empty when nothing was started.
func generate(ctx context.Context, o *options) (summary string, err error) {
	var log *sendLog
	if o.logFile != "" {
		if log, err = openSendLog(o.logFile, o.logPayload); err != nil {
			return "", err
		}
	}
	ranks, err := bindRanks(o, log)
	if err != nil {
		return "", errors.Join(err, closeRanks(ranks), log.close())
	}
	start, err := publish(ctx, o, ranks)
	took := time.Since(start)
	if errors.Is(err, errStuck) {
		return summarize(ranks, took), err // neither sockets nor log can be closed under a rank that runs
	}
	err = errors.Join(err, closeRanks(ranks), log.close())
	return summarize(ranks, took), err
}

func bindRanks(o *options, log *sendLog) (ranks []*rank, err error) {
	for number := range o.ranks {
		r, err := newRank(o, number, log)
		if err != nil {
			return ranks, err
		}
		ranks = append(ranks, r)
	}
	return ranks, nil
}

func closeRanks(ranks []*rank) (err error) {
	for _, r := range ranks {
		err = errors.Join(err, r.close())
	}
	return err
}

func summarize(ranks []*rank, took time.Duration) string {
	var sum totals
	for _, r := range ranks {
		sum.add(&r.totals)
	}
	return sum.summary(len(ranks), took)
}

var errStuck = errors.New("a subscriber does not read and --no-drop waits for it: stopped without it")

// publish waits for the subscribers of all ranks, so that they start together,
// and then for the ranks.
func publish(ctx context.Context, o *options, ranks []*rank) (start time.Time, err error) {
	for _, r := range ranks {
		if err := r.ready(ctx); err != nil {
			return time.Now(), fmt.Errorf("%s: stopped while waiting for %d subscribers", r.endpoint, o.waitSubscribers)
		}
	}
	start = time.Now()
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	done := make(chan error, 1)
	go func() { done <- runAll(ctx, ranks, start) }()
	return start, await(ctx, done, o.linger+stopGrace)
}

// await waits for done; when the context has ended, not longer than grace.
func await(ctx context.Context, done <-chan error, grace time.Duration) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return errStuck
	}
}

// runAll runs the ranks; the first that fails stops the others.
func runAll(ctx context.Context, ranks []*rank, start time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range ranks {
		group.Go(func() error {
			if err := r.run(ctx, start); err != nil {
				return err
			}
			return r.finish()
		})
	}
	return group.Wait()
}
