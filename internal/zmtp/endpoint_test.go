// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestZMQ39ParseEndpoint(t *testing.T) {
	for _, tt := range []struct {
		in, canonical, network, address, server string
		port                                    int
	}{
		{"127.0.0.1:20380", "tcp://127.0.0.1:20380", "tcp", "127.0.0.1:20380", "127.0.0.1", 20380},
		{"tcp://worker-0.svc:20380", "tcp://worker-0.svc:20380", "tcp", "worker-0.svc:20380", "worker-0.svc", 20380},
		{"tcp://Worker:1", "tcp://worker:1", "tcp", "worker:1", "worker", 1},
		{"tcp://10.0.0.7:65535", "tcp://10.0.0.7:65535", "tcp", "10.0.0.7:65535", "10.0.0.7", 65535},
		{"tcp://[::1]:5555", "tcp://[::1]:5555", "tcp", "[::1]:5555", "::1", 5555},
		{"tcp://[2001:DB8:0::1]:5555", "tcp://[2001:db8::1]:5555", "tcp", "[2001:db8::1]:5555", "2001:db8::1", 5555},
		{"tcp://[fe80::1%eth0]:5555", "tcp://[fe80::1%eth0]:5555", "tcp", "[fe80::1%eth0]:5555", "fe80::1%eth0", 5555},
		{"[::1]:5555", "tcp://[::1]:5555", "tcp", "[::1]:5555", "::1", 5555},
		{"ipc:///run/fpm.sock", "ipc:///run/fpm.sock", "unix", "/run/fpm.sock", "/run/fpm.sock", 0},
		{"ipc://relative/path", "ipc://relative/path", "unix", "relative/path", "relative/path", 0},
		{"ipc://@fpm", "ipc://@fpm", "unix", "@fpm", "@fpm", 0},
		{"tcp://[::ffff:10.0.0.7]:1", "tcp://10.0.0.7:1", "tcp", "10.0.0.7:1", "10.0.0.7", 1},
		{"ipc:///run/./a//b", "ipc:///run/a/b", "unix", "/run/a/b", "/run/a/b", 0},
		{"ipc:///run//link/../b", "ipc:///run//link/../b", "unix", "/run//link/../b", "/run//link/../b", 0},
		{"ipc://./@file", "ipc://./@file", "unix", "./@file", "./@file", 0},
		{"ipc://.//*", "ipc://./*", "unix", "./*", "./*", 0},
		{"ipc://@a//b", "ipc://@a//b", "unix", "@a//b", "@a//b", 0},
		{"ipc:///tmp/a:b;c", "ipc:///tmp/a:b;c", "unix", "/tmp/a:b;c", "/tmp/a:b;c", 0},
	} {
		t.Run(tt.in, func(t *testing.T) {
			e, err := ParseEndpoint(tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.canonical, e.String())
			require.Equal(t, tt.network, e.Network())
			require.Equal(t, tt.address, e.Address())
			server, port := e.Server()
			require.Equal(t, tt.server, server)
			require.Equal(t, tt.port, port)
			again, err := ParseEndpoint(e.String())
			require.NoError(t, err)
			require.Equal(t, e, again)
		})
	}
}

func TestZMQ40RefusedEndpoints(t *testing.T) {
	for _, tt := range []struct{ in, says string }{
		{"", "port is missing"},
		{"host", "port is missing"},
		{"tcp://host", "port is missing"},
		{"tcp://host:", "port is missing"},
		{"tcp://:20380", "host is missing"},
		{"tcp://host:0", "1 to 65535"},
		{"tcp://host:65536", "1 to 65535"},
		{"tcp://host:+80", "1 to 65535"},
		{"tcp://host:20380/", "1 to 65535"},
		{"tcp://*:20380", "bind"},
		{"tcp://host:*", "1 to 65535"},
		{"tcp://eth0;host:20380", "source address"},
		{"tcp://::1:20380", "brackets"},
		{"tcp://[::1]", "port is missing"},
		{"tcp://[::1:20380", "closing bracket"},
		{"tcp://[host]:20380", "not an IPv6 address"},
		{"tcp://[127.0.0.1]:20380", "not an IPv6 address"},
		{"tcp://300.1.1.1:20380", "not an IPv4 address"},
		{"tcp://a b:20380", "character"},
		{"tcp://user@host:20380", "character"},
		{"tcp://" + strings.Repeat("a", 254) + ":1", "longer than 253"},
		{"http://host:20380", "scheme \"http\" is not supported"},
		{"pgm://host:20380", "scheme"},
		{"inproc://x", "scheme"},
		{"ipc://", "path is empty"},
		{"ipc://@", "path is empty"},
		{"ipc://*", "bind"},
		{"ipc:///a\x00b", "NUL"},
		{"ipc:///" + strings.Repeat("a", 107), "longer than"},
		{"ipc://@" + strings.Repeat("a", 108), "longer than"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			_, err := ParseEndpoint(tt.in)
			require.ErrorContains(t, err, tt.says)
			require.ErrorContains(t, err, "endpoint ")
		})
	}
}

