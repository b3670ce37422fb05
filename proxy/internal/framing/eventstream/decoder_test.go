package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

type event struct {
	Kind       abi.EventKind
	Name, Data string
}

// read feeds the pieces in order and returns all events, including those that End returns.
func read(d *eventstream.Decoder, pieces ...[]byte) ([]event, error) {
	var got []event
	for _, p := range pieces {
		p = bytes.Clone(p)
		d.Feed(p)
		for {
			ev, ok, err := d.Next()
			if err != nil {
				return got, err
			}
			if !ok {
				break
			}
			got = append(got, event{ev.Kind, string(ev.Name), string(ev.Data)})
		}
		// The decoder must not refer to the fed bytes once Next has returned ok = false.
		for i := range p {
			p[i] = 0xDD
		}
	}
	for {
		ev, ok, err := d.End()
		if err != nil || !ok {
			return got, err
		}
		got = append(got, event{ev.Kind, string(ev.Name), string(ev.Data)})
	}
}

// readSDK reads a body with the SDK alone.
func readSDK(body []byte) ([]event, error) {
	var want []event
	for r := bytes.NewReader(body); r.Len() > 0; {
		m, err := sdk.NewDecoder().Decode(r, nil)
		if err != nil {
			return want, err
		}
		header := func(name string) string {
			if s, ok := m.Headers.Get(name).(sdk.StringValue); ok {
				return string(s)
			}
			return ""
		}
		switch kind := header(":message-type"); kind {
		case "event":
			want = append(want, event{abi.EventPlain, header(":event-type"), string(m.Payload)})
		case "exception":
			want = append(want, event{abi.EventException, header(":exception-type"), string(m.Payload)})
		case "error":
			want = append(want, event{abi.EventError, header(":error-code"), header(":error-message")})
		default:
			return want, fmt.Errorf("message type %q", kind)
		}
	}
	return want, nil
}

func recordings(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob("testdata/*.eventstream")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no recordings: %v", err)
	}
	all := make(map[string][]byte)
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".resp.eventstream")] = body
	}
	return all
}

// message encodes a frame with string headers, given as pairs of names and values.
func message(tb testing.TB, payload string, headers ...string) []byte {
	tb.Helper()
	var hs sdk.Headers
	for i := 0; i < len(headers); i += 2 {
		hs.Set(headers[i], sdk.StringValue(headers[i+1]))
	}
	return encode(tb, sdk.Message{Headers: hs, Payload: []byte(payload)})
}

func encode(tb testing.TB, m sdk.Message) []byte {
	tb.Helper()
	var buf bytes.Buffer
	if err := sdk.NewEncoder().Encode(&buf, m); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

// raw returns a frame with the given lengths and parts, which need not be consistent, and valid checksums.
func raw(total, headersLen uint32, headers, payload []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, total)
	p = binary.BigEndian.AppendUint32(p, headersLen)
	p = binary.BigEndian.AppendUint32(p, crc32.ChecksumIEEE(p))
	p = append(append(p, headers...), payload...)
	return binary.BigEndian.AppendUint32(p, crc32.ChecksumIEEE(p))
}

// covers: B2
func TestRecordedStreams(t *testing.T) {
	for name, body := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			want, err := readSDK(body)
			if err != nil || len(want) == 0 {
				t.Fatalf("the SDK reads %d events: %v", len(want), err)
			}
			if last := want[len(want)-1].Name; last != "metadata" {
				t.Errorf("the last event is %s, want metadata", last)
			}
			got, err := read(new(eventstream.Decoder), body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// small is the length up to which a recording is cut at every byte.
const small = 1500

// stride returns the distance between the places at which a recording is cut.
func stride(body []byte) int { return 1 + len(body)/small*4 }

// covers: B2
func TestSplitAtEveryByte(t *testing.T) {
	for name, body := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			want, err := readSDK(body)
			if err != nil {
				t.Fatal(err)
			}
			var d eventstream.Decoder
			for cut := 0; cut <= len(body); cut += stride(body) {
				d.Reset()
				got, err := read(&d, body[:cut], body[cut:])
				if err != nil || !cmp.Equal(want, got) {
					t.Fatalf("cut at %d: %v\n%s", cut, err, cmp.Diff(want, got))
				}
			}
			bytewise := make([][]byte, len(body))
			for i := range body {
				bytewise[i] = body[i : i+1]
			}
			d.Reset()
			if got, err := read(&d, bytewise...); err != nil || !cmp.Equal(want, got) {
				t.Errorf("byte by byte: %v\n%s", err, cmp.Diff(want, got))
			}
		})
	}
}

