// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// origin is the resource and the scope around an item, which leave the sampler
// as they came (SMP-25).
type origin struct {
	resource          pcommon.Resource
	resourceSchemaURL string
	scope             pcommon.InstrumentationScope
	scopeSchemaURL    string
}

// clone copies the origin, so that the data it was read from may go.
func (o *origin) clone() *origin {
	c := &origin{
		resource:          pcommon.NewResource(),
		resourceSchemaURL: o.resourceSchemaURL,
		scope:             pcommon.NewInstrumentationScope(),
		scopeSchemaURL:    o.scopeSchemaURL,
	}
	o.resource.CopyTo(c.resource)
	o.scope.CopyTo(c.scope)
	return c
}

func (o *origin) equal(other *origin) bool {
	return o == other || o.sameResource(other) && o.sameScope(other)
}

func (o *origin) sameResource(other *origin) bool {
	return o.resourceSchemaURL == other.resourceSchemaURL &&
		o.resource.DroppedAttributesCount() == other.resource.DroppedAttributesCount() &&
		o.resource.Attributes().Equal(other.resource.Attributes())
}

func (o *origin) sameScope(other *origin) bool {
	return o.scopeSchemaURL == other.scopeSchemaURL &&
		o.scope.Name() == other.scope.Name() &&
		o.scope.Version() == other.scope.Version() &&
		o.scope.DroppedAttributesCount() == other.scope.DroppedAttributesCount() &&
		o.scope.Attributes().Equal(other.scope.Attributes())
}

// sharedOrigin is the origin of one arriving batch's items: a view of the batch
// and, once an item of it is kept, the one copy that all of them share.
type sharedOrigin struct {
	view origin
	copy *origin
}

// keep returns the copy. It takes last, the origin that the pending record of
// the key already has, when that is equal: resources hardly ever change, so a
// steady stream copies none.
func (s *sharedOrigin) keep(last *origin) *origin {
	switch {
	case s.copy != nil:
	case last != nil && last.equal(&s.view):
		s.copy = last
	default:
		s.copy = s.view.clone()
	}
	return s.copy
}
