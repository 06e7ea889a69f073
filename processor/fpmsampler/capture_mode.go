// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmsampler

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
)

// stampSampled marks an item as one of a sampled capture (SMP-24).
func stampSampled(attributes pcommon.Map) {
	attributes.PutStr(fpmpdata.AttrCaptureMode, fpmpdata.CaptureModeSampled)
}

// stampFull marks an item as one of a full capture, unless a sampler before
// thinned it out already (SMP-24).
func stampFull(attributes pcommon.Map) {
	mode, stamped := attributes.GetOrPutEmpty(fpmpdata.AttrCaptureMode)
	if stamped && mode.Type() == pcommon.ValueTypeStr && mode.Str() == fpmpdata.CaptureModeSampled {
		return
	}
	mode.SetStr(fpmpdata.CaptureModeFull)
}
