// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package zmtp

import (
	"encoding/binary"
	"math"
)

const (
	// baseBufferSize is the read buffer of a connection (ZMQ-21).
	baseBufferSize = 16 << 10
	// minReadSize is the room that a read gets at least, so that a nearly full
	// buffer doesn't mean many small reads.
	minReadSize = 4 << 10
	// shrinkAbove and shrinkAfter say when a grown buffer is given back (ZMQ-21).
	shrinkAbove = 64 << 10
	shrinkAfter = 64
)

// event is what the assembler found in the bytes that it has.
type event uint8

const (
	needMore event = iota
	gotMessage
	gotCommand
)

// span is a frame body in the buffer.
type span struct{ start, end int }

// assembler holds the bytes of one connection and takes whole messages and
// commands out of them. It does no I/O. Commands may stand between the frames of
// a message (ZMQ-25).
//
// buf[:read] is parsed, of which the spans of the message that is being
// assembled are still needed; buf[read:write] is not parsed.
type assembler struct {
	buf         []byte
	read, write int
	maxMessage  uint64
	maxBuffer   int

	spans  [maxFrames]span
	frames int    // of the message in progress
	size   uint64 // sum of its bodies

	// done says that the spans are those of a message that was handed out, and
	// die with the next call of next.
	done bool
	// view is the backing array of a message's frames.
	view [maxFrames][]byte
	// command is the body of the last command.
	command []byte
	// small counts the messages in a row that would have fitted the base buffer.
	small int
}

func newAssembler(maxMessageSize int64) *assembler {
	limit := uint64(max(maxMessageSize, 0))
	// The limit is far below in practice; the bound keeps the sum an int.
	limit = min(limit, math.MaxInt-baseBufferSize)
	return &assembler{
		buf:        make([]byte, baseBufferSize),
		maxMessage: limit,
		maxBuffer:  int(limit) + baseBufferSize,
	}
}

// next parses as far as one message or command. After gotMessage the frames are
// in message, after gotCommand its body is in command; both are valid until room
// is called. A fault is final.
func (a *assembler) next() (event, *fault) {
	if a.done {
		a.done, a.frames, a.size = false, 0, 0
	}
	for {
		header, f := a.header()
		if f != nil || !header.whole {
			return needMore, f
		}
		body := a.read + header.size
		if a.write-body < header.body {
			return needMore, nil
		}
		a.read = body + header.body
		if header.flags&flagCommand != 0 {
			a.command = a.buf[body:a.read:a.read]
			return gotCommand, nil
		}
		a.spans[a.frames] = span{start: body, end: a.read}
		a.frames++
		a.size += uint64(header.body) //nolint:gosec // At most maxMessage.
		if header.flags&flagMore == 0 {
			a.finish()
			return gotMessage, nil
		}
	}
}

// header is a frame header within the limits.
type header struct {
	flags byte
	size  int // of the header itself
	body  int
	whole bool // false: the header has not arrived, but what is there is valid
}

// header checks the header at the read position, limits first: nothing is
// waited for or allocated on the word of a header that breaks one (ZMQ-17).
func (a *assembler) header() (header, *fault) {
	unread := a.buf[a.read:a.write]
	if len(unread) == 0 {
		return header{}, nil
	}
	flags := unread[0]
	if f := a.checkFlags(flags); f != nil {
		return header{}, f
	}
	h := header{flags: flags, size: shortHeaderSize}
	if flags&flagLong != 0 {
		h.size = longHeaderSize
	}
	if len(unread) < h.size {
		return header{}, nil
	}
	size := uint64(unread[1])
	if flags&flagLong != 0 {
		size = binary.BigEndian.Uint64(unread[1:])
	}
	if f := a.checkSize(flags, size); f != nil {
		return header{}, f
	}
	h.body, h.whole = int(size), true //nolint:gosec // Checked.
	return h, nil
}

