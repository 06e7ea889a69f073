// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

// maxInvalidRemembered bounds the memory of STR-69.
const maxInvalidRemembered = 1024

// invalidSequences remembers the numbers of messages that arrived with good
// frames and a payload that is not valid: they are not missing (STR-69). At
// most maxInvalidRemembered different ones; the oldest is forgotten.
type invalidSequences struct {
	known map[int64]struct{}
	ring  []int64
	next  int
}

func (s *invalidSequences) add(sequence int64) {
	if s.known == nil {
		s.known = make(map[int64]struct{})
	}
	if _, ok := s.known[sequence]; ok {
		return
	}
	s.known[sequence] = struct{}{}
	if len(s.ring) < maxInvalidRemembered {
		s.ring = append(s.ring, sequence)
		return
	}
	delete(s.known, s.ring[s.next])
	s.ring[s.next] = sequence
	s.next = (s.next + 1) % maxInvalidRemembered
}

// between counts the remembered numbers strictly between two others.
func (s *invalidSequences) between(low, high int64) int64 {
	n := int64(0)
	for _, sequence := range s.ring {
		if low < sequence && sequence < high {
			n++
		}
	}
	return n
}

func (s *invalidSequences) clear() {
	if len(s.ring) == 0 {
		return
	}
	clear(s.known)
	s.ring = s.ring[:0]
	s.next = 0
}
