// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"net"
)

// dialFunc connects to an endpoint. Tests replace it.
type dialFunc func(ctx context.Context, e Endpoint) (net.Conn, error)

// dialEndpoint resolves and connects. Names are resolved anew at each call, and
// of several addresses the first that connects is used (ZMQ-42). TCP keepalive
// has the defaults of Go (ZMQ-38).
func dialEndpoint(ctx context.Context, e Endpoint) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, e.Network(), e.Address())
}
