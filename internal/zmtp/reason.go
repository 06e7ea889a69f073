// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"errors"
	"fmt"
)

// Reason says why an attempt failed or a connection ended: the fixed set of
// ZMQ-61. Its word is fit for a metric attribute, an error's text is not.
type Reason uint8

// The reasons of ZMQ-61.
const (
	ReasonResolve       Reason = iota + 1 // the name was not found
	ReasonDial                            // the system refused the connection
	ReasonTimeout                         // dial or handshake took too long
	ReasonGreeting                        // the peer doesn't speak ZMTP
	ReasonVersion                         // the peer speaks ZMTP older than 3.0
	ReasonMechanism                       // the peer wants another mechanism than NULL
	ReasonSocketType                      // the peer is no PUB or XPUB
	ReasonPeerError                       // the peer sent ERROR
	ReasonProtocol                        // the peer broke the protocol
	ReasonTooLarge                        // a message above the size limit
	ReasonTooManyFrames                   // a message of more than 8 frames
	ReasonSilent                          // the peer was silent, or a message took too long
	ReasonClosed                          // the peer closed between messages
	ReasonTruncated                       // the peer closed inside a message
	ReasonReset                           // the connection was reset
	ReasonWrite                           // the peer takes no bytes
	ReasonCanceled                        // the endpoint was removed or the subscriber closed
)

// Values for [errors.Is], one for each reason.
var (
	ErrResolve       = errors.New("resolve")
	ErrDial          = errors.New("dial")
	ErrTimeout       = errors.New("timeout")
	ErrGreeting      = errors.New("greeting")
	ErrVersion       = errors.New("version")
	ErrMechanism     = errors.New("mechanism")
	ErrSocketType    = errors.New("socket_type")
	ErrPeerError     = errors.New("peer_error")
	ErrProtocol      = errors.New("protocol")
	ErrTooLarge      = errors.New("too_large")
	ErrTooManyFrames = errors.New("too_many_frames")
	ErrSilent        = errors.New("silent")
	ErrClosed        = errors.New("closed")
	ErrTruncated     = errors.New("truncated")
	ErrReset         = errors.New("reset")
	ErrWrite         = errors.New("write")
	ErrCanceled      = errors.New("canceled")
)

// reasonErrors is indexed by Reason.
var reasonErrors = [...]error{
	ReasonResolve:       ErrResolve,
	ReasonDial:          ErrDial,
	ReasonTimeout:       ErrTimeout,
	ReasonGreeting:      ErrGreeting,
	ReasonVersion:       ErrVersion,
	ReasonMechanism:     ErrMechanism,
	ReasonSocketType:    ErrSocketType,
	ReasonPeerError:     ErrPeerError,
	ReasonProtocol:      ErrProtocol,
	ReasonTooLarge:      ErrTooLarge,
	ReasonTooManyFrames: ErrTooManyFrames,
	ReasonSilent:        ErrSilent,
	ReasonClosed:        ErrClosed,
	ReasonTruncated:     ErrTruncated,
	ReasonReset:         ErrReset,
	ReasonWrite:         ErrWrite,
	ReasonCanceled:      ErrCanceled,
}

// Reasons gives every reason, in the order of ZMQ-61.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonErrors)-1)
	for r := ReasonResolve; r <= ReasonCanceled; r++ {
		all = append(all, r)
	}
	return all
}

// String gives the word of ZMQ-61, such as "too_large".
func (r Reason) String() string {
	if r < ReasonResolve || r > ReasonCanceled {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonErrors[r].Error()
}

// Error is a failed attempt or the end of a connection. Its text holds the
// endpoint, the reason and the cause; bytes that came from the peer are escaped
// and cut (ZMQ-63), so that it is safe to log.
type Error struct {
	Reason   Reason
	Endpoint Endpoint
	Err      error // the cause, never nil
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Endpoint, e.Reason, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the value of this error's reason, such as
// [ErrSilent].
func (e *Error) Is(target error) bool {
	return e.Reason >= ReasonResolve && e.Reason <= ReasonCanceled && target == reasonErrors[e.Reason]
}

// fault is a cause with its reason, before the endpoint is known.
type fault struct {
	reason Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }

func faultf(reason Reason, format string, args ...any) *fault {
	return &fault{reason: reason, err: fmt.Errorf(format, args...)}
}

func (f *fault) at(e Endpoint) *Error {
	return &Error{Reason: f.reason, Endpoint: e, Err: f.err}
}
