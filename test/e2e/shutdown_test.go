// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/test/harness"
)

// TestSIGTERMFlushesEverything_FR24 ends the collector while all records are still
// in queues: every one of them is a row (FIL-63, FR-31).
func TestSIGTERMFlushesEverything_FR24(t *testing.T) {
	const records = 5000
	for name, exporter := range map[string]string{
		"buffered": `{path: '%[1]s', flush_interval: 1h, flush_bytes: 1GiB}`,
		"flushed":  `{path: '%[1]s', durability: flushed}`,
		"synced_in_batches": `{path: '%[1]s', durability: synced,
    sending_queue: {batch: {flush_timeout: 1h, min_size: 1000000, max_size: 0}}}`,
		// A stored queue is not drained: the next start writes the rest.
		"synced_stored_queue": `{path: '%[1]s', durability: synced,
    sending_queue: {storage: file_storage, batch: {flush_timeout: 1h, min_size: 1000000, max_size: 0}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			base := filepath.Join(dir, "rows")
			stored := strings.Contains(name, "stored")
			endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", harness.FreePorts(t, 1))
			config := flushConfig(endpoint, fmt.Sprintf(exporter, base), filepath.Join(dir, "queue"), stored)

			publisher := harness.StartPublisher(t)
			socket := publisher.Bind(endpoint)
			collector := harness.Start(t, config)
			publisher.WaitSubscribers(socket, 1)
			publisher.Passes(socket, harness.Passes{Count: records, Seed: 5, WorkerID: "w"})
			collector.WaitSum(metricMessages, nil, records)
			collector.Stop()
			publisher.Close(socket)

			if stored {
				collector = harness.Start(t, strings.Replace(config, "flush_timeout: 1h", "flush_timeout: 100ms", 1))
				harness.Eventually(t, func() bool { return len(harness.Rows(t, base)) == records }, "the stored queue is not written")
				collector.Stop()
			}
			requireSame(t, publisher.Sent(), harness.Rows(t, base))
		})
	}
}

func flushConfig(endpoint, exporter, storage string, stored bool) string {
	extension, use := "", ""
	if stored {
		extension = fmt.Sprintf("extensions:\n  file_storage: {directory: '%s', create_directory: true, fsync: true}\n", storage)
		use = "  extensions: [file_storage]\n"
	}
	return fmt.Sprintf(`
receivers:
  fpm: {endpoint: '%s'}
exporters:
  fpm_trace: %s
%sservice:
%s  pipelines:
    logs: {receivers: [fpm], exporters: [fpm_trace]}
`, endpoint, exporter, extension, use)
}

// requireSame wants every record as one row, in order.
func requireSame(t *testing.T, sent []harness.Sent, rows []harness.Row) {
	t.Helper()
	require.Len(t, rows, len(sent))
	for i, s := range sent {
		if s.FPM != rows[i].FPM {
			require.Equal(t, s.FPM, rows[i].FPM, "row %d", i)
		}
	}
}
