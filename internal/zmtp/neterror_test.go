// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// systemError is the error of a system call as package net gives it.
func systemError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
}

func TestZMQ28ZMQ61ReasonOfARead(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		inside bool
		want   Reason
	}{
		"end":                     {io.EOF, false, ReasonClosed},
		"end inside a message":    {io.EOF, true, ReasonTruncated},
		"reset":                   {systemError("read", syscall.ECONNRESET), false, ReasonReset},
		"reset inside a message":  {systemError("read", syscall.ECONNRESET), true, ReasonReset},
		"keepalive gave up":       {systemError("read", syscall.ETIMEDOUT), false, ReasonSilent},
		"it did inside a message": {systemError("read", syscall.ETIMEDOUT), true, ReasonSilent},
		"no route":                {systemError("read", syscall.EHOSTUNREACH), false, ReasonReset},
	} {
		t.Run(name, func(t *testing.T) {
			f := readFault(tt.err, tt.inside)
			require.Equal(t, tt.want, f.reason)
			require.NotEmpty(t, f.Error())
		})
	}
}

// brokenConn is a connection whose writes fail.
type brokenConn struct {
	net.Conn
	err error
}

func (c *brokenConn) Write([]byte) (int, error)      { return 0, c.err }
func (*brokenConn) SetWriteDeadline(time.Time) error { return nil }

func TestZMQ61ReasonOfAWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		err         error
		handshake   Reason
		established Reason // 0: left to the reads that follow (ZMQ-15)
	}{
		"deadline":     {&net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded}, ReasonTimeout, ReasonWrite},
		"reset":        {systemError("write", syscall.ECONNRESET), ReasonReset, 0},
		"broken pipe":  {systemError("write", syscall.EPIPE), ReasonReset, 0},
		"no buffer":    {systemError("write", syscall.ENOBUFS), ReasonWrite, ReasonWrite},
		"out of reach": {systemError("write", syscall.ENETUNREACH), ReasonWrite, ReasonWrite},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &brokenConn{err: tt.err}
			f := (&handshaker{conn: conn, timeout: time.Second}).write(ownGreeting)
			require.NotNil(t, f)
			require.Equal(t, tt.handshake, f.reason)

			f = (&connection{conn: conn}).write(ownPing)
			if tt.established == 0 {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, tt.established, f.reason)
		})
	}
}
