package websocket_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/websocket"
)

// frame returns a frame as a client sends it. first is its first byte.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i&3])
	}
	return string(b)
}

// The first bytes of frames, with and without the bit of the last fragment.
const (
	text, textPart     = 0x81, 0x01
	binaryOp, binPart  = 0x82, 0x02
	last, continuation = 0x80, 0x00
	closing            = 0x88
	ping, pong         = 0x89, 0x8a
)

func closeFrame(code uint16, reason string) string {
	return frame(closing, string(binary.BigEndian.AppendUint16(nil, code))+reason)
}

const maxMessage = 1 << 20

// read reads all messages of a connection. It returns what was received, one entry for each message, ping, pong and end.
func read(source io.Reader) (all []string) {
	r := websocket.Reader{
		Source: source, MaxMessage: maxMessage, Grow: func(int) error { return nil },
		Control: func(op websocket.Opcode, payload []byte) error {
			all = append(all, fmt.Sprintf("%x %s", byte(op), payload))
			return nil
		},
	}
	for {
		op, message, err := r.ReadMessage(nil)
		var closed *websocket.ClosedError
		var violation *websocket.ViolationError
		switch {
		case err == nil:
			all = append(all, fmt.Sprintf("%x %s", byte(op), message))
			continue
		case errors.As(err, &closed):
			return append(all, fmt.Sprintf("closed %d", closed.Code))
		case errors.As(err, &violation):
			return append(all, fmt.Sprintf("violation %d", violation.Code))
		}
		return append(all, err.Error())
	}
}

