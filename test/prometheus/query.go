// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Series is one series of an answer.
type Series struct {
	Name    string            // __name__
	Labels  map[string]string // without __name__
	Samples []Sample          // one for an instant vector, in order of time for a range
}

// Last is the newest value.
func (s *Series) Last() float64 { return s.Samples[len(s.Samples)-1].Value }

// Sample is one point: a number, or a native histogram.
type Sample struct {
	Time      time.Time
	Value     float64
	Histogram *Histogram
}

// Histogram is a native histogram.
type Histogram struct {
	Count, Sum float64
	Buckets    []Bucket
}

// Bucket holds the values above Low, up to High.
type Bucket struct{ Low, High, Count float64 }

// Exemplar is one that the server has stored.
type Exemplar struct {
	Series map[string]string // labels of its series, with __name__
	Labels map[string]string // trace_id, span_id
	Value  float64
	Time   time.Time
}

// Query evaluates an expression now: an instant vector, or a range of raw
// samples such as fpm_records_total[1h].
func (s *Server) Query(expression string) (all []Series) {
	s.tb.Helper()
	var data struct {
		Result []struct {
			Metric     map[string]string `json:"metric"`
			Value      *number           `json:"value"`
			Values     []number          `json:"values"`
			Histogram  *native           `json:"histogram"`
			Histograms []native          `json:"histograms"`
		} `json:"result"`
	}
	s.get("query", url.Values{"query": {expression}}, &data)
	for _, result := range data.Result {
		series := Series{Name: result.Metric["__name__"], Labels: result.Metric}
		delete(series.Labels, "__name__")
		if result.Value != nil {
			result.Values = append(result.Values, *result.Value)
		}
		for _, value := range result.Values {
			series.Samples = append(series.Samples, Sample(value))
		}
		if result.Histogram != nil {
			result.Histograms = append(result.Histograms, *result.Histogram)
		}
		for _, histogram := range result.Histograms {
			series.Samples = append(series.Samples, Sample(histogram))
		}
		all = append(all, series)
	}
	return all
}

// Exemplars gives those of all series that the expression selects.
func (s *Server) Exemplars(expression string) (all []Exemplar) {
	s.tb.Helper()
	var data []struct {
		SeriesLabels map[string]string `json:"seriesLabels"`
		Exemplars    []struct {
			Labels    map[string]string `json:"labels"`
			Value     string            `json:"value"`
			Timestamp float64           `json:"timestamp"`
		} `json:"exemplars"`
	}
	now := time.Now()
	s.get("query_exemplars", url.Values{
		"query": {expression},
		"start": {strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)},
		"end":   {strconv.FormatInt(now.Add(time.Hour).Unix(), 10)},
	}, &data)
	for _, series := range data {
		for _, exemplar := range series.Exemplars {
			value, err := strconv.ParseFloat(exemplar.Value, 64)
			if err != nil {
				s.tb.Fatal(err)
			}
			all = append(all, Exemplar{
				Series: series.SeriesLabels, Labels: exemplar.Labels, Value: value, Time: toTime(exemplar.Timestamp),
			})
		}
	}
	return all
}

// get asks the API and reads the data of its answer.
func (s *Server) get(path string, parameters url.Values, into any) {
	s.tb.Helper()
	response, err := http.Get(s.url + "/api/v1/" + path + "?" + parameters.Encode()) //nolint:noctx // a local server of the test
	if err != nil {
		s.tb.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		s.tb.Fatalf("Prometheus, %v: %s, %v, %s", parameters, response.Status, err, body)
	}
	answer := struct {
		Data any `json:"data"`
	}{into}
	if err := json.Unmarshal(body, &answer); err != nil {
		s.tb.Fatalf("Prometheus, %v: %v in %s", parameters, err, body)
	}
}

// number is [seconds, "value"].
type number Sample

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	var seconds float64
	var value string
	if err := json.Unmarshal(text, &[]any{&seconds, &value}); err != nil {
		return err
	}
	n.Time = toTime(seconds)
	var err error
	n.Value, err = strconv.ParseFloat(value, 64)
	return err
}

// native is [seconds, {count, sum, buckets: [[bounds, "low", "high", "count"]]}].
type native Sample

// UnmarshalJSON implements json.Unmarshaler.
func (n *native) UnmarshalJSON(text []byte) error {
	var seconds float64
	var fields struct {
		Count   json.Number `json:"count"`
		Sum     json.Number `json:"sum"`
		Buckets [][]any     `json:"buckets"`
	}
	if err := json.Unmarshal(text, &[]any{&seconds, &fields}); err != nil {
		return err
	}
	n.Time = toTime(seconds)
	n.Histogram = &Histogram{}
	var countErr, sumErr error
	n.Histogram.Count, countErr = fields.Count.Float64()
	n.Histogram.Sum, sumErr = fields.Sum.Float64()
	for _, bucket := range fields.Buckets {
		b, err := toBucket(bucket)
		if err != nil {
			return err
		}
		n.Histogram.Buckets = append(n.Histogram.Buckets, b)
	}
	return errors.Join(countErr, sumErr)
}

func toBucket(fields []any) (Bucket, error) {
	var b Bucket
	if len(fields) != 4 {
		return b, fmt.Errorf("not a bucket: %v", fields)
	}
	for i, into := range []*float64{&b.Low, &b.High, &b.Count} {
		var err error
		if *into, err = strconv.ParseFloat(fmt.Sprint(fields[i+1]), 64); err != nil {
			return b, err
		}
	}
	return b, nil
}

func toTime(seconds float64) time.Time { return time.UnixMilli(int64(math.Round(seconds * 1000))) }
