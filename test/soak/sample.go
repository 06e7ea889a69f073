// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sample is the collector at one moment.
type sample struct {
	At         time.Duration // since the collector was ready
	RSS        float64       // bytes
	LiveHeap   float64       // bytes that a garbage collection leaves
	Goroutines float64
	FDs        float64
	CPU        float64 // seconds since the start of the process
	Messages   float64 // received since the start
	Streams    float64 // that have loss state
	Files      float64 // in the directory of the trace files
	FileBytes  float64
}

// columns are those of the CSV file, in order.
var columns = []struct {
	name string
	of   func(*sample) *float64
}{
	{"rss_bytes", func(s *sample) *float64 { return &s.RSS }},
	{"live_heap_bytes", func(s *sample) *float64 { return &s.LiveHeap }},
	{"goroutines", func(s *sample) *float64 { return &s.Goroutines }},
	{"fds", func(s *sample) *float64 { return &s.FDs }},
	{"cpu_seconds", func(s *sample) *float64 { return &s.CPU }},
	{"messages", func(s *sample) *float64 { return &s.Messages }},
	{"streams", func(s *sample) *float64 { return &s.Streams }},
	{"files", func(s *sample) *float64 { return &s.Files }},
	{"file_bytes", func(s *sample) *float64 { return &s.FileBytes }},
}

// table writes samples as CSV while they come, so that a broken run leaves them.
type table struct {
	file *os.File
	csv  *csv.Writer
}

func newTable(path string) (*table, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	t := &table{file: file, csv: csv.NewWriter(file)}
	header := []string{"seconds"}
	for _, column := range columns {
		header = append(header, column.name)
	}
	return t, t.csv.Write(header)
}

func (t *table) add(s *sample) error {
	row := []string{strconv.FormatFloat(s.At.Seconds(), 'f', 1, 64)}
	for _, column := range columns {
		row = append(row, strconv.FormatFloat(*column.of(s), 'f', -1, 64))
	}
	if err := t.csv.Write(row); err != nil {
		return err
	}
	t.csv.Flush()
	return t.csv.Error()
}

func (t *table) close() error { return t.file.Close() }

// readProcess fills in what the kernel says of a process.
func (s *sample) readProcess(pid int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	if s.RSS, err = numberAfter(string(status), "VmRSS:"); err != nil {
		return err
	}
	s.RSS *= 1024
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	s.FDs = float64(len(fds))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	s.CPU, err = cpuSeconds(string(stat))
	return err
}

// cpuSeconds reads /proc/pid/stat: fields 14 and 15 are user and system time in
// hundredths of a second. The name, field 2, may hold spaces.
func cpuSeconds(stat string) (float64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("not a process state: %q", stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, err
}

// readProfiles fills in what the pprof extension says. A live heap costs a
// garbage collection, so it is not read with every sample.
func (s *sample) readProfiles(endpoint string, liveHeap bool) error {
	text, err := get(endpoint + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return err
	}
	if s.Goroutines, err = numberAfter(text, "goroutine profile: total "); err != nil || !liveHeap {
		return err
	}
	if text, err = get(endpoint + "/debug/pprof/heap?gc=1&debug=1"); err != nil {
		return err
	}
	s.LiveHeap, err = numberAfter(text, "# HeapAlloc = ")
	return err
}

// readFiles fills in what lies in the directory of the trace files.
func (s *sample) readFiles(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue // pruned meanwhile
		case err != nil:
			return err
		}
		s.Files++
		s.FileBytes += float64(info.Size())
	}
	return nil
}

// numberAfter finds the number that follows a word at the start of a line.
func numberAfter(text, word string) (float64, error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), word)
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			return strconv.ParseFloat(fields[0], 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("no line begins with %q", word), lines.Err())
}

func get(url string) (string, error) {
	response, err := http.Get(url) //nolint:noctx // a local endpoint of the test
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: status %d, %w", url, response.StatusCode, err)
	}
	return string(body), nil
}
