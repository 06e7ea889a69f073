// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmtraceexporter

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// resource is what the rows of one resource share.
type resource struct {
	namespace, component string
	producerID           string
	instanceID           string
}

func resourceOf(attributes pcommon.Map) resource {
	return resource{
		namespace:  textOf(attributes, fpmpdata.AttrServiceNamespace),
		component:  textOf(attributes, fpmpdata.AttrServiceName),
		producerID: textOf(attributes, fpmpdata.AttrProducerID),
		instanceID: textOf(attributes, fpmpdata.AttrServiceInstanceID),
	}
}

// source is where the row of a record comes from (ROW-6, ROW-7). An empty value counts as missing.
func (r *resource) source(workerID string) fpm.Source {
	producerID := r.producerID
	if producerID == "" {
		producerID = workerID
	}
	if producerID == "" {
		producerID = r.instanceID
	}
	return fpm.Source{Namespace: r.namespace, Component: r.component, ProducerID: producerID}
}

// worker names the stream within its producer (FIL-28).
func (r *resource) worker(workerID string) string {
	if r.instanceID != "" {
		return r.instanceID
	}
	return workerID
}

// textOf gives an attribute as text, "" when it is missing. Other types than text come from processors that set, say, a
// numeric instance id.
func textOf(attributes pcommon.Map, name string) string {
	value, ok := attributes.Get(name)
	if !ok {
		return ""
	}
	return value.AsString()
}
