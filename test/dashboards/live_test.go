// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
	promtest "github.com/otelcol-fpm/otelcol-fpm/test/prometheus"
)

const (
	ranks = 2
	// The model and the scope are there so that the labels that only some have are.
	model       = "test/model"
	timingScope = "model_step_cuda"
)

// TestEveryQueryReturnsData runs examples/prometheus as it is, with an engine
// that loses records, sends broken ones and restarts, and evaluates everything
// that the example and the documentation ask Prometheus.
func TestEveryQueryReturnsData(t *testing.T) {
	server := startExample(t)
	variables := readVariables(t, server)

	t.Run("documented queries", func(t *testing.T) {
		waitForData(t, server, documentedQueries(t), isFinite)
	})
	t.Run("dashboard", func(t *testing.T) {
		waitForData(t, server, panelQueries(t, variables), isFinite)
		requireLegends(t, server, variables)
	})
	t.Run("recording rules", func(t *testing.T) {
		var recorded []query
		for _, r := range rules(t, recordingFile) {
			recorded = append(recorded, query{r.Record, r.Record})
		}
		waitForData(t, server, recorded, isFinite)
	})
	t.Run("what is not zero here", func(t *testing.T) {
		all := documentedQueries(t)
		growth := slices.IndexFunc(all, func(q query) bool { return strings.Contains(q.expression, "deriv(") })
		waitForData(t, server, slices.Delete(all, growth, growth+1), isPositive)
	})
	t.Run("alerts", func(t *testing.T) {
		// They name own telemetry in the form that the example has it (COL-74).
		waitForData(t, server, []query{
			{"restarts", `ALERTS{alertname="FPMEngineRestarted", instance=~"127.*"}`},
			{"drops", `ALERTS{alertname="FPMCollectorDropping", reason!="", signal="traces"}`},
			{"missing records", `ALERTS{alertname="FPMRecordsMissing", instance="4192", fpm_dp_rank="1"}`},
		}, isPositive)
		require.Empty(t, server.Query(`ALERTS{alertname=~"FPMCollectorDown|FPMEngineSilent", alertstate="firing"}`))
	})
	t.Run("documented labels", func(t *testing.T) { requireDocumentedLabels(t, server) })
}

// drops is added to the example: a backend that refuses all spans, so that there
// are drops to see.
const drops = `
exporters:
  otlp_http: {endpoint: '%s', sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}
service: {pipelines: {traces: {receivers: [fpm], exporters: [otlp_http]}}}
`

func startExample(t *testing.T) *promtest.Server {
	t.Helper()
	engine, binary := syntheticEngine(t), harness.Binary(t)
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, ranks))
	metrics := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1))
	telemetry := harness.FreePorts(t, 1)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(refuses.Close)
	overlay := filepath.Join(t.TempDir(), "drops.yaml")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, drops, refuses.URL), 0o600))

	server := promtest.Start(t, promtest.Options{Config: scrapeConfig(t, metrics, fmt.Sprintf("127.0.0.1:%d", telemetry))})
	run(t, []string{
		"FPM_ENDPOINT=" + endpoint, fmt.Sprintf("FPM_DP_SIZE=%d", ranks), "FPM_MODEL=" + model, "FPM_INTERVAL=500ms",
		"FPM_METRICS_ENDPOINT=" + metrics, fmt.Sprintf("FPM_TELEMETRY_PORT=%d", telemetry),
	}, binary, "--config", path(t, example+"config.yaml"), "--config", overlay)
	// Before the engine, so that its first restart is an increase.
	waitForData(t, server, []query{{"endpoints", `count(fpm_endpoint_restarts_total) == 2`}}, isFinite)
	run(t, nil, engine, "--endpoint", endpoint, fmt.Sprintf("--ranks=%d", ranks), "--timing-scope", timingScope,
		"--passes-per-second=200", "--rate=12", "--kv-tokens=16384", "--drop-percent=3", "--malformed-percent=2", "--restart-every=1000")
	return server
}

