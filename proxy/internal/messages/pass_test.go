package messages_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// passOn passes a recording on to a client of the same API.
func (rec *recording) passOn(t testing.TB, stream bool, cut func() int) messageWriter {
	t.Helper()
	w := newMessageWriter()
	w.reset(stream, true)
	rec.replay(t, w.Writer, new(messages.Reader), true, cut)
	return w
}

// TestNativeStreamsPassUnchanged checks that the client receives the bytes of a provider that speaks the Messages API.
//
// covers: M7.20 M7.21 M7.22
func TestNativeStreamsPassUnchanged(t *testing.T) {
	streams := 0
	for _, rec := range recordings(t, nativeRecordings) {
		if rec.stream == nil {
			continue
		}
		streams++
		t.Run(rec.name, func(t *testing.T) {
			want := append(bytes.TrimRight(rec.stream, "\n"), "\n\n"...) // one recording has no final blank line
			for name, cut := range cuts {
				w := rec.passOn(t, true, cut)
				if !strings.Contains(string(rec.stream), `"type":"message_stop"`) {
					if w.Failed() == nil || w.Complete() || strings.Contains(string(w.Output()), "message_stop") {
						t.Errorf("%s: truncated stream: failed %v, output %s", name, w.Failed(), w.Output())
					}
					continue
				}
				if got := w.Output(); !bytes.Equal(got, want) {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
				}
				if !w.Complete() || w.Held() != 0 {
					t.Errorf("%s: complete %t, failed %v, %d bytes held", name, w.Complete(), w.Failed(), w.Held())
				}
			}
			m, err := sdkMessage(t, rec.stream)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(rec.stream), `"type":"message_stop"`) {
				return
			}
			// covers: M6.9 M6.10
			u := rec.passOn(t, true, cuts["whole"]).Usage()
			if u.Prompt != m.Usage.InputTokens+m.Usage.CacheReadInputTokens+m.Usage.CacheCreationInputTokens || u.Completion != m.Usage.OutputTokens ||
				u.Cached != m.Usage.CacheReadInputTokens || u.CacheWrite != m.Usage.CacheCreationInputTokens {
				t.Errorf("usage %+v, the client reads %s", u, m.Usage.RawJSON())
			}
		})
	}
	if streams < 20 {
		t.Errorf("only %d streams", streams)
	}
}

// covers: M5.14
func TestNativeResponsesPassUnchanged(t *testing.T) {
	for _, rec := range recordings(t, nativeRecordings) {
		if rec.body == nil || rec.failed() {
			continue
		}
		w := rec.passOn(t, false, nil)
		if got := w.AppendResponse(nil); !w.Complete() || !bytes.Equal(got, rec.body) {
			t.Errorf("%s: complete %t, failed %v, got %.300s", rec.name, w.Complete(), w.Failed(), got)
		}
		m := sdkResponse(t, rec.body)
		if u := w.Usage(); u.Prompt != m.Usage.InputTokens+m.Usage.CacheReadInputTokens+m.Usage.CacheCreationInputTokens || u.Completion != m.Usage.OutputTokens {
			t.Errorf("%s: usage %+v, the client reads %s", rec.name, u, m.Usage.RawJSON())
		}
	}
}

// TestTruncatedNativeStreamsHaveNoEnd truncates recorded streams: the client receives what the provider sent and an
// error, but no end.
//
// covers: M7.15 M7.14
func TestTruncatedNativeStreamsHaveNoEnd(t *testing.T) {
	times := 40 // per recording
	if testing.Short() {
		times = 5
	}
	for _, rec := range recordings(t, nativeRecordings) {
		end := bytes.Index(rec.stream, []byte("event: message_stop"))
		if end < 0 {
			continue
		}
		for range times {
			cut := rec
			cut.stream = rec.stream[:rand.IntN(end)]
			for _, pass := range []bool{true, false} {
				w := newMessageWriter()
				w.reset(true, pass)
				cut.replay(t, w.Writer, new(messages.Reader), pass, cuts["whole"])
				out := string(w.Output())
				if w.Complete() || w.Failed() == nil || strings.Contains(out, "event: message_stop") || strings.Contains(out, "event: message_delta") {
					t.Fatalf("%s, cut at %d, passed %t: complete %t, failed %v:\n%s", rec.name, len(cut.stream), pass, w.Complete(), w.Failed(), out)
				}
				if out == "" {
					continue
				}
				before, after, ok := strings.Cut(out, "event: error\n")
				if !ok || strings.Count(after, "event: ") != 0 || pass && !strings.HasPrefix(string(cut.stream)+"\n\n", before) {
					t.Fatalf("%s, cut at %d, passed %t: got\n%s", rec.name, len(cut.stream), pass, out)
				}
				if _, err := sdkMessage(t, []byte(out)); err == nil {
					t.Fatalf("%s, cut at %d, passed %t: the client raises no error", rec.name, len(cut.stream), pass)
				}
			}
		}
	}
}

// event returns a function that reads an event of a provider.
func event(data string) func(b *response.Batch, r *messages.Reader) error {
	return func(b *response.Batch, r *messages.Reader) error { return r.ReadEvent(nil, []byte(data), b) }
}

