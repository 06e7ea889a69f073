// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// AppendPayload encodes p as a whole version 1 payload in wire order (fpm-stream.md 5.2), as a producer does: minimal
// integers, float64. Variances without their Has flag are left out, timing_scope when it is nil.
func AppendPayload(dst []byte, p *ForwardPass) []byte {
	pairs := 7
	if p.TimingScope != nil {
		pairs++
	}
	dst = AppendMapHeader(dst, pairs)
	dst = AppendInt(AppendString(dst, keyVersion), payloadVersion)
	dst = appendStringBytes(AppendString(dst, keyWorkerID), p.WorkerID)
	dst = AppendInt(AppendString(dst, keyDPRank), p.DPRank)
	dst = AppendInt(AppendString(dst, keyCounterID), p.CounterID)
	if p.TimingScope != nil {
		dst = appendStringBytes(AppendString(dst, keyTimingScope), p.TimingScope)
	}
	dst = AppendFloat(AppendString(dst, keyWallTime), p.WallTime)
	dst = appendScheduled(AppendString(dst, keyScheduledRequests), &p.Scheduled)
	return appendQueued(AppendString(dst, keyQueuedRequests), &p.Queued)
}

func appendScheduled(dst []byte, s *Scheduled) []byte {
	dst = AppendMapHeader(dst, 5+countTrue(s.HasPrefillLengthVariance, s.HasDecodeKVVariance))
	dst = AppendInt(AppendString(dst, keyNumPrefillRequests), s.PrefillRequests)
	dst = AppendInt(AppendString(dst, keySumPrefillTokens), s.PrefillTokens)
	dst = appendVariance(dst, keyVarPrefillLength, s.PrefillLengthVariance, s.HasPrefillLengthVariance)
	dst = AppendInt(AppendString(dst, keySumPrefillKVTokens), s.PrefillKVTokens)
	dst = AppendInt(AppendString(dst, keyNumDecodeRequests), s.DecodeRequests)
	dst = AppendInt(AppendString(dst, keySumDecodeKVTokens), s.DecodeKVTokens)
	return appendVariance(dst, keyVarDecodeKVTokens, s.DecodeKVVariance, s.HasDecodeKVVariance)
}

func appendQueued(dst []byte, q *Queued) []byte {
	dst = AppendMapHeader(dst, 4+countTrue(q.HasPrefillLengthVariance, q.HasDecodeKVVariance))
	dst = AppendInt(AppendString(dst, keyNumPrefillRequests), q.PrefillRequests)
	dst = AppendInt(AppendString(dst, keySumPrefillTokens), q.PrefillTokens)
	dst = appendVariance(dst, keyVarPrefillLength, q.PrefillLengthVariance, q.HasPrefillLengthVariance)
	dst = AppendInt(AppendString(dst, keyNumDecodeRequests), q.DecodeRequests)
	dst = AppendInt(AppendString(dst, keySumDecodeKVTokens), q.DecodeKVTokens)
	return appendVariance(dst, keyVarDecodeKVTokens, q.DecodeKVVariance, q.HasDecodeKVVariance)
}

func appendVariance(dst []byte, key string, variance float64, has bool) []byte {
	if !has {
		return dst
	}
	return AppendFloat(AppendString(dst, key), variance)
}

func countTrue(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}
