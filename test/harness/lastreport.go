// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// LastReport is the own telemetry that a collector pushes when it ends, which no
// scrape can see.
type LastReport struct {
	tb      testing.TB
	mu      sync.Mutex
	samples Samples
}

// StartReporting is Start with a second reader, whose interval is longer than any
// test: what it pushes is the last collection of the shutdown.
func StartReporting(tb testing.TB, config string) (*Collector, *LastReport) {
	tb.Helper()
	r := &LastReport{tb: tb}
	server := httptest.NewServer(http.HandlerFunc(r.take))
	tb.Cleanup(server.Close)
	reader := fmt.Sprintf(", {periodic: {interval: 86400000, exporter: {otlp: {protocol: http/protobuf, endpoint: '%s'}}}}", server.URL)
	c := launch(tb, config, reader, nil)
	c.WaitLog(readyMessage)
	time.Sleep(settle)
	return c, r
}

// Samples is the last report; none before the end.
func (r *LastReport) Samples() Samples {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.samples
}

func (r *LastReport) take(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer is success
	body, err := io.ReadAll(request.Body)
	if err != nil {
		r.tb.Errorf("the last report: %v", err)
		return
	}
	metrics, err := new(pmetric.ProtoUnmarshaler).UnmarshalMetrics(body)
	if err != nil {
		r.tb.Errorf("the last report: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range metrics.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				r.samples = append(r.samples, numbers(metric)...)
			}
		}
	}
}

// numbers are the points of a sum or a gauge, named as in a scrape.
func numbers(metric pmetric.Metric) (samples Samples) {
	points := pmetric.NewNumberDataPointSlice()
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		points = metric.Sum().DataPoints()
	case pmetric.MetricTypeGauge:
		points = metric.Gauge().DataPoints()
	default: // no histogram is looked at
	}
	for _, point := range points.All() {
		sample := Sample{Name: metric.Name(), Labels: map[string]string{}, Value: point.DoubleValue()}
		if point.ValueType() == pmetric.NumberDataPointValueTypeInt {
			sample.Value = float64(point.IntValue())
		}
		for name, value := range point.Attributes().All() {
			sample.Labels[name] = value.AsString()
		}
		samples = append(samples, sample)
	}
	return samples
}
