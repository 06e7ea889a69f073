// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	networkTCP  = "tcp"
	networkUnix = "unix"

	schemeTCP = "tcp"
	schemeIPC = "ipc"

	maxPort = 65535
	// maxHostLength is the longest DNS name in text form (RFC 1035).
	maxHostLength = 253
	// maxSocketPath is sun_path of Linux less the closing NUL of a path, or
	// less the leading NUL of an abstract name.
	maxSocketPath = 107
)

// Endpoint is the address of one publisher. Two endpoints are the same address
// exactly when they compare equal. The zero value is no valid endpoint.
type Endpoint struct {
	network string // "tcp" or "unix"
	host    string // tcp: lower-case name, or IP in canonical form, without brackets
	path    string // unix: the path in canonical form, or "@" and the abstract name
	port    uint16 // tcp
}

// ParseEndpoint parses host:port, tcp://host:port, tcp://[v6%zone]:port,
// ipc:///path, ipc://relative/path and ipc://@abstract (ZMQ-39). Everything
// else is an error that names the endpoint (ZMQ-40).
func ParseEndpoint(s string) (Endpoint, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme, rest = schemeTCP, s
	}
	var (
		e   Endpoint
		err error
	)
	switch scheme {
	case schemeTCP:
		e, err = parseTCP(rest)
	case schemeIPC:
		e, err = parseIPC(rest)
	default:
		err = fmt.Errorf("scheme %q is not supported, use tcp://host:port, ipc:///path or ipc://@name", scheme)
	}
	if err != nil {
		return Endpoint{}, endpointError(s, err)
	}
	return e, nil
}

func endpointError(endpoint string, err error) error {
	return fmt.Errorf("endpoint %q: %w", endpoint, err)
}

func parseTCP(s string) (Endpoint, error) {
	if strings.Contains(s, ";") {
		return Endpoint{}, errors.New("a source address (;) is not supported, give host:port only")
	}
	host, port, err := splitHostPort(s)
	if err != nil {
		return Endpoint{}, err
	}
	number, err := parsePort(port)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{network: networkTCP, host: host, port: number}, nil
}

func splitHostPort(s string) (host, port string, err error) {
	if strings.HasPrefix(s, "[") {
		return splitBracketed(s)
	}
	if strings.Count(s, ":") > 1 {
		return "", "", errors.New("an IPv6 address needs brackets: tcp://[address]:port")
	}
	host, port, found := strings.Cut(s, ":")
	if !found {
		return "", "", errors.New("the port is missing, use host:port")
	}
	host, err = parseHost(host)
	return host, port, err
}

func splitBracketed(s string) (host, port string, err error) {
	host, rest, found := strings.Cut(s[1:], "]")
	if !found {
		return "", "", errors.New("the closing bracket of the IPv6 address is missing")
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is6() {
		return "", "", fmt.Errorf("%q in brackets is not an IPv6 address", host)
	}
	port, found = strings.CutPrefix(rest, ":")
	if !found {
		return "", "", errors.New("the port is missing, use tcp://[address]:port")
	}
	return addr.Unmap().String(), port, nil
}

func parseHost(host string) (string, error) {
	switch {
	case host == "":
		return "", errors.New("the host is missing, use host:port")
	case host == "*":
		return "", errors.New("* is an address to bind to, give the host to connect to")
	case len(host) > maxHostLength:
		return "", fmt.Errorf("the host is longer than %d bytes", maxHostLength)
	}
	for _, c := range []byte(host) {
		if !isHostByte(c) {
			return "", fmt.Errorf("the host has the character %q, which no host name has", c)
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String(), nil
	}
	if endsInNumber(host) {
		return "", fmt.Errorf("%q is not an IPv4 address", host)
	}
	return strings.ToLower(host), nil
}

func isHostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
}

// endsInNumber tells a mistyped IPv4 address from a name: no top-level domain
// consists of digits.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	for _, c := range []byte(last) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return last != ""
}

