// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// loadVariable tells a test binary to be the publishers of a Load, see LoadMain.
const loadVariable = "OTELCOL_FPM_ZMTPTEST_LOAD"

// Load is a set of publishers in a process of their own, so that the CPU time of
// the test's process is that of the subscriber alone.
type Load struct {
	// Endpoints is the number of publishers, on loopback TCP.
	Endpoints int
	// Rate is in messages per second for each endpoint. 0 is as fast as the
	// subscribers read, without loss.
	Rate int
	// PayloadSize is that of the third frame, in bytes.
	PayloadSize int
}

// LoadMain must be called first in the TestMain of a package that uses StartLoad.
// It doesn't return in the process of the publishers.
func LoadMain() {
	text := os.Getenv(loadVariable)
	if text == "" {
		return
	}
	var load Load
	if err := json.Unmarshal([]byte(text), &load); err != nil {
		panic(err)
	}
	if err := load.serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// StartLoad starts the publishers and gives their endpoints. They publish to
// whoever has subscribed, until the end of the test.
func StartLoad(tb testing.TB, load Load) []string {
	tb.Helper()
	text, err := json.Marshal(load)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$") //nolint:noctx // This binary; it ends with its standard input.
	cmd.Env = append(os.Environ(), loadVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatalf("the load publishers did not start: %v", err)
	}
	return strings.Fields(line)
}

// serve publishes until standard input ends, as it does with the parent.
func (l Load) serve() error {
	publishers := make([]*Publisher, l.Endpoints)
	endpoints := make([]string, l.Endpoints)
	for i := range publishers {
		p, err := NewPublisher("tcp", "127.0.0.1:0", PublisherConfig{Block: l.Rate == 0})
		if err != nil {
			return err
		}
		publishers[i], endpoints[i] = p, p.Endpoint()
	}
	fmt.Println(strings.Join(endpoints, " ")) //nolint:forbidigo // The protocol with the parent.
	go l.publish(publishers)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func (l Load) publish(publishers []*Publisher) {
	const tick = time.Millisecond
	payload := make([]byte, l.PayloadSize)
	started := time.Now()
	total := uint64(l.Endpoints) * uint64(max(l.Rate, 0))
	for sent := uint64(0); ; {
		due := sent + 1
		if l.Rate > 0 {
			time.Sleep(tick)
			due = uint64(time.Since(started).Seconds() * float64(total))
		}
		for ; sent < due; sent++ {
			p := publishers[sent%uint64(len(publishers))]
			if l.Rate == 0 {
				p.WaitSubscribers(1)
			}
			p.Publish(Numbered(sent/uint64(len(publishers)), payload)...)
		}
	}
}
