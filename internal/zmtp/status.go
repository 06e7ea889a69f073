// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

// status is what was last reported as an endpoint's state (ZMQ-53).
type status struct {
	report func(up bool, err *Error)
	up     bool
	reason Reason // why down; 0 before the first attempt ended
	// suspect says that the last connection ended without any proof that the peer
	// works. Up waits for that proof then.
	suspect bool
	// unproven says that the connection there is has given no proof yet.
	unproven bool
}

// connected is the end of a handshake.
func (s *status) connected() {
	s.unproven = true
	if !s.suspect {
		s.set(true, nil)
	}
}

// alive is the proof: a byte of the peer, or quiet survival.
func (s *status) alive() {
	s.unproven, s.suspect = false, false
	s.set(true, nil)
}

// down is a failed attempt or the end of a connection.
func (s *status) down(err *Error) {
	if s.unproven {
		s.unproven, s.suspect = false, true
	}
	s.set(false, err)
}

func (s *status) set(up bool, err *Error) {
	reason := Reason(0)
	if err != nil {
		reason = err.Reason
	}
	if up == s.up && reason == s.reason {
		return
	}
	s.up, s.reason = up, reason
	s.report(up, err)
}
