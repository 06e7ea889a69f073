// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	segmentSuffix  = ".jsonl.gz"
	minIndexDigits = 6

	// maxProducerLength keeps a file name below the 255 bytes that file systems hold (FIL-4).
	maxProducerLength    = 128
	producerDigestDigits = 8
	unknownProducer      = "unknown"
)

var errNoFileName = errors.New("must name a file, not only a directory")

// BaseFromPath gives the base of a configured path: one trailing .jsonl.gz or .jsonl is stripped (FIL-2, FIL-62).
func BaseFromPath(path string) (string, error) {
	trimmed := strings.TrimSpace(path)
	if trimmed == "" {
		return "", fmt.Errorf("path must not be blank (got %q)", path)
	}
	if strings.ContainsRune(trimmed, 0) {
		return "", fmt.Errorf("path must not contain a NUL byte, which no file name can hold (got %q)", path)
	}
	base, stripped := strings.CutSuffix(trimmed, segmentSuffix)
	if !stripped {
		base = strings.TrimSuffix(trimmed, ".jsonl")
	}
	if base == "" || os.IsPathSeparator(base[len(base)-1]) {
		return "", fmt.Errorf("path %w (got %q)", errNoFileName, path)
	}
	return base, nil
}

// producerPart makes a producer id fit into a file name (FIL-3, FIL-4). Different ids may give the same part (FIL-5).
func producerPart(producerID string) string {
	if producerID == "" {
		return unknownProducer
	}
	part := strings.Map(func(r rune) rune {
		if isProducerRune(r) {
			return r
		}
		return '_'
	}, producerID)
	if len(part) <= maxProducerLength {
		return part
	}
	digest := sha256.Sum256([]byte(producerID))
	return part[:maxProducerLength-producerDigestDigits-1] + "-" + hex.EncodeToString(digest[:])[:producerDigestDigits]
}

func isProducerRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// segmentName is the file name, without directory, of a segment (FIL-1).
func segmentName(prefix string, index uint64) string {
	return fmt.Sprintf("%s.%0*d%s", prefix, minIndexDigits, index, segmentSuffix)
}

// parseSegmentName says whether name is a segment of prefix, and which (FIL-35).
func parseSegmentName(prefix, name string) (index uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || rest == "" || rest[0] != '.' {
		return 0, false
	}
	digits, ok := strings.CutSuffix(rest[1:], segmentSuffix)
	if !ok {
		return 0, false
	}
	return parseIndex(digits)
}

// parseFamilyName says whether name is a segment of any producer under the base name, and of which (FIL-37).
func parseFamilyName(base, name string) (producer string, index uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return "", 0, false
	}
	producer, _, _ = strings.Cut(rest, ".")
	if producer == "" || strings.ContainsFunc(producer, func(r rune) bool { return !isProducerRune(r) }) {
		return "", 0, false
	}
	index, ok = parseSegmentName(producer, rest)
	return producer, index, ok
}

// parseIndex takes exactly the texts that segmentName prints: at least six digits, more only without a leading zero.
func parseIndex(digits string) (index uint64, ok bool) {
	if len(digits) < minIndexDigits || len(digits) > minIndexDigits && digits[0] == '0' {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	index, err := strconv.ParseUint(digits, 10, 64)
	return index, err == nil
}

// splitBase gives the directory that holds everything of a base, and the first part of each file name in it.
func splitBase(base string) (dir, name string) {
	return filepath.Dir(base), filepath.Base(base)
}
