// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// prometheusName is what the Prometheus exporter makes of a metric (COL-96).
func prometheusName(m *fpmpdata.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == fpmpdata.KindSum {
		name += "_total"
	}
	return name
}

// kinds are the words of the documentation.
var kinds = map[fpmpdata.MetricKind]string{
	fpmpdata.KindSum: "counter", fpmpdata.KindGauge: "gauge", fpmpdata.KindHistogram: "histogram",
}

// TestDocumentationHasEveryMetric compares its tables with what is emitted, in
// both directions.
func TestDocumentationHasEveryMetric(t *testing.T) {
	var want, got []documentedMetric
	for _, m := range fpmpdata.Metrics() {
		want = append(want, documentedMetric{name: m.Name, kind: kinds[m.Kind], unit: m.Unit, prometheus: prometheusName(&m)})
	}
	for _, m := range documentedMetrics(t) {
		m.attributes = "" // those are compared with what Prometheus stores
		got = append(got, m)
	}
	require.ElementsMatch(t, want, got)
}

var dottedName = regexp.MustCompile("`(fpm\\.[a-z_.]+)")

// attributes are those of the signals that the documentation may speak of.
var attributes = []string{
	fpmpdata.AttrRecordKind, fpmpdata.AttrPassKind, fpmpdata.AttrTimingScope, fpmpdata.AttrPhase, fpmpdata.AttrDPRank,
	fpmpdata.AttrBackend, fpmpdata.AttrProducerID,
}

func TestDocumentationNamesWhatExists(t *testing.T) {
	known := slices.Clone(attributes)
	for _, m := range fpmpdata.Metrics() {
		known = append(known, m.Name)
	}
	for _, match := range dottedName.FindAllStringSubmatch(read(t, documentation), -1) {
		require.Contains(t, known, match[1])
	}
}

// TestQueriesNameWhatExists looks at every expression: a misspelled name is no
// error for Prometheus, only an empty panel or an alert that never fires.
func TestQueriesNameWhatExists(t *testing.T) {
	known := knownNames(t)
	queries := documentedQueries(t)
	for _, r := range append(rules(t, recordingFile), rules(t, alertsFile)...) {
		queries = append(queries, query{r.Record + r.Alert, r.Expr})
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			queries = append(queries, query{p.Title, target.Expr})
		}
	}
	for _, v := range readDashboard(t).Templating.List {
		queries = append(queries, query{v.Name, string(v.Query)})
	}
	seen := map[string]bool{}
	for _, q := range queries {
		for _, name := range namesIn(q.expression) {
			require.True(t, known[name], "%s: there is no %s", q.where, name)
			seen[name] = true
		}
		require.NotRegexp(t, `\b(on|ignoring|group_left|group_right|target_info)\b`, q.expression, "%s: a join", q.where)
	}
	for _, r := range rules(t, recordingFile) {
		require.True(t, known[r.Record])
	}
	require.Greater(t, len(seen), 20)
}

var ownName = regexp.MustCompile(`\b(?:fpm|otelcol|rank|worker)[_:][a-zA-Z0-9_:]+`)

// namesIn are the metric names of ours in an expression, without labels and
// without what is in quotes.
func namesIn(expression string) (names []string) {
	for _, name := range ownName.FindAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expression, ""), -1) {
		if !slices.ContainsFunc(attributes, func(a string) bool { return strings.ReplaceAll(a, ".", "_") == name }) {
			names = append(names, name)
		}
	}
	return names
}

func knownNames(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, m := range fpmpdata.Metrics() {
		name := prometheusName(&m)
		if m.Kind != fpmpdata.KindHistogram {
			known[name] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			known[name+suffix] = true
		}
	}
	for _, r := range rules(t, recordingFile) {
		known[r.Record] = true
	}
	for _, name := range ownTelemetry(t) {
		known[name] = true
	}
	return known
}

// ownTelemetry are the metrics of the components about themselves, in the form of
// the collector's default port: without _total (COL-74).
func ownTelemetry(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(t), "*", "*", "documentation.md"))
	require.NoError(t, err)
	for _, file := range files {
		relative, err := filepath.Rel(harness.Root(t), file)
		require.NoError(t, err)
		for line := range strings.Lines(read(t, relative)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "### otelcol_"); ok {
				names = append(names, "otelcol_"+name)
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}
