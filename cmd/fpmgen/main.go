// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

// Command fpmgen is a synthetic LLM engine: it publishes a realistic stream of
// forward pass metrics on ZMQ PUB sockets, as NVIDIA Dynamo's workers do, with
// faults on demand. See README.md, or fpmgen --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process. Only the summary, and the help that was asked
// for, go to out.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parseOptions(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintln(errOut, "fpmgen:", err)
		return exitUsage
	}
	summary, err := generate(ctx, o)
	if summary != "" {
		_, _ = fmt.Fprintln(out, summary)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errOut, "fpmgen:", err)
		return exitFailed
	}
	return exitOK
}
