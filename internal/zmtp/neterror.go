// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// dialFault classifies the error of a dial under ctx.
func dialFault(ctx context.Context, err error, limit time.Duration) *fault {
	var dns *net.DNSError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &fault{ReasonTimeout, fmt.Errorf("no connection after %v: %w", limit, err)}
	case errors.As(err, &dns):
		return &fault{ReasonResolve, err}
	case isTimeout(err):
		return &fault{ReasonTimeout, err}
	default:
		return &fault{ReasonDial, err}
	}
}

// readFault classifies the error of a read. inside says that a message, command
// or greeting had begun (ZMQ-28).
func readFault(err error, inside bool) *fault {
	switch {
	case errors.Is(err, io.EOF) && inside:
		return faultf(ReasonTruncated, "the peer closed the connection inside a message")
	case errors.Is(err, io.EOF):
		return faultf(ReasonClosed, "the peer closed the connection")
	case isTimeout(err): // keepalive gave up: ETIMEDOUT
		return &fault{ReasonSilent, err}
	default:
		return &fault{ReasonReset, err}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// isBroken reports whether the peer ended the connection while we wrote.
func isBroken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
