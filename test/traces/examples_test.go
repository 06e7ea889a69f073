// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

func example(t *testing.T, elements ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{harness.Root(t), "examples"}, elements...)...))
	require.NoError(t, err)
	return string(content)
}

// ranks is an engine of two ranks for an example, with its environment.
func startRanks(t *testing.T) (publisher *harness.Publisher, sockets [2]int, environment []string) {
	t.Helper()
	publisher = harness.StartPublisher(t)
	port := harness.FreePorts(t, len(sockets))
	for rank := range sockets {
		sockets[rank] = publisher.Bind(fmt.Sprintf("tcp://127.0.0.1:%d", port+rank))
	}
	return publisher, sockets, []string{fmt.Sprintf("FPM_ENDPOINT=tcp://127.0.0.1:%d", port), "FPM_DP_SIZE=2"}
}

// publishRanks publishes to both ranks and returns how many spans that makes.
func publishRanks(t *testing.T, publisher *harness.Publisher, sockets [2]int, count int) (spans int) {
	t.Helper()
	for rank, socket := range sockets {
		publisher.WaitSubscribers(socket, 1)
		publisher.Passes(socket, harness.Passes{Count: count, Seed: int64(rank), WorkerID: "4192", DPRank: int64(rank)})
	}
	for _, sent := range published(t, publisher) {
		spans += len(timedOf(sent))
	}
	return spans
}

// spanIDs are those of the spans. The examples' exporters may send spans twice on a
// machine that is too slow for their timeouts.
func spanIDs(spans []span) map[pcommon.SpanID]bool {
	ids := map[pcommon.SpanID]bool{}
	for _, s := range spans {
		ids[s.SpanID()] = true
	}
	return ids
}

// TestTempoExample starts the example as it is, on ports of its own.
func TestTempoExample(t *testing.T) {
	b := startBackend(t)
	publisher, sockets, environment := startRanks(t)
	collector := harness.Start(t, example(t, "tempo", "config.yaml"), append(environment, "TEMPO_ENDPOINT="+b.endpoint)...)
	spans := publishRanks(t, publisher, sockets, 300)
	collector.WaitSum(metricRecords, nil, 600)
	collector.Stop()
	require.Len(t, spanIDs(b.passes()), spans)
	for _, s := range b.windows() {
		require.Equal(t, "default", s.resource["service.namespace"])
	}
}

var exemplar = regexp.MustCompile(`fpm_forward_pass_duration_seconds_bucket{.*# {.*span_id="([0-9a-f]{16})"`)

// TestFullExample starts the example as it is and looks at each of its ends.
func TestFullExample(t *testing.T) {
	b := startBackend(t)
	publisher, sockets, environment := startRanks(t)
	base := filepath.Join(t.TempDir(), "fpm")
	port := harness.FreePorts(t, 2)
	metrics, health := fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", port+1)
	collector := harness.Start(t, example(t, "full", "config.yaml"), append(environment,
		"OTLP_ENDPOINT="+b.endpoint, "FPM_PATH="+base, "FPM_METRICS_ENDPOINT="+metrics, "FPM_HEALTH_ENDPOINT="+health)...)
	harness.Eventually(t, func() bool {
		body, status := fetch(t, "http://"+health+"/status?verbose", "")
		return status == http.StatusOK && strings.Contains(body, "receiver:fpm")
	}, "the collector is not healthy")
	spans := publishRanks(t, publisher, sockets, 300)

	// Exact metrics, with exemplars that lead to spans.
	page := "http://" + metrics + "/metrics"
	harness.Eventually(t, func() bool {
		return harness.Scrape(t, page).Sum("fpm_records", harness.Labels{"fpm_backend": "dynamo_vllm", "instance": "4192"}) == 600
	}, "fpm_records_total is not 600")
	found := map[string]bool{}
	harness.Eventually(t, func() bool {
		body, _ := fetch(t, page, "application/openmetrics-text; version=1.0.0")
		for _, match := range exemplar.FindAllStringSubmatch(body, -1) {
			found[match[1]] = true
		}
		return len(found) > 0
	}, "no exemplar")

	collector.Stop()
	require.Len(t, spanIDs(b.passes()), spans)
	for _, s := range b.passes() {
		delete(found, s.SpanID().String())
	}
	require.Empty(t, found, "exemplars lead to spans that are not there (COL-109)")
	rows := harness.Rows(t, base)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		require.Equal(t, "sampled", row.CaptureMode)
	}
}