// TestMessages checks what is read from a client's frames. The cases follow the sections of the Autobahn test suite, 1 to
// 7 and 10; 9, on the sizes of messages, is TestSizes.
func TestMessages(t *testing.T) {
	greek := "κόσμε"
	for _, tt := range []struct {
		name, sent string
		want       []string
	}{
		// 1: messages of one frame.
		{"1.1 empty text", frame(text, ""), []string{"1 ", "EOF"}},
		{"1.1 text of 125 bytes", frame(text, strings.Repeat("*", 125)), []string{"1 " + strings.Repeat("*", 125), "EOF"}},
		{"1.1 text of 126 bytes", frame(text, strings.Repeat("*", 126)), []string{"1 " + strings.Repeat("*", 126), "EOF"}},
		{"1.1 text of 127 bytes", frame(text, strings.Repeat("*", 127)), []string{"1 " + strings.Repeat("*", 127), "EOF"}},
		{"1.1 text of 65535 bytes", frame(text, strings.Repeat("*", 65535)), []string{"1 " + strings.Repeat("*", 65535), "EOF"}},
		{"1.1 text of 65536 bytes", frame(text, strings.Repeat("*", 65536)), []string{"1 " + strings.Repeat("*", 65536), "EOF"}},
		{"1.2 empty binary", frame(binaryOp, ""), []string{"2 ", "EOF"}},
		{"1.2 binary of 127 bytes", frame(binaryOp, strings.Repeat("\xfe", 127)), []string{"2 " + strings.Repeat("\xfe", 127), "EOF"}},
		// 2: pings and pongs.
		{"2.1 empty ping", frame(ping, ""), []string{"9 ", "EOF"}},
		{"2.3 binary ping", frame(ping, "\x00\xff\xfe"), []string{"9 \x00\xff\xfe", "EOF"}},
		{"2.4 ping of 125 bytes", frame(ping, strings.Repeat("\xfe", 125)), []string{"9 " + strings.Repeat("\xfe", 125), "EOF"}},
		{"2.5 ping of 126 bytes", frame(ping, strings.Repeat("\xfe", 126)), []string{"violation 1002"}},
		{"2.7 unsolicited pong", frame(pong, ""), []string{"a ", "EOF"}},
		{"2.9 pong, then ping", frame(pong, "x") + frame(ping, "y"), []string{"a x", "9 y", "EOF"}},
		{"2.10 ten pings", strings.Repeat(frame(ping, "x"), 10), append(slicesRepeat("9 x", 10), "EOF")},
		// 3: reserved bits.
		{"3.1 third bit", frame(0x91, ""), []string{"violation 1002"}},
		{"3.2 second bit after a text", frame(text, "x") + frame(0xa1, "y") + frame(ping, ""), []string{"1 x", "violation 1002"}},
		{"3.4 first bit", frame(0xc1, "x"), []string{"violation 1002"}},
		{"3.6 all bits, binary", frame(0xf2, "x"), []string{"violation 1002"}},
		{"3.7 bits of a close", frame(0xf8, ""), []string{"violation 1002"}},
		// 4: reserved opcodes.
		{"4.1.1 opcode 3", frame(0x83, ""), []string{"violation 1002"}},
		{"4.1.3 opcode 5 after a text", frame(text, "x") + frame(0x85, ""), []string{"1 x", "violation 1002"}},
		{"4.1.5 opcode 7", frame(0x87, "x"), []string{"violation 1002"}},
		{"4.2.1 opcode 11", frame(0x8b, ""), []string{"violation 1002"}},
		{"4.2.5 opcode 15", frame(0x8f, "x"), []string{"violation 1002"}},
		// 5: fragments.
		{"5.1 fragmented ping", frame(0x09, "x") + frame(last, "y"), []string{"violation 1002"}},
		{"5.2 fragmented pong", frame(0x0a, "x") + frame(last, "y"), []string{"violation 1002"}},
		{"5.3 two fragments", frame(textPart, "ab") + frame(last, "cd"), []string{"1 abcd", "EOF"}},
		{"5.6 ping between fragments", frame(textPart, "ab") + frame(ping, "p") + frame(last, "cd"), []string{"9 p", "1 abcd", "EOF"}},
		{"5.9 continuation without a message", frame(last, "x") + frame(text, "y"), []string{"violation 1002"}},
		{"5.11 fragment without a message", frame(continuation, "x") + frame(last, "y"), []string{"violation 1002"}},
		{"5.12 after a whole message", frame(text, "x") + frame(continuation, "y"), []string{"1 x", "violation 1002"}},
		{"5.18 text within a text", frame(textPart, "x") + frame(text, "y"), []string{"violation 1002"}},
		{"5.18 binary within a text", frame(textPart, "x") + frame(binPart, "y"), []string{"violation 1002"}},
		{"5.19 pings and empty fragments", frame(textPart, "a") + frame(continuation, "") + frame(ping, "1") + frame(continuation, "b") + frame(ping, "2") + frame(last, ""), []string{"9 1", "9 2", "1 ab", "EOF"}},
		{"5 close between fragments", frame(textPart, "a") + closeFrame(1000, ""), []string{"closed 1000"}},
		// 6: UTF-8.
		{"6.1 empty fragments", frame(textPart, "") + frame(continuation, "") + frame(last, ""), []string{"1 ", "EOF"}},
		{"6.2 character over fragments", frame(textPart, greek[:3]) + frame(continuation, greek[3:4]) + frame(last, greek[4:]), []string{"1 " + greek, "EOF"}},
		{"6.3 invalid", frame(text, greek+"\xed\xa0\x80edited"), []string{"violation 1007"}},
		{"6.4 invalid in the first fragment", frame(textPart, greek+"\xf4\x90\x80\x80"), []string{"violation 1007"}},
		{"6.4 invalid within an open frame", frame(text, greek+"\xf4\x90"+strings.Repeat("x", 1000))[:40], []string{"violation 1007"}},
		{"6.6 incomplete at the end", frame(text, greek[:len(greek)-1]+"\xce"), []string{"violation 1007"}},
		{"6.7 zero", frame(text, "\x00"), []string{"1 \x00", "EOF"}},
		{"6.8 five bytes", frame(text, "\xf8\x88\x80\x80\x80"), []string{"violation 1007"}},
		{"6.9 limits of each length", frame(text, "\x7f\u07ff\uffff\U0010ffff"), []string{"1 \x7f\u07ff\uffff\U0010ffff", "EOF"}},
		{"6.10 beyond Unicode", frame(text, "\xf4\x90\x80\x80"), []string{"violation 1007"}},
		{"6.12 lone continuation", frame(text, "\x80"), []string{"violation 1007"}},
		{"6.14 start without continuation", frame(text, "\xc0 \xc1 "), []string{"violation 1007"}},
		{"6.18 overlong", frame(text, "\xc0\xaf"), []string{"violation 1007"}},
		{"6.20 surrogate", frame(text, "\xed\xa0\x80"), []string{"violation 1007"}},
		{"6.23 non-characters", frame(text, "\ufffe\uffff\ufffd"), []string{"1 \ufffe\uffff\ufffd", "EOF"}},
		// 7: close.
		{"7.1 nothing after a close", closeFrame(1000, "") + frame(text, "x"), []string{"closed 1000"}},
		{"7.3.1 empty", frame(closing, ""), []string{"closed 1005"}},
		{"7.3.2 one byte", frame(closing, "x"), []string{"violation 1002"}},
		{"7.3.5 reason of 123 bytes", closeFrame(1000, strings.Repeat("*", 123)), []string{"closed 1000"}},
		{"7.3.6 reason of 124 bytes", closeFrame(1000, strings.Repeat("*", 124)), []string{"violation 1002"}},
		{"7.5 reason is not UTF-8", closeFrame(1000, "\xce\xba\xed\xa0\x80"), []string{"violation 1007"}},
		// Beyond the suite.
		{"without a mask", "\x81\x01x", []string{"violation 1002"}},
		{"long form of a short length", "\x81\xfe\x00\x7d\x00\x00\x00\x00", []string{"violation 1002"}},
		{"longest form of a short length", "\x81\xff\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x00\x00", []string{"violation 1002"}},
		{"negative length", "\x81\xff\x80\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00", []string{"violation 1002"}},
		{"announced too big", frame(text, "x")[:1] + "\xff\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00", []string{"violation 1009"}},
		{"cut within a header", frame(text, "x")[:3], []string{"EOF"}},
		{"cut within a payload", frame(text, "xyz")[:8], []string{"EOF"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, source := range map[string]io.Reader{"whole": strings.NewReader(tt.sent), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.sent)), "data with the end": iotest.DataErrReader(strings.NewReader(tt.sent))} {
				if got := read(source); fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("%s: %.200q, want %.200q", how, got, tt.want)
				}
			}
		})
	}
}

