// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

const exposition = `# TYPE a counter
a_total{job="j",instance="i",text="say \"x\"\nagain"} 3
# TYPE h histogram
h_bucket{le="0.5"} 1 # {trace_id="t",span_id="s"} 0.25
h_bucket{le="+Inf"} 2
h_sum 4.5
h_count 2
# EOF
`

func TestScrapedSamplesComeBack(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		_, _ = io.WriteString(w, exposition)
	}))
	t.Cleanup(target.Close)
	s := Start(t, Options{Target: strings.TrimPrefix(target.URL, "http://"), Features: []string{"exemplar-storage"}})
	got := s.Query("a_total")
	require.Len(t, got, 1, "it has scraped")
	require.Equal(t, "a_total", got[0].Name)
	require.Equal(t, map[string]string{"job": "j", "instance": "i", "text": "say \"x\"\nagain"}, got[0].Labels, "honor_labels")
	require.Equal(t, 3.0, got[0].Last()) //nolint:testifylint // exact
	harness.Eventually(t, func() bool {
		samples := s.Query("a_total[1h]")[0].Samples
		return len(samples) >= 2 && samples[0].Time.Before(samples[1].Time)
	}, "it does not scrape again")

	exemplars := s.Exemplars("h_bucket")
	require.NotEmpty(t, exemplars)
	require.Equal(t, map[string]string{"trace_id": "t", "span_id": "s"}, exemplars[0].Labels)
	require.Equal(t, 0.25, exemplars[0].Value) //nolint:testifylint // exact
	require.Equal(t, "h_bucket", exemplars[0].Series["__name__"])
}

func TestNativeHistogramIsRead(t *testing.T) {
	var n native
	require.NoError(t, n.UnmarshalJSON([]byte(`[1.5,{"count":"3","sum":"2.5","buckets":[[0,"0.5","1","2"],[0,"1","2","1"]]}]`)))
	require.Equal(t, &Histogram{Count: 3, Sum: 2.5, Buckets: []Bucket{{0.5, 1, 2}, {1, 2, 1}}}, n.Histogram)
	require.EqualValues(t, 1500, n.Time.UnixMilli())
	require.Error(t, n.UnmarshalJSON([]byte(`[1.5,{"count":"3","sum":"2.5","buckets":[[0,"0.5"]]}]`)))
}