// covers: B2
func TestSplitInManyPieces(t *testing.T) {
	all := recordings(t)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		body := all[rapid.SampledFrom(names).Draw(t, "recording")]
		want, err := readSDK(body)
		if err != nil {
			t.Fatal(err)
		}
		var pieces [][]byte
		for rest := body; len(rest) > 0; {
			n := min(rapid.IntRange(0, 300).Draw(t, "piece"), len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if got, err := read(new(eventstream.Decoder), pieces...); err != nil || !cmp.Equal(want, got) {
			t.Fatalf("%v\n%s", err, cmp.Diff(want, got))
		}
	})
}

// TestTruncatedBody checks that a body that ends inside a frame returns all complete events and then an error.
//
// covers: B2
func TestTruncatedBody(t *testing.T) {
	for name, body := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			whole, err := readSDK(body)
			if err != nil {
				t.Fatal(err)
			}
			between := map[int]int{0: 0} // number of events before the end of each frame, by offset
			for at, n := 0, 0; at < len(body); {
				at += int(binary.BigEndian.Uint32(body[at:]))
				n++
				between[at] = n
			}
			events := 0
			for end := range len(body) + 1 {
				n, boundary := between[end]
				if boundary {
					events = n
				} else if end%stride(body) != 0 {
					continue
				}
				var d eventstream.Decoder
				got, err := read(&d, body[:end])
				if boundary && err != nil || !boundary && !errors.Is(err, eventstream.ErrTruncated) {
					t.Fatalf("a body of %d bytes: error %v", end, err)
				}
				if !cmp.Equal(whole[:events], got, cmp.Transformer("empty", func(e []event) []event { return append([]event{}, e...) })) {
					t.Fatalf("a body of %d bytes: %d events, want %d", end, len(got), events)
				}
				if _, ok, again := d.End(); ok || !errors.Is(again, err) {
					t.Fatalf("a body of %d bytes: at first %v, then %v", end, err, again)
				}
			}
		})
	}
}

// covers: B2
func TestHeaderValueTypes(t *testing.T) {
	var m sdk.Message
	for _, h := range []struct {
		name  string
		value sdk.Value
	}{
		{"yes", sdk.BoolValue(true)}, {"no", sdk.BoolValue(false)}, {"byte", sdk.Int8Value(-1)}, {"short", sdk.Int16Value(-2)},
		{"integer", sdk.Int32Value(-3)}, {"long", sdk.Int64Value(-4)}, {"bytes", sdk.BytesValue{0, 1, 2}},
		{":message-type", sdk.StringValue("event")}, {"time", sdk.TimestampValue(time.Unix(1700000000, 0))},
		{"uuid", sdk.UUIDValue{1, 2, 3}}, {":event-type", sdk.StringValue("contentBlockDelta")},
	} {
		m.Headers.Set(h.name, h.value)
	}
	m.Payload = []byte(`{"a":1}`)
	got, err := read(new(eventstream.Decoder), encode(t, m))
	if err != nil || !cmp.Equal(got, []event{{abi.EventPlain, "contentBlockDelta", `{"a":1}`}}) {
		t.Errorf("got %+v, error %v", got, err)
	}
}