func TestZMQ40LongestPaths(t *testing.T) {
	for _, in := range []string{"ipc:///" + strings.Repeat("a", 106), "ipc://@" + strings.Repeat("a", 107)} {
		e := mustParse(t, in)
		_, err := e.Expand(2)
		require.ErrorContains(t, err, "longer than")
		alone, err := e.Expand(1)
		require.NoError(t, err)
		require.Equal(t, []Endpoint{e}, alone)
	}
}

func TestZMQ40Expand(t *testing.T) {
	texts := func(all []Endpoint) []string {
		var out []string
		for _, e := range all {
			out = append(out, e.String())
		}
		return out
	}
	for _, tt := range []struct {
		in   string
		size int
		want []string
	}{
		{"tcp://h:20380", 1, []string{"tcp://h:20380"}},
		{"tcp://h:20380", 3, []string{"tcp://h:20380", "tcp://h:20381", "tcp://h:20382"}},
		{"tcp://h:65535", 1, []string{"tcp://h:65535"}},
		{"tcp://h:65534", 2, []string{"tcp://h:65534", "tcp://h:65535"}},
		{"ipc:///p", 1, []string{"ipc:///p"}},
		{"ipc:///p", 2, []string{"ipc:///p.0", "ipc:///p.1"}},
		{"ipc://@p", 2, []string{"ipc://@p.0", "ipc://@p.1"}},
		{"ipc:///p/", 2, []string{"ipc:///p/.0", "ipc:///p/.1"}},
		{"ipc:///p/.", 2, []string{"ipc:///p/..0", "ipc:///p/..1"}},
	} {
		got, err := mustParse(t, tt.in).Expand(tt.size)
		require.NoError(t, err)
		require.Equal(t, tt.want, texts(got))
	}
	for _, tt := range []struct {
		in   string
		size int
	}{{"tcp://h:65535", 2}, {"tcp://h:1", 65536}, {"tcp://h:1", 0}, {"ipc:///p", -1}, {"ipc:///p", 1 << 40}} {
		_, err := mustParse(t, tt.in).Expand(tt.size)
		require.ErrorContains(t, err, tt.in)
	}
}

func TestZMQ40SameAddressComparesEqual(t *testing.T) {
	require.Equal(t, mustParse(t, "Host:1"), mustParse(t, "tcp://host:1"))
	require.Equal(t, mustParse(t, "tcp://[0:0::1]:1"), mustParse(t, "[::1]:1"))
	require.Equal(t, mustParse(t, "tcp://[::ffff:127.0.0.1]:1"), mustParse(t, "127.0.0.1:1"))
	require.Equal(t, mustParse(t, "ipc:///tmp//x"), mustParse(t, "ipc:///tmp/x"))
	require.Equal(t, mustParse(t, "ipc:////tmp/./x"), mustParse(t, "ipc:///tmp/x"))
	require.Equal(t, mustParse(t, "ipc://./x"), mustParse(t, "ipc://x"))
	require.NotEqual(t, mustParse(t, "ipc://p"), mustParse(t, "ipc://@p"))
	require.NotEqual(t, mustParse(t, "ipc://@a//b"), mustParse(t, "ipc://@a/b"), "any byte counts in an abstract name")
}
