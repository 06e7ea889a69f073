// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm/fpmtest"
)

func TestVectors_STR95(t *testing.T) {
	var d Decoder // one for all, as it is used
	for _, v := range fpmtest.Vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			payload := v.Payload
			var into ForwardPass
			err := d.Decode(payload, 0, &into)
			if !v.Valid {
				var reason Reason
				require.ErrorAs(t, err, &reason)
				require.Equal(t, v.Reason, reason.String())
				return
			}
			require.NoError(t, err)
			if v.RowFPM != "" {
				require.Equal(t, v.RowFPM, cursorJSON(d.Canonical(&into)))
			}
			requireAgreesWithReference(t, &d, payload)
		})
	}
}

// The vectors prove the reference too, which proves the decoder wherever the vectors don't reach.
func TestVectorsHoldForReference_STR95(t *testing.T) {
	for _, v := range fpmtest.Vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got := refDecode(v.Payload, defaultMaxSize, false, 0)
			if !v.Valid {
				require.Equal(t, v.Reason, got.reason.String())
				return
			}
			require.Zero(t, got.reason)
			if v.RowFPM != "" {
				require.Equal(t, v.RowFPM, got.canonical)
			}
		})
	}
}

func TestGoldenRow(t *testing.T) {
	row := fpmtest.GoldenRow()
	require.Equal(t, "5c8634f0f214d376f8ac8cc194f138d1ea861ff46ba572d1a9c41acc137512ab", fmt.Sprintf("%x", sha256.Sum256(row)))
	got, _ := canonicalJSON(t, goldenPayload(t))
	require.Contains(t, string(row), `"fpm":`+got+"}}\n")
}