func TestMessageTypes(t *testing.T) {
	for name, test := range map[string]struct {
		frame []byte
		want  event
		err   error
	}{
		"event":                 {message(t, "{}", ":message-type", "event", ":event-type", "messageStop"), event{abi.EventPlain, "messageStop", "{}"}, nil},
		"event without a type":  {message(t, "{}", ":message-type", "event"), event{abi.EventPlain, "", "{}"}, nil},
		"event without payload": {message(t, "", ":message-type", "event", ":event-type", "x"), event{abi.EventPlain, "x", ""}, nil},
		// covers: B3
		"exception": {message(t, `{"message":"Slow down"}`, ":message-type", "exception", ":exception-type", "throttlingException", ":content-type", "application/json"), event{abi.EventException, "throttlingException", `{"message":"Slow down"}`}, nil},
		// covers: B4
		"error":                {message(t, "", ":message-type", "error", ":error-code", "InternalError", ":error-message", "It broke"), event{abi.EventError, "InternalError", "It broke"}, nil},
		"error with payload":   {message(t, "payload", ":error-message", "It broke", ":error-code", "E", ":message-type", "error"), event{abi.EventError, "E", "It broke"}, nil},
		"error with nothing":   {message(t, "", ":message-type", "error"), event{abi.EventError, "", ""}, nil},
		"unknown type":         {message(t, "{}", ":message-type", "Event", ":event-type", "x"), event{}, eventstream.ErrMalformed},
		"no type":              {message(t, "{}", ":event-type", "x"), event{}, eventstream.ErrMalformed},
		"no headers":           {message(t, "{}"), event{}, eventstream.ErrMalformed},
		"type is not a string": {encode(t, sdk.Message{Headers: sdk.Headers{{Name: ":message-type", Value: sdk.BytesValue("event")}}}), event{}, eventstream.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(new(eventstream.Decoder), test.frame)
			if !errors.Is(err, test.err) {
				t.Fatalf("got error %v, want %v", err, test.err)
			}
			if err == nil && !cmp.Equal(got, []event{test.want}) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestInvokeModelChunks(t *testing.T) {
	chunk := func(payload string) []byte {
		return message(t, payload, ":message-type", "event", ":event-type", "chunk")
	}
	for payload, want := range map[string]string{
		`{"bytes":"eyJ0eXBlIjoicGluZyJ9","p":"abcdefg"}`:       `{"type":"ping"}`,
		` { "p" : "abc" , "bytes" : "eyJ0eXBlIjoicGluZyJ9" } `: `{"type":"ping"}`,
		`{"bytes":""}`: "",
	} {
		d := &eventstream.Decoder{Invoke: true}
		got, err := read(d, chunk(payload))
		if err != nil || !cmp.Equal(got, []event{{abi.EventPlain, "", want}}) {
			t.Errorf("%s: got %v, error %v", payload, got, err)
		}
		d.Invoke = false
		d.Reset()
		if got, err = read(d, chunk(payload)); err != nil || !cmp.Equal(got, []event{{abi.EventPlain, "chunk", payload}}) {
			t.Errorf("%s without Invoke: got %v, error %v", payload, got, err)
		}
	}
	for _, payload := range []string{``, `{}`, `{"bytes":1}`, `{"bytes":"a`, `{"bytes":"!"}`, `{"bytes"`, `"bytes`} {
		if got, err := read(&eventstream.Decoder{Invoke: true}, chunk(payload)); !errors.Is(err, eventstream.ErrMalformed) {
			t.Errorf("%s: got %v, error %v", payload, got, err)
		}
	}
	other := message(t, "{}", ":message-type", "event", ":event-type", "other")
	if got, err := read(&eventstream.Decoder{Invoke: true}, other); err != nil || !cmp.Equal(got, []event{{abi.EventPlain, "other", "{}"}}) {
		t.Errorf("another event: %v, %v", got, err)
	}
}

// TestCorruptMessage flips each bit of a message. Checksums cover all of them.
//
// covers: B2
func TestCorruptMessage(t *testing.T) {
	frame := message(t, `{"delta":{"text":"Hi"}}`, ":message-type", "event", ":event-type", "contentBlockDelta")
	for bit := range len(frame) * 8 {
		damaged := bytes.Clone(frame)
		damaged[bit/8] ^= 1 << (bit % 8)
		got, err := read(new(eventstream.Decoder), damaged, frame)
		if err == nil || len(got) != 0 {
			t.Errorf("bit %d: got %+v, error %v", bit, got, err)
		}
		if bit < 12*8 && !errors.As(err, new(sdk.ChecksumError)) {
			t.Errorf("bit %d of the prelude: got error %v", bit, err)
		}
	}
}

func TestRejectsInvalidMessages(t *testing.T) {
	const typed = "\x0d:message-type\x07\x00\x05event"
	for name, test := range map[string]struct {
		body []byte
		max  int
		want error
	}{
		"not an event stream":         {[]byte(`{"message":"x"}`), 0, sdk.ChecksumError{}},
		"server-sent events":          {[]byte("data: {}\n\ndata: [DONE]\n\n"), 0, sdk.ChecksumError{}},
		"length of zero":              {raw(0, 0, nil, nil), 0, eventstream.ErrMalformed},
		"shorter than a frame":        {raw(15, 0, nil, nil), 0, eventstream.ErrMalformed},
		"shorter than its headers":    {raw(100, 90, make([]byte, 84), nil), 0, eventstream.ErrMalformed},
		"over the default":            {raw(1<<20+1, 0, nil, nil), 0, framing.ErrTooLarge},
		"over the limit":              {raw(1001, 0, nil, nil), 1000, framing.ErrTooLarge},
		"maximum length":              {raw(1<<32-1, 0, nil, nil), 1 << 62, framing.ErrTooLarge},
		"too many headers":            {raw(1<<20, eventstream.MaxHeaders+1, nil, nil), 0, framing.ErrTooLarge},
		"headers longer than a frame": {raw(100, 1<<32-1, nil, nil), 0, framing.ErrTooLarge},
		"header cut inside its value": {raw(16+18, 18, []byte(typed[:18]), nil), 0, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			d := eventstream.Decoder{MaxEvent: test.max}
			if got, err := read(&d, test.body); !errors.Is(err, test.want) || len(got) != 0 {
				t.Errorf("got %+v, error %v, want error %v", got, err, test.want)
			}
			d.Feed([]byte("more"))
			if _, ok, err := d.Next(); ok || !errors.Is(err, test.want) {
				t.Errorf("after the error: %v, %v", ok, err)
			}
			d.Reset()
			frame := message(t, "", ":message-type", "event", ":event-type", "x")
			if got, err := read(&d, frame); err != nil || len(got) != 1 {
				t.Errorf("after Reset: %+v, %v", got, err)
			}
		})
	}
	t.Run("unknown header type", func(t *testing.T) {
		headers := []byte("\x01x\x0a" + typed)
		n := uint32(len(headers))
		if got, err := read(new(eventstream.Decoder), raw(16+n, n, headers, nil)); err == nil || len(got) != 0 {
			t.Errorf("got %+v, error %v", got, err)
		}
	})
	t.Run("exactly at the limit", func(t *testing.T) {
		frame := message(t, strings.Repeat("x", 500), ":message-type", "event", ":event-type", "x")
		d := eventstream.Decoder{MaxEvent: len(frame)}
		if got, err := read(&d, frame); err != nil || len(got) != 1 {
			t.Errorf("got %+v, error %v", got, err)
		}
		d = eventstream.Decoder{MaxEvent: len(frame) - 1}
		if _, err := read(&d, frame); !errors.Is(err, framing.ErrTooLarge) {
			t.Error(err)
		}
	})
}

func FuzzDecoder(f *testing.F) {
	for _, body := range recordings(f) {
		f.Add(body, 100)
	}
	f.Add(message(f, `{"message":"x"}`, ":message-type", "exception", ":exception-type", "throttlingException"), 5)
	f.Add(message(f, "", ":message-type", "error", ":error-code", "E", ":error-message", "M"), 1)
	f.Add(raw(16, 0, nil, nil), 12)
	f.Add(raw(100, 90, make([]byte, 84), nil), 3)
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		want, wantErr := readSDK(body)
		cut = min(max(cut, 0), len(body))
		for _, pieces := range [][][]byte{{body}, {body[:cut], body[cut:]}} {
			got, err := read(new(eventstream.Decoder), pieces...)
			if errors.Is(err, framing.ErrTooLarge) {
				// The SDK has no limit. The events before the error must still be the same.
				want, wantErr = want[:min(len(want), len(got))], err
			}
			if (err == nil) != (wantErr == nil) || len(got) != len(want) || len(got) > 0 && !cmp.Equal(got, want) {
				t.Fatalf("error %v, SDK's error %v\n%s", err, wantErr, cmp.Diff(want, got))
			}
		}
	})
}
