// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// Source is the origin of a trace row (ROW-4).
type Source struct {
	Namespace  string // Dynamo namespace
	Component  string // Dynamo component, such as "backend" or "prefill"
	ProducerID string
}

// StreamKey identifies a stream: one rank of one worker, as it arrives from one endpoint.
type StreamKey struct {
	Endpoint string
	WorkerID string
	DPRank   int64
}
