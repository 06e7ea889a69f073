// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import "bytes"

// Bounds of fpm.timing_scope (STR-75): its values for one stream, and the bytes
// of one. A longer text is no scope that an engine would name.
const (
	maxTimingScopes = 4
	maxTimingScope  = 128
)

var otherScope = []byte("other")

// TimingScopes are the values of fpm.timing_scope that one stream has had. One
// set serves the stream's metrics and its spans, so that an exemplar's span says
// what its series says. It is not safe for concurrent use.
type TimingScopes struct{ named [][]byte }

// Limit gives the scope that telemetry shows for the one that a record names:
// the same, or "other" beyond the bounds. nil, no scope, stays nil. The result is
// valid as long as scope is.
func (s *TimingScopes) Limit(scope []byte) []byte {
	if scope == nil || s.knows(scope) {
		return scope
	}
	if len(scope) > maxTimingScope || len(s.named) == maxTimingScopes {
		return otherScope
	}
	s.named = append(s.named, bytes.Clone(scope))
	return scope
}

func (s *TimingScopes) knows(scope []byte) bool {
	for _, named := range s.named {
		if bytes.Equal(named, scope) {
			return true
		}
	}
	return bytes.Equal(scope, otherScope)
}
