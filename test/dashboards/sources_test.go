// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

const (
	documentation = "docs/metrics.md"
	example       = "examples/prometheus/"
	recordingFile = example + "recording.yml"
	alertsFile    = example + "alerts.yml"
	ruleTestsFile = example + "rules_test.yml"
	scrapeFile    = example + "prometheus.yml"
	dashboardFile = example + "dashboard.json"
)

// path is that of a file of the repository.
func path(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(harness.Root(t), filepath.FromSlash(name))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path(t, name))
	require.NoError(t, err)
	return string(text)
}

// query is an expression and where it stands.
type query struct{ where, expression string }

var promqlBlock = regexp.MustCompile("(?ms)^([0-9]+)\\. .*?^ *```promql\n(.*?)^ *```$")

// documentedQueries are the numbered fenced blocks of the documentation.
func documentedQueries(t *testing.T) (all []query) {
	t.Helper()
	for _, block := range promqlBlock.FindAllStringSubmatch(read(t, documentation), -1) {
		all = append(all, query{where: documentation + " query " + block[1], expression: block[2]})
	}
	require.Len(t, all, 12)
	require.Equal(t, 12, strings.Count(read(t, documentation), "```promql"), "a block without a number")
	return all
}

// documentedMetric is a row of a table of the documentation.
type documentedMetric struct{ name, kind, unit, attributes, prometheus string }

func documentedMetrics(t *testing.T) (all []documentedMetric) {
	t.Helper()
	for line := range strings.Lines(read(t, documentation)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 9 || !strings.HasPrefix(line, "| `fpm.") {
			continue
		}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), "`", "")
		}
		require.NotEmpty(t, cells[6], "the meaning of %s", cells[1])
		require.NotEmpty(t, cells[7], "where %s comes from", cells[1])
		all = append(all, documentedMetric{name: cells[1], kind: cells[2], unit: cells[3], attributes: cells[4], prometheus: cells[5]})
	}
	return all
}

// rule is a recording or an alerting rule.
type rule struct {
	Record string `yaml:"record"`
	Alert  string `yaml:"alert"`
	Expr   string `yaml:"expr"`
}

func rules(t *testing.T, file string) (all []rule) {
	t.Helper()
	var content struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, file)), &content))
	for _, group := range content.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// ruleTests are what promtool is to evaluate.
type ruleTests struct {
	Tests []struct {
		Alerts []struct {
			Name     string           `yaml:"alertname"`
			Expected []map[string]any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
		Expressions []struct {
			Expr     string           `yaml:"expr"`
			Expected []map[string]any `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
	} `yaml:"tests"`
}

func readRuleTests(t *testing.T) (all ruleTests) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ruleTestsFile)), &all))
	return all
}

// dashboard is what the tests look at of Grafana's model.
type dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Datasource  *datasource `json:"datasource"`
	GridPos     gridPos     `json:"gridPos"`
	FieldConfig *struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
}

type gridPos struct{ H, W, X, Y int }

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	Datasource datasource `json:"datasource"`
	Expr       string     `json:"expr"`
	Legend     string     `json:"legendFormat"`
	RefID      string     `json:"refId"`
}

type variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Datasource *datasource     `json:"datasource"`
	Query      json.RawMessage `json:"query"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(read(t, dashboardFile)), &d))
	return d
}
