// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The reference decoder: slow, simple, and of another build than the product. It makes a tree of the whole payload first
// and judges afterwards. It shares no code with the decoder but the type Reason.

type refKind int

const (
	refNil refKind = iota
	refBool
	refInt
	refFloat
	refString
	refBytes
	refArray
	refMap
)

type refPair struct {
	key   string
	value refValue
}

// refInteger covers what msgpack can hold, -2^63 to 2^64-1; zero is never negative.
type refInteger struct {
	negative  bool
	magnitude uint64
}

func (i refInteger) String() string {
	if i.negative {
		return "-" + strconv.FormatUint(i.magnitude, 10)
	}
	return strconv.FormatUint(i.magnitude, 10)
}

// big tells an integer above 2^63-1.
func (i refInteger) big() bool {
	return !i.negative && i.magnitude > math.MaxInt64
}

func refNonNegative(v uint64) refValue {
	return refValue{kind: refInt, int: refInteger{magnitude: v}}
}

type refValue struct {
	kind  refKind
	truth bool
	int   refInteger
	float float64
	text  string
	items []refValue
	pairs []refPair
}

// refFault carries a reason out of the parser.
type refFault struct{ reason Reason }

// refParse makes a tree of the payload, duplicates and all, or gives the reason against its structure.
func refParse(payload []byte) (tree refValue, reason Reason) {
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(refFault)
			if !ok {
				panic(r)
			}
			reason = fault.reason
		}
	}()
	if len(payload) > 0 && payload[0]>>4 != 8 && payload[0] != 0xde && payload[0] != 0xdf {
		return refValue{}, ReasonNotAMap
	}
	in := bytes.NewBuffer(payload)
	tree = refRead(in, 1)
	if in.Len() > 0 {
		return refValue{}, ReasonTrailingBytes
	}
	return tree, 0
}

func refTake(in *bytes.Buffer, n uint64) []byte {
	if n > uint64(in.Len()) {
		panic(refFault{ReasonTruncated})
	}
	return in.Next(int(n))
}

func refUnsigned(in *bytes.Buffer, size uint64) uint64 {
	v := uint64(0)
	for _, b := range refTake(in, size) {
		v = v*256 + uint64(b)
	}
	return v
}

func refSigned(in *bytes.Buffer, size uint64) refValue {
	v := refUnsigned(in, size)
	sign := uint64(1) << (8*size - 1)
	if v < sign {
		return refNonNegative(v)
	}
	return refValue{kind: refInt, int: refInteger{negative: true, magnitude: sign - (v - sign)}}
}

func refText(in *bytes.Buffer, n uint64) string {
	s := string(refTake(in, n))
	if !utf8.ValidString(s) {
		panic(refFault{ReasonInvalidUTF8})
	}
	return s
}

// refRead reads the value that is next; a map or array there is at that level.
func refRead(in *bytes.Buffer, level int) refValue {
	m := refTake(in, 1)[0]
	switch {
	case m < 0x80:
		return refNonNegative(uint64(m))
	case m < 0x90:
		return refReadMap(in, level, func() uint64 { return uint64(m - 0x80) })
	case m < 0xa0:
		return refReadArray(in, level, func() uint64 { return uint64(m - 0x90) })
	case m < 0xc0:
		return refValue{kind: refString, text: refText(in, uint64(m-0xa0))}
	case m >= 0xe0:
		return refValue{kind: refInt, int: refInteger{negative: true, magnitude: 256 - uint64(m)}}
	}
	length := func(size uint64) func() uint64 { return func() uint64 { return refUnsigned(in, size) } }
	raw := func(n uint64) refValue { return refValue{kind: refBytes, text: string(refTake(in, n))} }
	switch m {
	case 0xc0:
		return refValue{kind: refNil}
	case 0xc2, 0xc3:
		return refValue{kind: refBool, truth: m == 0xc3}
	case 0xc4:
		return raw(length(1)())
	case 0xc5:
		return raw(length(2)())
	case 0xc6:
		return raw(length(4)())
	case 0xc7:
		return raw(length(1)() + 1)
	case 0xc8:
		return raw(length(2)() + 1)
	case 0xc9:
		return raw(length(4)() + 1)
	case 0xca:
		return refValue{kind: refFloat, float: float64(math.Float32frombits(uint32(refUnsigned(in, 4))))}
	case 0xcb:
		return refValue{kind: refFloat, float: math.Float64frombits(refUnsigned(in, 8))}
	case 0xcc, 0xcd, 0xce, 0xcf:
		return refNonNegative(refUnsigned(in, 1<<(m-0xcc)))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		return refSigned(in, 1<<(m-0xd0))
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return raw(1<<(m-0xd4) + 1)
	case 0xd9:
		return refValue{kind: refString, text: refText(in, length(1)())}
	case 0xda:
		return refValue{kind: refString, text: refText(in, length(2)())}
	case 0xdb:
		return refValue{kind: refString, text: refText(in, length(4)())}
	case 0xdc:
		return refReadArray(in, level, length(2))
	case 0xdd:
		return refReadArray(in, level, length(4))
	case 0xde:
		return refReadMap(in, level, length(2))
	case 0xdf:
		return refReadMap(in, level, length(4))
	default:
		panic(refFault{ReasonWrongType})
	}
}