// scrapeConfig is the example's, faster and with the test's own addresses.
func scrapeConfig(t *testing.T, metrics, telemetry string) string {
	t.Helper()
	config := read(t, scrapeFile)
	for _, change := range [][2]string{
		{"scrape_interval: 15s", "scrape_interval: 1s"},
		{"evaluation_interval: 15s", "evaluation_interval: 1s"},
		{"127.0.0.1:9464", metrics},
		{"127.0.0.1:8888", telemetry},
		{"- recording.yml", "- " + path(t, recordingFile)},
		{"- alerts.yml", "- " + path(t, alertsFile)},
	} {
		require.Equal(t, 1, strings.Count(config, change[0]), change[0])
		config = strings.Replace(config, change[0], change[1], 1)
	}
	return config
}

// waiting are the queries that have not given data yet.
type waiting []query

func (w *waiting) String() string { return fmt.Sprintf("no data: %q", []query(*w)) }

// waitForData evaluates all queries until each has a sample that satisfies.
func waitForData(t *testing.T, server *promtest.Server, queries []query, satisfies func(float64) bool) {
	t.Helper()
	require.NotEmpty(t, queries)
	rest := waiting(slices.Clone(queries))
	harness.Eventually(t, func() bool {
		rest = slices.DeleteFunc(rest, func(q query) bool {
			return slices.ContainsFunc(server.Query(q.expression), func(s promtest.Series) bool { return satisfies(s.Last()) })
		})
		return len(rest) == 0
	}, "%v", &rest)
}

func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

func isPositive(value float64) bool { return isFinite(value) && value > 0 }

var labelValues = regexp.MustCompile(`^label_values\((.*), ([a-z_]+)\)$`)

// readVariables gives each variable of the dashboard all its values, as Grafana
// does it for a choice of several.
func readVariables(t *testing.T, server *promtest.Server) (variables []string) {
	t.Helper()
	variables = []string{"$__rate_interval", "1m", "$__range", "30m"}
	for _, v := range readDashboard(t).Templating.List[1:] {
		var content struct {
			Query string `json:"query"`
		}
		require.NoError(t, json.Unmarshal(v.Query, &content))
		parts := labelValues.FindStringSubmatch(content.Query)
		require.NotNil(t, parts, content.Query)
		selector, label := strings.NewReplacer(variables...).Replace(parts[1]), parts[2]
		waitForData(t, server, []query{{"variable " + v.Name, selector}}, isFinite)
		var values []string
		for _, series := range server.Query(fmt.Sprintf("count by (%s) (%s)", label, selector)) {
			require.NotEmpty(t, series.Labels[label], v.Name)
			values = append(values, strings.ReplaceAll(regexp.QuoteMeta(series.Labels[label]), `\`, `\\`))
		}
		variables = append(variables, "$"+v.Name, "("+strings.Join(values, "|")+")")
	}
	return variables
}

func panelQueries(t *testing.T, variables []string) (all []query) {
	t.Helper()
	replacer := strings.NewReplacer(variables...)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title + " " + target.RefID, replacer.Replace(target.Expr)})
		}
	}
	return all
}

var legendLabel = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)

// requireLegends wants each label of a legend in the answer.
func requireLegends(t *testing.T, server *promtest.Server, variables []string) {
	t.Helper()
	replacer := strings.NewReplacer(variables...)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			answer := server.Query(replacer.Replace(target.Expr))
			require.NotEmpty(t, answer, p.Title)
			for _, label := range legendLabel.FindAllStringSubmatch(target.Legend, -1) {
				for _, series := range answer {
					require.NotEmpty(t, series.Labels[label[1]], "%s: the answer has no label %s", p.Title, label[1])
				}
			}
		}
	}
}

// requireDocumentedLabels compares the labels of every metric with the tables of
// the documentation.
func requireDocumentedLabels(t *testing.T, server *promtest.Server) {
	t.Helper()
	for _, m := range documentedMetrics(t) {
		want := []string{"instance", "job"}
		if !strings.HasPrefix(m.name, "fpm.endpoint.") {
			want = append(want, "fpm_backend", "fpm_dp_rank", "gen_ai_request_model")
		}
		for attribute := range strings.SplitSeq(m.attributes, ", ") {
			if attribute != "" {
				want = append(want, strings.ReplaceAll(attribute, ".", "_"))
			}
		}
		name := m.prometheus
		if m.kind == "histogram" {
			name += "_count"
		}
		answer := server.Query(name)
		require.NotEmpty(t, answer, m.name)
		for _, series := range answer {
			var got []string
			for label := range series.Labels {
				got = append(got, label)
			}
			require.ElementsMatch(t, want, got, m.name)
		}
	}
}
