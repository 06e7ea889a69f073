// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"
)

const (
	// linearKeys is how many keys of one map are compared one by one; real payloads stay below it. A map with more keys
	// is searched by hash, so that no payload makes the search for duplicates quadratic (STR-91).
	linearKeys = 8

	minSlots = 64
)

// entry is one entry of a map: where its key text lies in the payload, and where its value starts.
type entry struct {
	keyStart, keyEnd uint32
	value            uint32
	hash             uint32 // 0 as long as the entry isn't in the hash table
}

// keySet finds duplicate keys in the maps of one payload. Maps are opened and closed like brackets; the entries of the
// open ones lie on one stack, and one hash table serves them all. The hash is seeded, so that a peer can't choose keys
// that collide.
type keySet struct {
	src     []byte
	entries []entry
	slots   []uint32 // open addressing: index into entries, plus 1; a slot of a closed map is stale and matches nothing
	used    int      // slots taken, stale ones included
	seed    maphash.Seed
	seeded  bool
	mapID   uint32 // number of maps opened
}

// openMap is a map that is being walked.
type openMap struct {
	base   int // its first entry
	id     uint32
	hashed bool
}

func (s *keySet) reset(src []byte) {
	s.src = src
	s.entries = s.entries[:0]
	s.used = 0
	s.mapID = 0
	s.slots = s.slots[:0]
}

// trim gives up what a large payload made the set grow to.
func (s *keySet) trim(maxBytes int) {
	if cap(s.entries)*16 > maxBytes {
		s.entries = nil
	}
	if cap(s.slots)*4 > maxBytes {
		s.slots = nil
	}
}

func (s *keySet) open() openMap {
	s.mapID++
	return openMap{base: len(s.entries), id: s.mapID}
}

func (s *keySet) close(m openMap) {
	s.entries = s.entries[:m.base]
}

// add finds the entry of m that has the key src[keyStart:keyEnd], or makes one. Every map opened after m is closed.
func (s *keySet) add(m *openMap, keyStart, keyEnd int) (index int, found bool) {
	if !m.hashed && len(s.entries)-m.base >= linearKeys {
		s.hashAll(m)
	}
	e := entry{keyStart: uint32(keyStart), keyEnd: uint32(keyEnd)} //nolint:gosec // Decode bounds the payload
	if m.hashed {
		e.hash = s.hash(m, e)
		index, found = s.lookup(m, e)
	} else {
		index, found = s.search(m, e)
	}
	if found {
		return index, true
	}
	return s.push(e), false
}

func (s *keySet) push(e entry) int {
	if len(s.entries) == cap(s.entries) {
		s.entries = slices.Grow(s.entries, max(linearKeys, len(s.entries)))
	}
	s.entries = append(s.entries, e)
	if e.hash != 0 {
		s.insert(len(s.entries) - 1)
	}
	return len(s.entries) - 1
}

func (s *keySet) search(m *openMap, e entry) (int, bool) {
	for i := m.base; i < len(s.entries); i++ {
		if s.sameKey(s.entries[i], e) {
			return i, true
		}
	}
	return 0, false
}

func (s *keySet) lookup(m *openMap, e entry) (int, bool) {
	mask := uint32(len(s.slots) - 1) //nolint:gosec // a power of two
	for at := e.hash & mask; s.slots[at] != 0; at = (at + 1) & mask {
		i := int(s.slots[at] - 1)
		if i >= m.base && i < len(s.entries) && s.entries[i].hash == e.hash && s.sameKey(s.entries[i], e) {
			return i, true
		}
	}
	return 0, false
}

func (s *keySet) sameKey(a, b entry) bool {
	return bytes.Equal(s.key(a), s.key(b))
}

func (s *keySet) key(e entry) []byte {
	return s.src[e.keyStart:e.keyEnd]
}

// hash depends on the map too, so that maps with the same keys don't crowd the same slots.
func (s *keySet) hash(m *openMap, e entry) uint32 {
	h := maphash.Bytes(s.seed, s.key(e)) + uint64(m.id)*0x9e3779b97f4a7c15
	return uint32(h>>32) | 1<<31 // never 0; slots come from the low bits
}

// hashAll enters what m has so far into the table.
func (s *keySet) hashAll(m *openMap) {
	if !s.seeded {
		s.seed, s.seeded = maphash.MakeSeed(), true
	}
	m.hashed = true
	for i := m.base; i < len(s.entries); i++ {
		s.entries[i].hash = s.hash(m, s.entries[i])
		s.insert(i)
	}
}

// insert takes a slot for entry i. At most half of the slots are ever taken.
func (s *keySet) insert(i int) {
	if 2*(s.used+1) > len(s.slots) {
		s.rebuild() // enters i too if its hash is set, as it is here
		return
	}
	s.place(i)
}

func (s *keySet) place(i int) {
	mask := uint32(len(s.slots) - 1) //nolint:gosec // a power of two
	at := s.entries[i].hash & mask
	for s.slots[at] != 0 {
		at = (at + 1) & mask
	}
	s.slots[at] = uint32(i + 1) //nolint:gosec // fewer entries than payload bytes
	s.used++
}

// rebuild forgets stale slots and leaves three of four slots free, so its cost is spread over as many insertions.
func (s *keySet) rebuild() {
	size := max(minSlots, 1<<bits.Len(uint(4*len(s.entries)-1)))
	if cap(s.slots) >= size {
		s.slots = s.slots[:size]
		clear(s.slots)
	} else {
		s.slots = make([]uint32, size)
	}
	s.used = 0
	for i := range s.entries {
		if s.entries[i].hash != 0 {
			s.place(i)
		}
	}
}
