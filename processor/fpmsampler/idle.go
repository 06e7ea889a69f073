// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"cmp"
	"container/list"
	"slices"
)

// idleKeys orders the entries that may be forgotten by their last arrival, so
// that neither the sweep (SMP-20) nor making room for a new key (SMP-21) looks
// for one.
type idleKeys[T item[T]] struct {
	list *list.List // of *entry[T], longest idle in front
}

func newIdleKeys[T item[T]]() *idleKeys[T] {
	return &idleKeys[T]{list: list.New()}
}

// longest is the entry that has been idle for longest, nil if there is none.
func (k *idleKeys[T]) longest() *entry[T] {
	front := k.list.Front()
	if front == nil {
		return nil
	}
	return front.Value.(*entry[T])
}

// remove takes an entry out; one that isn't idle stays as it is.
func (k *idleKeys[T]) remove(e *entry[T]) {
	if e.idle != nil {
		k.list.Remove(e.idle)
		e.idle = nil
	}
}

// refresh follows a new arrival of an entry that stays idle.
func (k *idleKeys[T]) refresh(e *entry[T]) {
	if e.idle != nil {
		k.list.MoveToBack(e.idle)
	}
}

// insert merges entries in at the places of their last arrivals. Idle entries may
// have seen arrivals since, so the end of the list is not always the place.
func (k *idleKeys[T]) insert(entries []*entry[T]) {
	slices.SortFunc(entries, func(a, b *entry[T]) int { return cmp.Compare(b.arrival, a.arrival) })
	place := k.list.Back()
	for _, e := range entries {
		for place != nil && place.Value.(*entry[T]).arrival > e.arrival {
			place = place.Prev()
		}
		if place == nil {
			e.idle = k.list.PushFront(e)
		} else {
			e.idle = k.list.InsertAfter(e, place)
		}
	}
}
