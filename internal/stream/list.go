// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package stream

// links is a stream's place in one list.
type links struct{ newer, older *Stream }

// list orders streams by their last record, intrusively: every operation of
// the receive path is O(1) and allocates nothing.
type list struct {
	newest, oldest *Stream
	length         int
	links          func(*Stream) *links
}

func (l *list) pushNewest(s *Stream) {
	at := l.links(s)
	at.older, at.newer = l.newest, nil
	if l.newest != nil {
		l.links(l.newest).newer = s
	} else {
		l.oldest = s
	}
	l.newest = s
	l.length++
}

func (l *list) remove(s *Stream) {
	at := l.links(s)
	if at.newer != nil {
		l.links(at.newer).older = at.older
	} else {
		l.newest = at.older
	}
	if at.older != nil {
		l.links(at.older).newer = at.newer
	} else {
		l.oldest = at.newer
	}
	*at = links{}
	l.length--
}

func (l *list) moveToNewest(s *Stream) {
	if l.newest == s {
		return
	}
	l.remove(s)
	l.pushNewest(s)
}

func linksInRegistry(s *Stream) *links { return &s.inRegistry }
func linksInEndpoint(s *Stream) *links { return &s.inEndpoint }