func parsePort(s string) (uint16, error) {
	if s == "" {
		return 0, errors.New("the port is missing, use host:port")
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("the port %q is not a number from 1 to %d", s, maxPort)
	}
	return uint16(n), nil
}

func parseIPC(s string) (Endpoint, error) {
	switch {
	case s == "" || s == "@":
		return Endpoint{}, errors.New("the path is empty, use ipc:///path or ipc://@name")
	case s == "*":
		return Endpoint{}, errors.New("* is an address to bind to, give the path to connect to")
	case strings.ContainsRune(s, 0):
		return Endpoint{}, errors.New("the path has a NUL byte")
	}
	canonical := canonicalPath(s)
	if err := checkSocketPath(canonical); err != nil {
		return Endpoint{}, err
	}
	return Endpoint{network: networkUnix, path: canonical}, nil
}

// canonicalPath takes the doubled slashes and the single dots out of a path. It leaves
// alone what would lead elsewhere without them: an abstract name, a path with "..",
// which a symbolic link can turn, and one that ends in no name, to which Expand adds.
func canonicalPath(s string) string {
	elements := strings.Split(s, "/")
	last := elements[len(elements)-1]
	if s[0] == '@' || last == "" || last == "." || slices.Contains(elements, "..") {
		return s
	}
	canonical := path.Clean(s)
	if canonical[0] == '@' || canonical == "*" {
		return "./" + canonical // a file of that name, no abstract name
	}
	return canonical
}

func checkSocketPath(s string) error {
	if len(strings.TrimPrefix(s, "@")) > maxSocketPath {
		return fmt.Errorf("the path %q is longer than the %d bytes of a socket address", s, maxSocketPath)
	}
	return nil
}

// Expand gives the endpoints of dpSize data-parallel ranks (STR-10). tcp: the
// ports from the endpoint's on; ipc: the suffixes .0 to .dpSize-1. With dpSize
// 1 it is the endpoint alone, as it is.
func (e Endpoint) Expand(dpSize int) ([]Endpoint, error) {
	if dpSize < 1 || dpSize > maxPort {
		return nil, endpointError(e.String(), fmt.Errorf("dp_size %d is not from 1 to %d", dpSize, maxPort))
	}
	if dpSize == 1 {
		return []Endpoint{e}, nil
	}
	if last := int(e.port) + dpSize - 1; e.network == networkTCP && last > maxPort {
		return nil, endpointError(e.String(), fmt.Errorf("dp_size %d needs ports up to %d, the highest is %d", dpSize, last, maxPort))
	}
	ranks := make([]Endpoint, dpSize)
	for rank := range ranks {
		ranks[rank] = e.rank(rank)
		if err := checkSocketPath(ranks[rank].path); err != nil {
			return nil, endpointError(e.String(), err)
		}
	}
	return ranks, nil
}

func (e Endpoint) rank(rank int) Endpoint {
	if e.network == networkTCP {
		e.port += uint16(rank) //nolint:gosec // Expand checked that the sum is a port.
		return e
	}
	e.path += "." + strconv.Itoa(rank)
	return e
}

// String gives the canonical form: tcp://host:port, ipc:///path or ipc://@name.
func (e Endpoint) String() string {
	if e.network == networkUnix {
		return schemeIPC + "://" + e.path
	}
	return schemeTCP + "://" + e.Address()
}

// Network is "tcp" or "unix", as [net.Dial] takes it.
func (e Endpoint) Network() string { return e.network }

// Address is host:port, the path, or @name, as [net.Dial] takes it. Go connects
// to @name by its exact length, without padding (ZMQ-41).
func (e Endpoint) Address() string {
	if e.network == networkUnix {
		return e.path
	}
	return net.JoinHostPort(e.host, strconv.Itoa(int(e.port)))
}

// Server gives what server.address and server.port say: host and port, or for
// ipc the path (or @name) and 0.
func (e Endpoint) Server() (address string, port int) {
	if e.network == networkUnix {
		return e.path, 0
	}
	return e.host, int(e.port)
}
