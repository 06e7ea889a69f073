// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"cmp"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// key names what is sampled by itself (SMP-2): one rank of one worker.
type key struct {
	namespace, component, producer string
	// worker is service.instance.id, which differs from the worker id where that
	// is empty or shared by two live endpoints (SMP-3); fpm.worker_id where the
	// resource has no instance id.
	worker string
	rank   int64
}

// compare orders keys as SMP-11 does: texts by their UTF-8 bytes, the rank as a
// number.
func (k key) compare(other key) int {
	return cmp.Or(
		strings.Compare(k.namespace, other.namespace),
		strings.Compare(k.component, other.component),
		strings.Compare(k.producer, other.producer),
		strings.Compare(k.worker, other.worker),
		cmp.Compare(k.rank, other.rank),
	)
}

// clone returns a key that keeps nothing alive of the data it was read from.
func (k key) clone() key {
	return key{
		namespace: strings.Clone(k.namespace),
		component: strings.Clone(k.component),
		producer:  strings.Clone(k.producer),
		worker:    strings.Clone(k.worker),
		rank:      k.rank,
	}
}

// counter is fpm.counter_id. An item without an integer there has none.
type counter struct {
	id    int64
	known bool
}

// equals is false when a counter is not known: such an item always counts as
// changed.
func (c counter) equals(other counter) bool {
	return c.known && c == other
}

// resourceKey reads the parts of a key that a resource holds. Its strings are
// views of the resource.
func resourceKey(attributes pcommon.Map) key {
	var k key
	for name, value := range attributes.All() {
		switch name {
		case fpmpdata.AttrServiceNamespace:
			k.namespace = text(value)
		case fpmpdata.AttrServiceName:
			k.component = text(value)
		case fpmpdata.AttrServiceInstanceID:
			k.worker = text(value)
		case fpmpdata.AttrProducerID:
			k.producer = text(value)
		}
	}
	return k
}

// itemKey completes the key of a resource with what the attributes of a log
// record or span hold, and gives the counter.
func itemKey(k key, attributes pcommon.Map) (key, counter) {
	var count counter
	var worker pcommon.Value
	hasWorker := false
	for name, value := range attributes.All() {
		switch name {
		case fpmpdata.AttrWorkerID:
			worker, hasWorker = value, true
		case fpmpdata.AttrDPRank:
			k.rank = value.Int()
		case fpmpdata.AttrCounterID:
			count = counter{id: value.Int(), known: value.Type() == pcommon.ValueTypeInt}
		}
	}
	if k.worker == "" && hasWorker {
		k.worker = text(worker)
	}
	return k, count
}

// text avoids AsString for strings, the only type that our receivers send.
func text(value pcommon.Value) string {
	if value.Type() == pcommon.ValueTypeStr {
		return value.Str()
	}
	return value.AsString()
}
