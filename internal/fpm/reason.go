// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpm

// Reason says why a message is invalid. Every invalid message has exactly one: that of its first fault in the order of
// judgment (STR-7, STR-35 to STR-49). The zero value is no reason. A Reason is an error.
type Reason uint8

// The reasons, in the order of fpm-stream.md 6.3.
const (
	ReasonOversize           Reason = iota + 1 // larger than the limit, judged before any byte is looked at
	ReasonBadFrameCount                        // not topic, sequence and payload
	ReasonBadSequenceFrame                     // frame 1 is not an unsigned 63-bit number in 8 (or 24) bytes
	ReasonNotAMap                              // the payload starts with something else than a map
	ReasonTruncated                            // the bytes end before the payload does
	ReasonTooDeep                              // a map or array at level 17
	ReasonBadKey                               // a map key that is not a string
	ReasonInvalidUTF8                          // a string that is not UTF-8
	ReasonTrailingBytes                        // something follows the payload map
	ReasonMissingField                         // a required field is absent
	ReasonUnsupportedVersion                   // a version other than 1
	ReasonWrongType                            // a field has a value of another type
	ReasonOutOfRange                           // a number that its field can't have
)

var reasonWords = [...]string{
	ReasonOversize:           "oversize",
	ReasonBadFrameCount:      "bad_frame_count",
	ReasonBadSequenceFrame:   "bad_sequence_frame",
	ReasonNotAMap:            "not_a_map",
	ReasonTruncated:          "truncated",
	ReasonTooDeep:            "too_deep",
	ReasonBadKey:             "bad_key",
	ReasonInvalidUTF8:        "invalid_utf8",
	ReasonTrailingBytes:      "trailing_bytes",
	ReasonMissingField:       "missing_field",
	ReasonUnsupportedVersion: "unsupported_version",
	ReasonWrongType:          "wrong_type",
	ReasonOutOfRange:         "out_of_range",
}

// Reasons gives every reason, in order.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonWords)-1)
	for r := ReasonOversize; int(r) < len(reasonWords); r++ {
		all = append(all, r)
	}
	return all
}

// String gives the word by which the reason is counted and documented, such as "bad_key".
func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasonWords) {
		return "unknown"
	}
	return reasonWords[r]
}

// Error makes a Reason usable as an error.
func (r Reason) Error() string {
	return "invalid forward pass message: " + r.String()
}

// orNil turns the absence of a reason into a nil error.
func (r Reason) orNil() error {
	if r == 0 {
		return nil
	}
	return r
}