const (
	startEvent  = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude","usage":{"input_tokens":9,"output_tokens":1}}}`
	blockEvent  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	deltaEvent  = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`
	endOfBlock  = `{"type":"content_block_stop","index":0}`
	endEvent    = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}`
	stopEvent   = `{"type":"message_stop"}`
	pingEvent   = `{"type": "ping"}`
	failedEvent = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded, <b>really</b>"}}`
)

func TestPassedFrames(t *testing.T) {
	const wantError = "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded, <b>really</b>"},"request_id":"req-1"}` + "\n\n"
	framed := func(events ...string) string {
		var b strings.Builder
		for _, e := range events {
			b.WriteString(eventLine([]byte(e)) + "data: " + e + "\n\n")
		}
		return b.String()
	}
	for _, tt := range []struct {
		name   string
		events []string
		want   string
		status int // of the error, if nothing was written before it
	}{
		{"nothing is sent before content", []string{startEvent, pingEvent, blockEvent, pingEvent}, "", 502}, // covers: M7.17
		{"failure before content", []string{startEvent, pingEvent, blockEvent, failedEvent}, "", 503},       // covers: M7.17
		{"content releases the events before it", []string{startEvent, pingEvent, blockEvent, deltaEvent, failedEvent},
			framed(startEvent, pingEvent, blockEvent, deltaEvent) + wantError, 0}, // covers: M7.16
		{"the end is dropped if an error follows", []string{startEvent, blockEvent, deltaEvent, endOfBlock, endEvent, failedEvent},
			framed(startEvent, blockEvent, deltaEvent, endOfBlock) + wantError, 0},
		{"message without content", []string{startEvent, endEvent, stopEvent}, framed(startEvent, endEvent, stopEvent), 0},
		{"order after the end is kept", []string{startEvent, blockEvent, deltaEvent, endOfBlock, endEvent, pingEvent, stopEvent},
			framed(startEvent, blockEvent, deltaEvent, endOfBlock, endEvent, pingEvent, stopEvent), 0},
		{"message_delta in the middle", []string{startEvent, blockEvent, deltaEvent, `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}`, deltaEvent, failedEvent},
			framed(startEvent, blockEvent, deltaEvent, `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}`, deltaEvent) + wantError, 0},
		{"unknown events", []string{startEvent, `{"type":"novelty","x":[1, 2]}`, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","data":"x"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","data":"y"}}`, endOfBlock, endEvent, stopEvent},
			framed(startEvent, `{"type":"novelty","x":[1, 2]}`, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","data":"x"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","data":"y"}}`, endOfBlock, endEvent, stopEvent), 0}, // covers: M7.20
		{"input of a tool that the provider runs", []string{startEvent, `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q"}}`, failedEvent},
			framed(startEvent, `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q"}}`) + wantError, 0},
		{"two starts", []string{startEvent, startEvent, blockEvent, deltaEvent, endEvent, stopEvent}, framed(startEvent, startEvent, blockEvent, deltaEvent, endEvent, stopEvent), 0}, // covers: M7.21
		{"data on several lines", []string{startEvent, blockEvent, "{\"type\":\"content_block_delta\",\r\n\"index\":0,\n\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}", endEvent, stopEvent},
			framed(startEvent, blockEvent, `{"type":"content_block_delta",  "index":0, "delta":{"type":"text_delta","text":"Hi"}}`, endEvent, stopEvent), 0},
		{"invalid JSON in the middle", []string{startEvent, blockEvent, deltaEvent, `{"type":"content_block_delta"`},
			framed(startEvent, blockEvent, deltaEvent) + "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"The provider's response could not be read."},"request_id":"req-1"}` + "\n\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r messages.Reader
			var b response.Batch
			w := newMessageWriter()
			w.reset(true, true)
			r.Reset(true)
			for _, e := range tt.events {
				b.Reset()
				if err := w.apply(&b, event(e)(&b, &r)); err != nil {
					t.Fatal(err)
				}
			}
			_ = w.End()
			if got := string(w.Output()); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if e := w.Failed(); tt.status != 0 && (e == nil || e.Status != tt.status || !e.TryNext) {
				t.Errorf("failed %v, want status %d", e, tt.status)
			}
			if held := w.Held(); w.Complete() && held != 0 {
				t.Errorf("%d bytes held", held)
			}
		})
	}
}

// TestHeldFramesCount checks that held frames count towards MaxHeld, so that a provider cannot fill the memory with
// them.
func TestHeldFramesCount(t *testing.T) {
	var r messages.Reader
	var b response.Batch
	w := newMessageWriter()
	o := writerOptions(true)
	o.MaxHeld = 2 * len(startEvent)
	w.Reset(o)
	w.r.Pass()
	r.Reset(true)
	for n := range 3 {
		b.Reset()
		err := r.ReadEvent(nil, []byte(startEvent), &b)
		if err == nil {
			err = w.Apply(&b)
		}
		var e *apierror.Error
		if full := n == 1; full != (errors.As(err, &e) && e.Code == "upstream_answer_too_large") {
			t.Fatalf("event %d: %v, %d bytes held", n, err, w.Held())
		} else if full {
			break
		}
	}
}
