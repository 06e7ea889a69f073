// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Row is one line of a trace file, read with the standard library alone.
type Row struct {
	File        string
	Timestamp   uint64
	Schema      string
	Namespace   string
	Component   string
	ProducerID  string
	CaptureMode string
	ObservedMS  uint64
	FPM         string // the exact text of the payload object
}

// envelope has the outer parts of a row (ROW-2 to ROW-4).
type envelope struct {
	Timestamp uint64 `json:"timestamp"`
	Event     struct {
		Schema string `json:"schema"`
		Source struct {
			Namespace  string `json:"namespace"`
			Component  string `json:"component"`
			ProducerID string `json:"producer_id"`
		} `json:"source"`
		CaptureMode string          `json:"capture_mode"`
		ObservedMS  uint64          `json:"observed_at_unix_ms"`
		FPM         json.RawMessage `json:"fpm"`
	} `json:"event"`
}

// Rows reads all segments of a base in index order. Every one must be whole.
func Rows(tb testing.TB, base string) (rows []Row) {
	tb.Helper()
	for _, path := range Segments(tb, base) {
		of, torn := ReadSegment(tb, path)
		if torn {
			tb.Fatalf("%s is torn", path)
		}
		rows = append(rows, of...)
	}
	return rows
}

// ByProducer groups rows by their producer id, in the order in which they stand.
func ByProducer(rows []Row) map[string][]Row {
	groups := map[string][]Row{}
	for _, row := range rows {
		groups[row.ProducerID] = append(groups[row.ProducerID], row)
	}
	return groups
}

// Segments lists the segments of a base, for each producer in index order.
func Segments(tb testing.TB, base string) []string {
	tb.Helper()
	paths, err := filepath.Glob(base + ".*.jsonl.gz")
	if err != nil {
		tb.Fatal(err)
	}
	slices.SortFunc(paths, func(a, b string) int {
		producerA, indexA := splitSegment(tb, a)
		producerB, indexB := splitSegment(tb, b)
		if c := strings.Compare(producerA, producerB); c != 0 {
			return c
		}
		return int(indexA - indexB)
	})
	return paths
}

// splitSegment cuts a name into what stands before the index, and the index.
func splitSegment(tb testing.TB, path string) (producer string, index uint64) {
	tb.Helper()
	stem := strings.TrimSuffix(path, ".jsonl.gz")
	dot := strings.LastIndexByte(stem, '.')
	index, err := strconv.ParseUint(stem[dot+1:], 10, 63)
	if err != nil {
		tb.Fatalf("%s is not the name of a segment: %v", path, err)
	}
	return stem[:dot], index
}

// ReadSegment returns the rows of all whole members, and whether a torn one
// follows. Any other fault fails the test.
func ReadSegment(tb testing.TB, path string) (rows []Row, torn bool) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	source := bufio.NewReader(bytes.NewReader(data))
	for {
		text, err := readMember(source)
		switch {
		case errors.Is(err, io.EOF):
			return rows, false
		case errors.Is(err, io.ErrUnexpectedEOF):
			return rows, true
		case err != nil:
			tb.Fatalf("%s, after %d rows: %v", path, len(rows), err)
		}
		for line := range strings.Lines(text) {
			row, err := parseRow(line)
			if err != nil {
				tb.Fatalf("%s, after %d rows: %v in %q", path, len(rows), err, line)
			}
			row.File = path
			rows = append(rows, row)
		}
	}
}

// readMember returns the text of the next gzip member. io.EOF: there is none;
// io.ErrUnexpectedEOF: it is torn.
func readMember(source *bufio.Reader) (string, error) {
	if _, err := source.Peek(1); err != nil {
		return "", io.EOF
	}
	reader, err := gzip.NewReader(source)
	if errors.Is(err, io.EOF) {
		return "", io.ErrUnexpectedEOF // cut inside the header
	}
	if err != nil {
		return "", err
	}
	reader.Multistream(false)
	text, err := io.ReadAll(reader)
	return string(text), err
}

func parseRow(line string) (Row, error) {
	if !strings.HasSuffix(line, "\n") {
		return Row{}, errors.New("a member ends within a row (FIL-13)")
	}
	var e envelope
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return Row{}, fmt.Errorf("not a row: %w", err)
	}
	return Row{
		Timestamp:   e.Timestamp,
		Schema:      e.Event.Schema,
		Namespace:   e.Event.Source.Namespace,
		Component:   e.Event.Source.Component,
		ProducerID:  e.Event.Source.ProducerID,
		CaptureMode: e.Event.CaptureMode,
		ObservedMS:  e.Event.ObservedMS,
		FPM:         string(e.Event.FPM),
	}, nil
}
