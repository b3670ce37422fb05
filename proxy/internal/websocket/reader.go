// Package websocket implements the server's side of the WebSocket protocol, RFC 6455: the handshake (CheckHandshake,
// AppendResponse), reading messages with their fragments, masks and control frames (Reader), and writing frames
// (AppendFrame, AppendClose). It does not implement extensions, so no message is compressed.
//
// It owns the bytes of the protocol. Connections, deadlines, and what messages mean are up to the caller.
//
// Concurrency: functions, and a Reader that belongs to one goroutine.
package websocket

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// ClosedError is the error of a Reader after the peer's close frame.
type ClosedError struct {
	Code Code // NoStatus if the frame had none
}

func (e *ClosedError) Error() string { return fmt.Sprintf("closed by the peer with %d", e.Code) }

// ViolationError is the error of a Reader after a frame that violates the protocol or a limit. The connection is to be
// closed with its code.
type ViolationError struct {
	Code   Code
	Reason string
}

func (e *ViolationError) Error() string { return e.Reason }

func violation(code Code, reason string) error { return &ViolationError{code, reason} }

// Reader reads messages from a client.
type Reader struct {
	Source io.Reader
	// MaxMessage is the maximum size of a message.
	MaxMessage int
	// Grow is called before memory for n bytes of a message is allocated. An error ends the message.
	Grow func(n int) error
	// Control is called for each ping and pong, which may stand between the fragments of a message. The payload is valid
	// only during the call.
	Control func(op Opcode, payload []byte) error

	buf        [256]byte
	start, end int // the bytes of buf that have not been used
	began      bool
}

// header is the header of a frame from a client.
type header struct {
	fin  bool
	op   Opcode
	n    int64
	mask [4]byte
}

// Began reports whether a part of a message has been read, and the rest is awaited.
func (r *Reader) Began() bool { return r.began }

// ReadMessage reads the next message and appends it to dst. A text is valid UTF-8. The error is a *ClosedError, a
// *ViolationError, or one of Source, Grow or Control.
func (r *Reader) ReadMessage(dst []byte) (op Opcode, message []byte, err error) {
	begin, valid := len(dst), len(dst) // text before valid is valid UTF-8
	defer func() { r.began = false }()
	for {
		h, err := r.readHeader()
		if err != nil {
			return op, dst, err
		}
		if h.op.isControl() {
			if err := r.readControl(&h); err != nil {
				return op, dst, err
			}
			continue
		}
		switch {
		case h.op == Continuation && op == Continuation:
			return op, dst, violation(ProtocolError, "continuation without a message")
		case h.op != Continuation && op != Continuation:
			return op, dst, violation(ProtocolError, "message within a fragmented message")
		case h.n > int64(r.MaxMessage-(len(dst)-begin)):
			return op, dst, violation(MessageTooBig, "message too big")
		case h.op != Continuation:
			op = h.op
		}
		r.began = true
		if dst, valid, err = r.readPayload(dst, begin, valid, &h, op == Text); err != nil {
			return op, dst, err
		}
		if h.fin {
			if op == Text && valid != len(dst) {
				return op, dst, violation(InvalidPayload, "text is not valid UTF-8")
			}
			return op, dst, nil
		}
	}
}

// readPayload appends the payload of a frame to dst. Memory grows with what has arrived, not with what the header
// announces.
func (r *Reader) readPayload(dst []byte, begin, valid int, h *header, text bool) (_ []byte, checked int, err error) {
	const firstSize = 4 << 10
	for left, offset := h.n, 0; left > 0; {
		if len(dst) == cap(dst) {
			more := int(min(left, int64(max(firstSize, len(dst)-begin))))
			if err := r.Grow(len(dst) - begin + more); err != nil {
				return dst, valid, err
			}
			dst = slices.Grow(dst, more)
		}
		p := dst[len(dst):min(int64(cap(dst)), int64(len(dst))+left)]
		n := copy(p, r.buf[r.start:r.end])
		r.start += n
		if n == 0 {
			if n, err = r.Source.Read(p); n == 0 && err != nil {
				return dst, valid, err
			}
		}
		unmask(p[:n], h.mask, offset&3)
		dst, offset, left = dst[:len(dst)+n], offset+n, left-int64(n)
		if text {
			if valid, err = checkText(dst, valid); err != nil {
				return dst, valid, err
			}
		}
	}
	return dst, valid, nil
}

// checkText checks a text after the offset valid. It returns the offset of a character at the end that is incomplete,
// or the end.
func checkText(text []byte, valid int) (int, error) {
	for valid < len(text) {
		if text[valid] < utf8.RuneSelf {
			valid++
			continue
		}
		c, n := utf8.DecodeRune(text[valid:])
		if c == utf8.RuneError && n <= 1 {
			if !utf8.FullRune(text[valid:]) {
				return valid, nil
			}
			return valid, violation(InvalidPayload, "text is not valid UTF-8")
		}
		valid += n
	}
	return valid, nil
}

// readControl reads the payload of a control frame and handles it.
func (r *Reader) readControl(h *header) error {
	var p [maxControl]byte
	payload := p[:h.n]
	if err := r.readFull(payload); err != nil {
		return err
	}
	unmask(payload, h.mask, 0)
	if h.op != Close {
		return r.Control(h.op, payload)
	}
	switch {
	case len(payload) == 0:
		return &ClosedError{NoStatus}
	case len(payload) == 1:
		return violation(ProtocolError, "close frame with half a code")
	}
	code := Code(binary.BigEndian.Uint16(payload))
	switch {
	case !code.valid():
		return violation(ProtocolError, "close frame with an invalid code")
	case !utf8.Valid(payload[2:]):
		return violation(InvalidPayload, "close reason is not valid UTF-8")
	}
	return &ClosedError{code}
}

// readHeader reads the header of a frame and checks it.
func (r *Reader) readHeader() (h header, err error) {
	var b [8]byte
	if err := r.readFull(b[:2]); err != nil {
		return h, err
	}
	h.fin, h.op, h.n = b[0]&finBit != 0, Opcode(b[0]&0xF), int64(b[1]&^maskBit)
	switch {
	case b[0]&reservedBit != 0:
		return h, violation(ProtocolError, "reserved bit")
	case !h.op.known():
		return h, violation(ProtocolError, "reserved opcode")
	case b[1]&maskBit == 0:
		return h, violation(ProtocolError, "frame without a mask")
	case h.op.isControl() && (!h.fin || h.n > maxControl):
		return h, violation(ProtocolError, "control frame that is fragmented or too long")
	}
	switch h.n {
	case 126:
		if err := r.readFull(b[:2]); err != nil {
			return h, err
		}
		if h.n = int64(binary.BigEndian.Uint16(b[:2])); h.n < 126 {
			return h, violation(ProtocolError, "length in more bytes than necessary")
		}
	case 127:
		if err := r.readFull(b[:8]); err != nil {
			return h, err
		}
		if h.n = int64(binary.BigEndian.Uint64(b[:8])); h.n < 1<<16 {
			return h, violation(ProtocolError, "invalid length") // negative if the highest bit is set
		}
	}
	if err := r.readFull(h.mask[:]); err != nil {
		return h, err
	}
	return h, nil
}

// readFull fills p.
func (r *Reader) readFull(p []byte) error {
	for r.end-r.start < len(p) {
		if r.start > 0 {
			r.end, r.start = copy(r.buf[:], r.buf[r.start:r.end]), 0
		}
		n, err := r.Source.Read(r.buf[r.end:])
		if r.end += n; n == 0 && err != nil {
			return err
		}
	}
	r.start += copy(p, r.buf[r.start:])
	return nil
}
