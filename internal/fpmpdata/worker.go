// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmpdata

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Worker is the resource of an engine worker. Make it with NewWorker; it is
// read-only afterwards and may be shared by goroutines.
type Worker struct {
	WorkerIdentity
	attributes map[string]any
	key        string
}

// WorkerIdentity are the attributes of a worker's resource that are ours.
type WorkerIdentity struct {
	Namespace  string
	Component  string
	InstanceID string // the stream's identity: worker_id or endpoint (STR-73, STR-102)
	ProducerID string // STR-103
	Backend    string // left out when empty
}

// NewWorker makes a worker's resource. The extra attributes hold strings,
// booleans, integers or floats; the map is kept and must not change.
func NewWorker(identity WorkerIdentity, attributes map[string]any) *Worker {
	return &Worker{WorkerIdentity: identity, attributes: attributes, key: workerKey(identity, attributes)}
}

// Key is equal for two workers exactly when their resources are.
func (w *Worker) Key() string { return w.key }

func workerKey(identity WorkerIdentity, attributes map[string]any) string {
	var key strings.Builder
	for _, part := range []string{
		identity.Namespace, identity.Component, identity.InstanceID, identity.ProducerID, identity.Backend,
	} {
		key.WriteString(strconv.Quote(part))
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		// The type tells 1 from 1.0 and "1"; quotes tell where a text ends.
		fmt.Fprintf(&key, "%q=%T(%q)", name, attributes[name], fmt.Sprint(attributes[name]))
	}
	return key.String()
}

func (w *Worker) copyTo(resource pcommon.Resource) {
	attributes := resource.Attributes()
	attributes.EnsureCapacity(5 + len(w.attributes))
	attributes.PutStr(AttrServiceNamespace, w.Namespace)
	attributes.PutStr(AttrServiceName, w.Component)
	attributes.PutStr(AttrServiceInstanceID, w.InstanceID)
	attributes.PutStr(AttrProducerID, w.ProducerID)
	if w.Backend != "" {
		attributes.PutStr(AttrBackend, w.Backend)
	}
	for name, value := range w.attributes {
		// Only scalars get here (the receiver's configuration is validated).
		_ = attributes.PutEmpty(name).FromRaw(value)
	}
}

var reservedAttributes = []string{
	AttrServiceNamespace, AttrServiceName, AttrServiceInstanceID, AttrProducerID, AttrBackend,
}

// IsReservedResourceAttribute tells whether a resource attribute is set from
// the stream or from a setting of its own.
func IsReservedResourceAttribute(name string) bool {
	return slices.Contains(reservedAttributes, name)
}
