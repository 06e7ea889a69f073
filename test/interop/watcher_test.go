// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowChunk is what a slow reader takes at a time.
const slowChunk = 4096

// slowReader keeps the socket of a publisher full.
type slowReader struct{ io.Reader }

func (r slowReader) Read(b []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return r.Reader.Read(b[:min(slowChunk, len(b))])
}

// watcher is a slow proxy in front of a publisher. It looks at the frames on the
// way.
type watcher struct {
	listener net.Listener
	// interleaved counts commands between the frames of a message.
	interleaved atomic.Int64
}

func newWatcher(t *testing.T, publisher string) *watcher {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // A local listener.
	require.NoError(t, err)
	w := &watcher{listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", publisher) //nolint:noctx // A local publisher.
			if err != nil {
				_ = client.Close()
				continue
			}
			_ = server.(*net.TCPConn).SetReadBuffer(slowChunk)
			running.Go(func() { pipe(server, client, func() { _, _ = io.Copy(server, client) }) })
			running.Go(func() { pipe(server, client, func() { w.watch(client, server) }) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait() // the connections end with the subscriber
	})
	return w
}

// pipe runs one direction and ends both with it.
func pipe(a, b net.Conn, run func()) {
	run()
	_ = a.Close()
	_ = b.Close()
}

func (w *watcher) endpoint() string { return "tcp://" + w.listener.Addr().String() }

// watch copies what the publisher sends.
func (w *watcher) watch(client io.Writer, server io.Reader) {
	const greetingSize, flagMore, flagLong, flagCommand = 64, 1, 2, 4
	r := bufio.NewReader(io.TeeReader(slowReader{server}, client))
	if _, err := r.Discard(greetingSize); err != nil {
		return
	}
	inMessage := false
	for {
		header := make([]byte, 9)
		flags, err := r.ReadByte()
		if err != nil {
			return
		}
		size := header[7:8]
		if flags&flagLong != 0 {
			size = header[:8]
		}
		if _, err := io.ReadFull(r, size); err != nil {
			return
		}
		switch {
		case flags&flagCommand == 0:
			inMessage = flags&flagMore != 0
		case inMessage:
			w.interleaved.Add(1)
		}
		if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint64(header))); err != nil {
			return
		}
	}
}
