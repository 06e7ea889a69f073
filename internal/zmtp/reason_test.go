// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestZMQ61Reasons(t *testing.T) {
	words := []string{
		"resolve", "dial", "timeout", "greeting", "version", "mechanism", "socket_type", "peer_error", "protocol", "too_large",
		"too_many_frames", "silent", "closed", "truncated", "reset", "write", "canceled",
	}
	values := []error{
		ErrResolve, ErrDial, ErrTimeout, ErrGreeting, ErrVersion, ErrMechanism, ErrSocketType, ErrPeerError, ErrProtocol, ErrTooLarge,
		ErrTooManyFrames, ErrSilent, ErrClosed, ErrTruncated, ErrReset, ErrWrite, ErrCanceled,
	}
	require.Len(t, Reasons(), len(words))
	for i, r := range Reasons() {
		require.Equal(t, words[i], r.String())
		var err error = &Error{Reason: r, Endpoint: testEndpoint, Err: io.ErrUnexpectedEOF}
		for j, v := range values {
			require.Equal(t, i == j, errors.Is(err, v), "%v is %v", r, v)
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.EqualError(t, err, "tcp://engine:20380: "+words[i]+": unexpected EOF")
	}
	require.Equal(t, "reason(0)", Reason(0).String())
	require.NotErrorIs(t, &Error{Err: io.EOF}, ErrResolve)
}

func TestZMQ63PeerTextIsEscapedAndCut(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"plain text ~":                  "plain text ~",
		"a\x1b[31m\n\"\\\xff\u2028":     `a\x1b[31m\x0a\x22\x5c\xff\xe2\x80\xa8`,
		strings.Repeat("a", 255):        strings.Repeat("a", 255),
		strings.Repeat("a", 256):        strings.Repeat("a", 255),
		strings.Repeat("a", 254) + "\n": strings.Repeat("a", 254),
		strings.Repeat("\n", 64):        strings.Repeat(`\x0a`, 63),
	} {
		require.Equal(t, want, EscapePeerText([]byte(in)))
	}
}