func refReadArray(in *bytes.Buffer, level int, length func() uint64) refValue {
	if level > 16 {
		panic(refFault{ReasonTooDeep})
	}
	n := length()
	if n > uint64(in.Len()) {
		panic(refFault{ReasonTruncated})
	}
	v := refValue{kind: refArray}
	for range n {
		v.items = append(v.items, refRead(in, level+1))
	}
	return v
}

func refReadMap(in *bytes.Buffer, level int, length func() uint64) refValue {
	if level > 16 {
		panic(refFault{ReasonTooDeep})
	}
	n := length()
	if 2*n > uint64(in.Len()) {
		panic(refFault{ReasonTruncated})
	}
	v := refValue{kind: refMap, pairs: make([]refPair, 0, min(n, 16))}
	for range n {
		if in.Len() == 0 {
			panic(refFault{ReasonTruncated})
		}
		if m := in.Bytes()[0]; m>>5 != 5 && m != 0xd9 && m != 0xda && m != 0xdb {
			panic(refFault{ReasonBadKey})
		}
		key := refRead(in, level+1).text
		v.pairs = append(v.pairs, refPair{key: key, value: refRead(in, level+1)})
	}
	return v
}

// refDedupe resolves duplicate keys everywhere: last value, first position.
func refDedupe(v refValue) refValue {
	out := v
	out.items, out.pairs = nil, nil
	for _, item := range v.items {
		out.items = append(out.items, refDedupe(item))
	}
	if v.kind != refMap {
		return out
	}
	at := make(map[string]int, len(v.pairs))
	out.pairs = make([]refPair, 0, len(v.pairs))
	for _, p := range v.pairs {
		p.value = refDedupe(p.value)
		if i, ok := at[p.key]; ok {
			out.pairs[i].value = p.value
			continue
		}
		at[p.key] = len(out.pairs)
		out.pairs = append(out.pairs, p)
	}
	return out
}

func (v refValue) get(key string) *refValue {
	for i := range v.pairs {
		if v.pairs[i].key == key {
			return &v.pairs[i].value
		}
	}
	return nil
}

func refJudgeCount(v *refValue) Reason {
	switch {
	case v == nil:
		return ReasonMissingField
	case v.kind != refInt:
		return ReasonWrongType
	case v.int.negative || v.int.big():
		return ReasonOutOfRange
	}
	return 0
}

func refJudgeMeasure(v *refValue) Reason {
	switch {
	case v == nil:
		return ReasonMissingField
	case v.kind == refInt && v.int.negative:
		return ReasonOutOfRange
	case v.kind == refFloat && (v.float < 0 || math.IsNaN(v.float) || math.IsInf(v.float, 0)):
		return ReasonOutOfRange
	case v.kind != refInt && v.kind != refFloat:
		return ReasonWrongType
	}
	return 0
}

func refJudgeRequests(v *refValue, keys []string) Reason {
	if v == nil {
		return ReasonMissingField
	}
	if v.kind != refMap {
		return ReasonWrongType
	}
	for _, key := range keys {
		r := refJudgeCount(v.get(key))
		if strings.HasPrefix(key, "var_") {
			if v.get(key) == nil {
				continue
			}
			r = refJudgeMeasure(v.get(key))
		}
		if r != 0 {
			return r
		}
	}
	return 0
}