func slicesRepeat(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

// TestCloseCodes checks which codes a client may send: Autobahn's sections 7.7, 7.9 and 7.13.
func TestCloseCodes(t *testing.T) {
	valid := func(code int) bool {
		return code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code <= 4999
	}
	for _, code := range []int{0, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1011, 1012, 1014, 1015, 1016, 1100, 2000, 2999, 3000, 3999, 4000, 4999, 5000, 65535} {
		want := "violation 1002"
		if valid(code) {
			want = fmt.Sprintf("closed %d", code)
		}
		if got := read(strings.NewReader(closeFrame(uint16(code), ""))); len(got) != 1 || got[0] != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}

// TestSizes checks messages up to the limit, in fragments of different sizes: Autobahn's section 9.
func TestSizes(t *testing.T) {
	for _, size := range []int{64 << 10, 256 << 10, maxMessage, maxMessage + 1} {
		message := strings.Repeat("κ*", size/3+1)[:size-size%3]
		message += strings.Repeat("*", size-len(message))
		for _, fragment := range []int{64, 1000, 4096, 256 << 10, size} {
			var sent strings.Builder
			for first, rest := byte(textPart), message; ; first = continuation {
				if len(rest) <= fragment {
					sent.WriteString(frame(first|last, rest))
					break
				}
				sent.WriteString(frame(first, rest[:fragment]))
				rest = rest[fragment:]
			}
			want := "1 " + message
			if size > maxMessage {
				want = "violation 1009"
			}
			if got := read(strings.NewReader(sent.String())); got[0] != want {
				t.Errorf("%d bytes in fragments of %d: %.40q", size, fragment, got[0])
			}
		}
	}
}

// TestMemoryGrowsWithArrival checks that a header that announces a large frame does not make the reader allocate it.
func TestMemoryGrowsWithArrival(t *testing.T) {
	errFull := errors.New("full")
	most := 0
	r := websocket.Reader{Source: io.MultiReader(strings.NewReader("\x82\xff\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00"), strings.NewReader(strings.Repeat("x", 100<<10))), MaxMessage: maxMessage,
		Grow: func(n int) error {
			if most = max(most, n); n > 64<<10 {
				return errFull
			}
			return nil
		}}
	_, message, err := r.ReadMessage(nil)
	if err != errFull || most > 128<<10 || len(message) > 64<<10 {
		t.Errorf("%v after %d bytes, asked for %d", err, len(message), most)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(frame(textPart, "a") + frame(ping, "x") + frame(last, "b") + closeFrame(1000, "bye")))
	f.Add([]byte(frame(binaryOp, strings.Repeat("x", 70000))))
	f.Add([]byte(frame(text, "κόσμε")[:8]))
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole := read(bytes.NewReader(sent))
		single := read(iotest.OneByteReader(bytes.NewReader(sent)))
		if fmt.Sprint(whole) != fmt.Sprint(single) {
			t.Fatalf("%q as a whole, %q byte by byte", whole, single)
		}
		for _, received := range whole {
			if strings.HasPrefix(received, "1 ") && !utf8.ValidString(received) {
				t.Fatalf("text %q", received)
			}
		}
	})
}
