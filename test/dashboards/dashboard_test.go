// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDashboardIsOneThatGrafana10Imports holds what Grafana needs and does not
// repair by itself when it imports a dashboard.
func TestDashboardIsOneThatGrafana10Imports(t *testing.T) {
	d := readDashboard(t)
	require.NotEmpty(t, d.UID)
	require.NotEmpty(t, d.Title)
	require.GreaterOrEqual(t, d.SchemaVersion, 37)
	require.LessOrEqual(t, d.SchemaVersion, 39, "the last one of Grafana 10")
	ids := map[int]string{}
	for _, p := range d.Panels {
		require.Positive(t, p.ID)
		require.Empty(t, ids[p.ID], "%s has the id of another panel", p.Title)
		ids[p.ID] = p.Title
		require.NotEmpty(t, p.Title)
		if p.Type == "row" {
			require.Empty(t, p.Targets)
			continue
		}
		requirePanel(t, &p)
	}
	requireNoOverlap(t, d.Panels)
}

func requirePanel(t *testing.T, p *panel) {
	t.Helper()
	require.Contains(t, []string{"timeseries", "stat", "heatmap"}, p.Type, p.Title)
	chosen := datasource{Type: "prometheus", UID: "${datasource}"}
	require.Equal(t, &chosen, p.Datasource, p.Title)
	require.NotEmpty(t, p.Targets, p.Title)
	if p.Type != "heatmap" {
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		require.Equal(t, chosen, target.Datasource, p.Title)
		require.NotEmpty(t, target.Legend, p.Title)
		require.NotEmpty(t, target.RefID, p.Title)
		require.False(t, refs[target.RefID], "%s: two queries %s", p.Title, target.RefID)
		refs[target.RefID] = true
	}
}

func requireNoOverlap(t *testing.T, panels []panel) {
	t.Helper()
	for i, p := range panels {
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.Positive(t, p.GridPos.H*p.GridPos.W, p.Title)
		for _, other := range panels[:i] {
			apart := p.GridPos.X >= other.GridPos.X+other.GridPos.W || other.GridPos.X >= p.GridPos.X+p.GridPos.W ||
				p.GridPos.Y >= other.GridPos.Y+other.GridPos.H || other.GridPos.Y >= p.GridPos.Y+p.GridPos.H
			require.True(t, apart, "%s lies on %s", p.Title, other.Title)
		}
	}
}

var variableUse = regexp.MustCompile(`\$\{?([a-zA-Z_]+)`)

// TestDashboardVariables wants a choice of the data source first, and only
// variables that exist.
func TestDashboardVariables(t *testing.T) {
	d := readDashboard(t)
	known := []string{"__rate_interval", "__range"}
	for i, v := range d.Templating.List {
		if i == 0 {
			require.Equal(t, "datasource", v.Name)
			require.Equal(t, "datasource", v.Type)
			require.JSONEq(t, `"prometheus"`, string(v.Query))
		} else {
			require.Equal(t, "query", v.Type, v.Name)
			require.Equal(t, "${datasource}", v.Datasource.UID, v.Name)
			requireKnownVariables(t, string(v.Query), known)
		}
		known = append(known, v.Name)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			requireKnownVariables(t, target.Expr, known)
		}
	}
}

func requireKnownVariables(t *testing.T, text string, known []string) {
	t.Helper()
	for _, use := range variableUse.FindAllStringSubmatch(text, -1) {
		require.True(t, slices.Contains(known, use[1]), "%s in %s is no variable, or one that comes later", use[1], text)
	}
}

// TestDashboardShowsTheBatchComposition_FR34 also holds the rows that an
// engineer looks for.
func TestDashboardShowsTheBatchComposition_FR34(t *testing.T) {
	var rows []string
	for _, p := range readDashboard(t).Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	require.Equal(t, []string{"Throughput", "Pass duration", "Batch composition", "KV cache", "Queue", "Ranks", "Integrity"}, rows)
}