var (
	refScheduledKeys = []string{
		"num_prefill_requests", "sum_prefill_tokens", "var_prefill_length", "sum_prefill_kv_tokens",
		"num_decode_requests", "sum_decode_kv_tokens", "var_decode_kv_tokens",
	}
	refQueuedKeys = []string{
		"num_prefill_requests", "sum_prefill_tokens", "var_prefill_length",
		"num_decode_requests", "sum_decode_kv_tokens", "var_decode_kv_tokens",
	}
)

// refJudge judges the fields of a payload without duplicates, in the order of the wire table.
func refJudge(top refValue) Reason {
	version := top.get("version")
	switch {
	case version == nil:
		return ReasonMissingField
	case version.kind != refInt:
		return ReasonWrongType
	case version.int != refInteger{magnitude: 1}:
		return ReasonUnsupportedVersion
	}
	worker := top.get("worker_id")
	if worker == nil {
		return ReasonMissingField
	}
	if worker.kind != refString {
		return ReasonWrongType
	}
	for _, r := range []Reason{
		refJudgeCount(top.get("dp_rank")),
		refJudgeCount(top.get("counter_id")),
		refJudgeMeasure(top.get("wall_time")),
		refJudgeRequests(top.get("scheduled_requests"), refScheduledKeys),
		refJudgeRequests(top.get("queued_requests"), refQueuedKeys),
	} {
		if r != 0 {
			return r
		}
	}
	return 0
}

// refFillLegacy adds the two keys when both lack.
func refFillLegacy(top refValue, seq uint64) (refValue, bool) {
	if top.get("version") != nil || top.get("counter_id") != nil {
		return top, false
	}
	out := refValue{kind: refMap, pairs: []refPair{{key: "version", value: refNonNegative(1)}}}
	for _, p := range top.pairs {
		out.pairs = append(out.pairs, p)
		if p.key == "dp_rank" {
			out.pairs = append(out.pairs, refPair{key: "counter_id", value: refNonNegative(seq)})
		}
	}
	return out, true
}

// refCanonical leaves out what can't be written and turns NaN and infinities into nil; ok is false for a value that takes
// its map entry with it.
func refCanonical(v refValue) (out refValue, skipped int, ok bool) {
	switch v.kind {
	case refBytes:
		return v, 0, false
	case refFloat:
		if math.IsNaN(v.float) || math.IsInf(v.float, 0) {
			return refValue{kind: refNil}, 0, true
		}
	}
	out = v
	out.items, out.pairs = nil, nil
	for _, item := range v.items {
		c, n, ok := refCanonical(item)
		if !ok {
			return v, 0, false
		}
		skipped += n
		out.items = append(out.items, c)
	}
	out.pairs = slices.Grow(out.pairs, len(v.pairs))
	for _, p := range v.pairs {
		c, n, ok := refCanonical(p.value)
		if !ok {
			skipped++
			continue
		}
		skipped += n
		out.pairs = append(out.pairs, refPair{key: p.key, value: c})
	}
	return out, skipped, true
}

func (v refValue) hasBigInt() bool {
	if v.kind == refInt && v.int.big() {
		return true
	}
	for _, item := range v.items {
		if item.hasBigInt() {
			return true
		}
	}
	for _, p := range v.pairs {
		if p.value.hasBigInt() {
			return true
		}
	}
	return false
}

// refResult is everything that the reference has to say about a payload.
type refResult struct {
	reason    Reason
	view      ForwardPass
	canonical string // JSON text
}

func refDecode(payload []byte, maxSize int, acceptLegacy bool, seq uint64) refResult {
	if len(payload) > maxSize {
		return refResult{reason: ReasonOversize}
	}
	raw, reason := refParse(payload)
	if reason != 0 {
		return refResult{reason: reason}
	}
	top, legacy := refDedupe(raw), false
	if acceptLegacy {
		top, legacy = refFillLegacy(top, seq)
	}
	if reason := refJudge(top); reason != 0 {
		return refResult{reason: reason}
	}
	canonical, skipped, _ := refCanonical(top)
	view := refView(top)
	view.SkippedFields = skipped
	view.BigInt = raw.hasBigInt()
	view.Legacy = legacy
	return refResult{view: view, canonical: canonical.json()}
}

