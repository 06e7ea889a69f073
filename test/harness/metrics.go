// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Samples are the points of a Prometheus endpoint.
type Samples []Sample

// Sample is one point.
type Sample struct {
	Name   string // without the suffix _total
	Labels map[string]string
	Value  float64
}

// Labels select points: those that have all of them.
type Labels map[string]string

// Sum adds up the points of a metric that have the labels. No point is 0.
func (s Samples) Sum(name string, labels Labels) (sum float64) {
	for _, sample := range s {
		if sample.matches(name, labels) {
			sum += sample.Value
		}
	}
	return sum
}

// By gives the sums of a metric by the value of one label.
func (s Samples) By(name, label string, labels Labels) map[string]float64 {
	sums := map[string]float64{}
	for _, sample := range s {
		if sample.matches(name, labels) {
			sums[sample.Labels[label]] += sample.Value
		}
	}
	return sums
}

func (s Sample) matches(name string, labels Labels) bool {
	if s.Name != name {
		return false
	}
	for label, value := range labels {
		if s.Labels[label] != value {
			return false
		}
	}
	return true
}

// Metrics scrapes the collector's own telemetry.
func (c *Collector) Metrics() Samples {
	c.tb.Helper()
	return Scrape(c.tb, c.telemetry)
}

// WaitSum waits until a metric of the own telemetry has exactly this sum.
func (c *Collector) WaitSum(name string, labels Labels, want float64) {
	c.tb.Helper()
	got := 0.0
	Eventually(c.tb, func() bool {
		got = c.Metrics().Sum(name, labels)
		return got >= want
	}, "%s %v has not reached %v", name, labels, want)
	if got != want {
		c.tb.Fatalf("%s %v is %v, want %v", name, labels, got, want)
	}
}

// Scrape reads a Prometheus endpoint.
func Scrape(tb testing.TB, url string) Samples {
	tb.Helper()
	return ScrapeAs(tb, url, "")
}

// ScrapeAs asks for one of the text formats, by the value of Accept.
func ScrapeAs(tb testing.TB, url, accept string) Samples {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK ||
		!strings.HasPrefix(response.Header.Get("Content-Type"), cmp.Or(accept, "text/plain")) {
		tb.Fatalf("%s: status %d, %v", url, response.StatusCode, err)
	}
	samples, err := parseSamples(string(body))
	if err != nil {
		tb.Fatalf("%s: %v", url, err)
	}
	return samples
}

// parseSamples reads the text format without types and exemplars.
func parseSamples(text string) (samples Samples, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		sample, err := parseSample(line)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		samples = append(samples, sample)
	}
	return samples, nil
}

func parseSample(line string) (Sample, error) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return Sample{}, errors.New("no value")
	}
	sample := Sample{Name: strings.TrimSuffix(line[:end], "_total"), Labels: map[string]string{}}
	rest := line[end:]
	for strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, ",") {
		if rest = rest[1:]; strings.HasPrefix(rest, "}") {
			break
		}
		name, quoted, found := strings.Cut(rest, "=")
		if !found {
			return Sample{}, errors.New("a label without value")
		}
		prefix, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return Sample{}, err
		}
		if sample.Labels[name], err = strconv.Unquote(prefix); err != nil {
			return Sample{}, err
		}
		rest = quoted[len(prefix):]
	}
	value, _, _ := strings.Cut(strings.TrimLeft(rest, "} "), " ")
	var err error
	sample.Value, err = strconv.ParseFloat(value, 64)
	return sample, err
}
