// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"
)

// newZMQ4Publisher binds a PUB of go-zeromq/zmq4: a real peer of version 3.0
// with an Identity in its READY (ZMQ-67).
func newZMQ4Publisher(t *testing.T, endpoint string) (publisher zmq4.Socket, address net.Addr) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	publisher = zmq4.NewPub(ctx)
	t.Cleanup(func() {
		_ = publisher.Close()
		cancel()
	})
	require.NoError(t, publisher.Listen(endpoint))
	return publisher, publisher.Addr()
}

func TestZMQ67InteropWithGoZeroMQ(t *testing.T) {
	for name, tt := range map[string]struct {
		listen   string
		endpoint func(net.Addr) string
	}{
		"tcp": {"tcp://127.0.0.1:0", func(a net.Addr) string { return "tcp://" + a.String() }},
		"ipc": {
			"ipc://@otelcol-fpm-zmq4",
			func(net.Addr) string { return "ipc://@otelcol-fpm-zmq4" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			publisher, address := newZMQ4Publisher(t, tt.listen)
			s := newSubscriber(t, fastConfig())
			r := add(t, s, tt.endpoint(address))
			r.waitEvent(t, "up")
			// Its PUB reads the subscription in a goroutine of its own: what is sent
			// before is lost, so the sequence starts with the first that arrives.
			sequence := uint64(0)
			publish := func(size int) {
				msg := zmq4.NewMsgFrom([]byte{}, binary.BigEndian.AppendUint64(nil, sequence), make([]byte, size))
				if err := publisher.Send(msg); err != nil && !errors.Is(err, context.Canceled) {
					require.NoError(t, err)
				}
				sequence++
			}
			require.Eventually(t, func() bool {
				publish(10)
				return len(r.got()) > 0
			}, eventually, time.Millisecond)
			for i := range 200 {
				publish(i * 5)
			}
			require.Eventually(t, func() bool { return r.sequencesEnd(t) == sequence-1 }, eventually, time.Millisecond)
			got := r.sequences(t)
			for i := 1; i < len(got); i++ {
				require.Equal(t, got[i-1]+1, got[i], "gap after message %d", i)
			}
			require.Equal(t, []string{"connect 1", "up"}, r.all())
		})
	}
}
