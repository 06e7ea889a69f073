// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp/zmtptest"
)

// bind opens the PUB socket of a rank.
func bind(endpoint zmtp.Endpoint, o *options) (*zmtptest.Publisher, error) {
	network, address := endpoint.Network(), endpoint.Address()
	if network == "unix" && !strings.HasPrefix(address, "@") {
		removeStale(address)
	}
	socket, err := zmtptest.NewPublisher(network, address, zmtptest.PublisherConfig{
		HighWaterMark: o.highWaterMark,
		Block:         o.noDrop,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot bind %s: %w", endpoint, err)
	}
	return socket, nil
}

// removeStale unlinks a socket that a dead process left behind. One that
// somebody listens on stays, and so does anything that is no socket.
func removeStale(path string) {
	info, err := os.Lstat(path) //nolint:gosec // the user names the path
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return
	}
	conn, err := net.Dial("unix", path) //nolint:noctx,gosec // local, answers at once; the user names the path
	if err == nil {
		_ = conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) //nolint:gosec // a dead socket, see above
	}
}

// waitSubscribers returns when the socket has n subscribers, or the context ended.
func waitSubscribers(ctx context.Context, socket *zmtptest.Publisher, n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for socket.Subscribers() < n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