var (
	traceQL       = regexp.MustCompile("(?s)```traceql\n(.*?)```")
	traceQLName   = regexp.MustCompile(`\b(span|resource)\.([a-z_.]+)`)
	traceQLText   = regexp.MustCompile(`([a-z_.]+) *!?= *"([^"]*)"`)
	mentionedName = regexp.MustCompile("`(fpm\\.[a-z_.]+)`")
)

// TestQueriesNameWhatExists: every attribute in the README of the Tempo example is
// on the spans or their resource.
func TestQueriesNameWhatExists(t *testing.T) {
	readme := example(t, "tempo", "README.md")
	exist := emittedNames()
	queries := 0
	for _, block := range traceQL.FindAllStringSubmatch(readme, -1) {
		for _, name := range traceQLName.FindAllStringSubmatch(block[1], -1) {
			require.Contains(t, exist[name[1]], name[2], "%s is on no %s", name[2], name[1])
			queries++
		}
		for _, text := range traceQLText.FindAllStringSubmatch(block[1], -1) {
			if values, known := knownTexts[text[1]]; known {
				require.Contains(t, values, text[2], text[0])
			}
		}
	}
	require.Greater(t, queries, 20)
	for _, name := range mentionedName.FindAllStringSubmatch(readme, -1) {
		if name[1] != fpmpdata.AttrWorkerID { // of logs
			require.Contains(t, exist["span"], name[1])
		}
	}
}

var knownTexts = map[string][]string{
	"name": {fpmpdata.SpanForwardPass, fpmpdata.SpanWindow},
	"span." + fpmpdata.AttrPassKind: {
		fpm.PassPrefill.String(), fpm.PassDecode.String(), fpm.PassMixed.String(), fpm.PassEmpty.String(),
	},
}

// emittedNames are the attributes that a pass and a window with everything have.
func emittedNames() map[string]map[string]bool {
	pass := &fpm.ForwardPass{WorkerID: []byte("w"), WallTime: 1, TimingScope: []byte("scope")}
	pass.Scheduled.HasPrefillLengthVariance, pass.Scheduled.HasDecodeKVVariance = true, true
	pass.Queued.HasPrefillLengthVariance, pass.Queued.HasDecodeKVVariance = true, true
	now := time.Now()
	stream := fpmpdata.NewStreamTraces(&fpmpdata.TracesConfig{Window: time.Hour, MaxSpans: 10}, fpm.StreamKey{}, now)
	id, _ := stream.Add(pass, now)
	worker := fpmpdata.NewWorker(fpmpdata.WorkerIdentity{Backend: "b"}, nil)
	span := &fpmpdata.Span{Worker: worker, ServerPort: 1}
	span.SetPass(pass, id, now)
	builder := fpmpdata.NewTracesBuilder("", "")
	builder.Append(span)
	builder.Append(&fpmpdata.Span{Worker: worker, ServerPort: 1, Root: stream.Close()})
	resource := builder.Take().ResourceSpans().At(0)

	names := map[string]map[string]bool{"span": {}, "resource": {}}
	collect := func(scope string, attributes pcommon.Map) {
		for name := range attributes.All() {
			names[scope][name] = true
		}
	}
	collect("resource", resource.Resource().Attributes())
	for _, s := range resource.ScopeSpans().At(0).Spans().All() {
		collect("span", s.Attributes())
	}
	return names
}
