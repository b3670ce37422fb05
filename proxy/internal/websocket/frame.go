package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// Opcode is the type of a frame.
type Opcode byte

// The opcodes.
const (
	Continuation Opcode = 0x0
	Text         Opcode = 0x1
	Binary       Opcode = 0x2
	Close        Opcode = 0x8
	Ping         Opcode = 0x9
	Pong         Opcode = 0xA
)

const (
	finBit      = 0x80
	reservedBit = 0x70
	maskBit     = 0x80

	// maxControl is the maximum payload of a close, ping or pong frame.
	maxControl = 125
)

// isControl reports whether the frame may stand between the fragments of a message.
func (op Opcode) isControl() bool { return op&0x8 != 0 }

func (op Opcode) known() bool { return op <= Binary || op >= Close && op <= Pong }

// Code is the reason of a close frame.
type Code uint16

// The codes that a server sends.
const (
	NormalClosure      Code = 1000
	ProtocolError      Code = 1002
	UnsupportedData    Code = 1003
	NoStatus           Code = 1005 // never sent: a close frame without a code
	InvalidPayload     Code = 1007
	PolicyViolation    Code = 1008
	MessageTooBig      Code = 1009
	InternalError      Code = 1011
	ServiceRestart     Code = 1012
	TryAgainLater      Code = 1013
	firstRegistered    Code = 3000
	lastPrivate        Code = 4999
	firstReservedRange Code = 1015
)

// valid reports whether a peer may send the code.
func (c Code) valid() bool {
	switch {
	case c >= firstRegistered && c <= lastPrivate:
		return true
	case c >= InvalidPayload && c < firstReservedRange:
		return true
	}
	return c >= NormalClosure && c <= UnsupportedData
}

// AppendFrame appends an unfragmented frame, as a server sends it.
func AppendFrame(dst []byte, op Opcode, payload []byte) []byte {
	return append(AppendHeader(dst, op, len(payload)), payload...)
}

// AppendHeader appends the header of an unfragmented frame whose payload has n bytes.
func AppendHeader(dst []byte, op Opcode, n int) []byte {
	dst = append(dst, finBit|byte(op))
	switch {
	case n <= maxControl:
		return append(dst, byte(n))
	case n <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
}

// AppendClose appends a close frame. The reason is cut to what a control frame holds; NoStatus appends neither.
func AppendClose(dst []byte, code Code, reason string) []byte {
	if code == NoStatus {
		return AppendHeader(dst, Close, 0)
	}
	for limit := maxControl - 2; len(reason) > limit; {
		reason = reason[:limit]
		for len(reason) > 0 && !utf8.ValidString(reason) {
			reason = reason[:len(reason)-1]
		}
	}
	dst = binary.BigEndian.AppendUint16(AppendHeader(dst, Close, 2+len(reason)), uint16(code))
	return append(dst, reason...)
}

// unmask removes the mask from part of a payload that starts at offset.
func unmask(p []byte, mask [4]byte, offset int) {
	var key [8]byte
	for i := range key {
		key[i] = mask[(offset+i)&3]
	}
	word := binary.LittleEndian.Uint64(key[:])
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^word)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= key[i]
	}
}