func refView(top refValue) ForwardPass {
	p := ForwardPass{
		WorkerID:  []byte(top.get("worker_id").text),
		DPRank:    top.get("dp_rank").int64(),
		CounterID: top.get("counter_id").int64(),
		WallTime:  top.get("wall_time").asFloat(),
	}
	if scope := top.get("timing_scope"); scope != nil && scope.kind == refString {
		p.TimingScope = []byte(scope.text)
	}
	s, q := top.get("scheduled_requests"), top.get("queued_requests")
	p.Scheduled = Scheduled{
		PrefillRequests: s.get("num_prefill_requests").int64(),
		PrefillTokens:   s.get("sum_prefill_tokens").int64(),
		PrefillKVTokens: s.get("sum_prefill_kv_tokens").int64(),
		DecodeRequests:  s.get("num_decode_requests").int64(),
		DecodeKVTokens:  s.get("sum_decode_kv_tokens").int64(),
	}
	p.Scheduled.PrefillLengthVariance, p.Scheduled.HasPrefillLengthVariance = s.optional("var_prefill_length")
	p.Scheduled.DecodeKVVariance, p.Scheduled.HasDecodeKVVariance = s.optional("var_decode_kv_tokens")
	p.Queued = Queued{
		PrefillRequests: q.get("num_prefill_requests").int64(),
		PrefillTokens:   q.get("sum_prefill_tokens").int64(),
		DecodeRequests:  q.get("num_decode_requests").int64(),
		DecodeKVTokens:  q.get("sum_decode_kv_tokens").int64(),
	}
	p.Queued.PrefillLengthVariance, p.Queued.HasPrefillLengthVariance = q.optional("var_prefill_length")
	p.Queued.DecodeKVVariance, p.Queued.HasDecodeKVVariance = q.optional("var_decode_kv_tokens")
	return p
}

func (v *refValue) int64() int64 {
	return int64(v.int.magnitude) // a negative or a large one is at fault
}

func (v refValue) asFloat() float64 {
	if v.kind == refInt {
		return float64(v.int.magnitude) // a negative one is at fault
	}
	return v.float
}

func (v refValue) optional(key string) (float64, bool) {
	if got := v.get(key); got != nil {
		return got.asFloat(), true
	}
	return 0, false
}

// json prints the tree by STR-59 to STR-62. Bytes, which no canonical payload has, are marked so that they can't be missed.
func (v refValue) json() string {
	var b strings.Builder
	v.print(&b)
	return b.String()
}

func (v refValue) print(b *strings.Builder) {
	switch v.kind {
	case refNil:
		b.WriteString("null")
	case refBool:
		b.WriteString(strconv.FormatBool(v.truth))
	case refInt:
		b.WriteString(v.int.String())
	case refFloat:
		b.WriteString(jsonFloat(v.float))
	case refString:
		printString(b, v.text)
	case refBytes:
		fmt.Fprintf(b, "<bytes %x>", v.text)
	case refArray:
		separator := "["
		for _, item := range v.items {
			b.WriteString(separator)
			item.print(b)
			separator = ","
		}
		b.WriteString(strings.TrimPrefix(separator, ",") + "]")
	default:
		separator := "{"
		for _, p := range v.pairs {
			b.WriteString(separator)
			printString(b, p.key)
			b.WriteByte(':')
			p.value.print(b)
			separator = ","
		}
		b.WriteString(strings.TrimPrefix(separator, ",") + "}")
	}
}

func jsonFloat(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprintf("<%v>", f)
	}
	sign := ""
	if math.Signbit(f) {
		sign, f = "-", -f
	}
	if f == 0 {
		return sign + "0.0"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.ReplaceAll(mantissa, ".", "")
	e, _ := strconv.Atoi(exponent)
	d, p := len(digits), e+1
	switch {
	case d <= p && p <= 16:
		return sign + digits + strings.Repeat("0", p-d) + ".0"
	case 0 < p && p < d && p <= 16:
		return sign + digits[:p] + "." + digits[p:]
	case -5 < p && p <= 0:
		return sign + "0." + strings.Repeat("0", -p) + digits
	case d == 1:
		return sign + digits + "e" + strconv.Itoa(p-1)
	default:
		return sign + digits[:1] + "." + digits[1:] + "e" + strconv.Itoa(p-1)
	}
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}

func printString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		if r > '\\' {
			b.WriteRune(r)
		} else if esc, ok := jsonEscapes[r]; ok {
			b.WriteString(esc)
		} else if r < 0x20 {
			fmt.Fprintf(b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