func (a *assembler) checkFlags(flags byte) *fault {
	switch {
	case flags&flagReserved != 0, flags&flagCommand != 0 && flags&flagMore != 0:
		return faultf(ReasonProtocol, "the peer sent a frame with the flags %#02x", flags)
	case flags&flagCommand == 0 && a.frames == maxFrames:
		return faultf(ReasonTooManyFrames, "the peer sent a message of more than %d frames", maxFrames)
	}
	return nil
}

func (a *assembler) checkSize(flags byte, size uint64) *fault {
	switch {
	case size > math.MaxInt64:
		return faultf(ReasonTooLarge, "the peer announced a frame of %d bytes", size)
	case flags&flagCommand != 0 && size > maxCommandSize:
		return faultf(ReasonProtocol, "the peer announced a command of %d bytes, %d are allowed", size, maxCommandSize)
	case flags&flagCommand == 0 && size > a.maxMessage-a.size:
		return faultf(ReasonTooLarge, "the peer announced a message of at least %d bytes, max_message_size is %d", a.size+size, a.maxMessage)
	}
	return nil
}

func (a *assembler) finish() {
	a.done = true
	if a.size+maxFrames*longHeaderSize > baseBufferSize {
		a.small = 0
	} else if a.small < shrinkAfter {
		a.small++
	}
}

// message gives the frames of the message that next found.
func (a *assembler) message() [][]byte {
	for i, s := range a.spans[:a.frames] {
		a.view[i] = a.buf[s.start:s.end:s.end]
	}
	return a.view[:a.frames:a.frames]
}

// inMessage reports whether frames of an incomplete message are there.
func (a *assembler) inMessage() bool { return !a.done && a.frames > 0 }

// partial reports whether a message, command or greeting has begun and is not
// complete.
func (a *assembler) partial() bool { return a.read < a.write || a.inMessage() }

// room gives the space to read into, never empty. It ends the life of the frames
// that were handed out. The buffer grows with the data that is there, by doubling
// (ZMQ-20); it never exceeds the size limit plus the base.
func (a *assembler) room() []byte {
	if a.done {
		a.done, a.frames, a.size = false, 0, 0
	}
	switch {
	case !a.partial():
		a.reset()
	case len(a.buf)-a.write < minReadSize:
		a.compact()
		a.growIfFull()
	}
	return a.buf[a.write:]
}

// filled says that n bytes of the room have been read into.
func (a *assembler) filled(n int) { a.write += n }

func (a *assembler) reset() {
	a.read, a.write = 0, 0
	if len(a.buf) > shrinkAbove && a.small >= shrinkAfter {
		a.buf = make([]byte, baseBufferSize)
	}
}

// compact moves what is still needed to the front: the bodies of the message in
// progress without their headers and without the commands between them, then
// the unparsed bytes.
func (a *assembler) compact() {
	to := 0
	for i := range a.spans[:a.frames] {
		s := &a.spans[i]
		size := copy(a.buf[to:], a.buf[s.start:s.end])
		s.start, s.end = to, to+size
		to += size
	}
	unparsed := copy(a.buf[to:], a.buf[a.read:a.write])
	a.read, a.write = to, to+unparsed
}

// growIfFull doubles the buffer when compaction left little room. At the largest
// size there is room still: the bodies take the size limit at most, and one
// header or command is smaller than the base.
func (a *assembler) growIfFull() {
	if len(a.buf)-a.write >= minReadSize || len(a.buf) >= a.maxBuffer {
		return
	}
	grown := make([]byte, min(2*len(a.buf), a.maxBuffer))
	copy(grown, a.buf[:a.write])
	a.buf = grown
}

// unread is what has arrived and is not parsed. skip takes n of it away. The
// greeting, which is no frame, is read with them.
func (a *assembler) unread() []byte { return a.buf[a.read:a.write] }

func (a *assembler) skip(n int) { a.read += n }
