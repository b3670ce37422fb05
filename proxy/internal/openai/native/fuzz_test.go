package native_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// FuzzReader reads arbitrary responses, one line per event, and checks what clients rely on: frames are JSON, there is
// one end, and streaming and non-streaming clients get the same result.
func FuzzReader(f *testing.F) {
	for _, rec := range recordings(f) {
		if rec.body != nil {
			f.Add(rec.body, true, false)
			continue
		}
		// Keep the first and last events. The ones in between are alike.
		ev := rec.events
		if len(ev) > 12 {
			ev = append(append([]string(nil), ev[:6]...), ev[len(ev)-6:]...)
		}
		f.Add([]byte(strings.Join(ev, "\n")), false, false)
	}
	f.Add([]byte(delta(`"content":"<think>a</think>b\ud83d"`)+"\n"+stop), false, true)
	f.Add([]byte(delta(`"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}},{"function":{"arguments":"x"}}]`)+"\n[DONE]"), false, false)
	f.Fuzz(func(t *testing.T, data []byte, whole, tags bool) {
		if len(data) > 1<<16 {
			return
		}
		checkReader(t, data, whole, tags)
	})
}

// checkReader reads lines, or one non-streaming response if whole is set, for a streaming and a non-streaming client.
func checkReader(t testing.TB, data []byte, whole, tags bool) {
	t.Helper()
	lines := [][]byte{data}
	if !whole {
		lines = bytes.Split(data, []byte("\n"))
	}
	play := func(stream bool) *response.Writer {
		var r native.Reader
		var b response.Batch
		w := openai.NewWriter()
		r.Reset(native.Options{ThinkTags: tags, ReasoningFormat: "f"})
		w.Reset(options(stream, stream))
		for _, line := range lines {
			b.Reset()
			read := r.ReadChunk
			if whole {
				read = r.ReadResponse
			}
			before := bytes.Clone(line)
			err := read(line, &b)
			if !bytes.Equal(before, line) {
				t.Fatal("the reader has modified its input")
			}
			clear(line) // neither the reader nor the batch may retain it
			if err == nil {
				err = w.Apply(&b)
			}
			copy(line, before)
			var e *apierror.Error
			if errors.As(err, &e) {
				w.Fail(e)
			} else if err != nil {
				// A batch may only be rejected because it exceeds a limit of the plugin contract.
				if !strings.Contains(err.Error(), "too long") && !strings.Contains(err.Error(), "too many") {
					t.Fatal(err)
				}
				w.Fail(response.Truncated())
			}
		}
		_ = w.End()
		return w
	}
	streamed, nonStreaming := play(true), play(false)
	if streamed.Complete() != nonStreaming.Complete() || streamed.Complete() == (streamed.Failed() != nil) {
		t.Fatalf("streamed: complete %v, failed %v; non-streaming: complete %v, failed %v",
			streamed.Complete(), streamed.Failed(), nonStreaming.Complete(), nonStreaming.Failed())
	}
	if streamed.Started() {
		checkStream(t, streamed, true)
	} else if streamed.Complete() {
		t.Fatal("the stream is complete but empty")
	}
	if !nonStreaming.Complete() {
		return
	}
	p := nonStreaming.AppendResponse(nil)
	if !json.Valid(p) {
		t.Fatalf("not JSON: %s", p)
	}
	if u := nonStreaming.Usage(); u.Total != u.Prompt+u.Completion {
		t.Fatalf("%+v", u)
	}
}

// mutate makes random changes to a document: it replaces values with values of other kinds, and removes, renames or
// adds members.
func mutate(r *rand.Rand, v any) any {
	if r.IntN(30) == 0 {
		odd := []any{nil, true, 0, -1, 1e300, 1 << 40, "", "x", "stop", "call_1", []any{}, map[string]any{}, []any{nil}, []any{map[string]any{}},
			map[string]any{"type": "text", "text": "y"}, map[string]any{"message": "z", "code": 429}, []any{map[string]any{"index": 0, "function": map[string]any{"name": "g", "arguments": map[string]any{}}}}}
		return odd[r.IntN(len(odd))]
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = mutate(r, v[i])
		}
		if len(v) > 0 && r.IntN(20) == 0 {
			v = append(v, v[r.IntN(len(v))])
		}
		return v
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		for _, name := range names {
			switch r.IntN(60) {
			case 0:
				delete(v, name)
			case 1:
				v[names[r.IntN(len(names))]] = v[name]
			default:
				v[name] = mutate(r, v[name])
			}
		}
		if r.IntN(80) == 0 {
			members := []string{"error", "message", "delta", "usage", "reasoning_details", "tool_calls", "content", "finish_reason", "audio", "index"}
			v[members[r.IntN(len(members))]] = mutate(r, map[string]any{"message": "m", "index": 1})
		}
		return v
	}
	return v
}

// TestMutatedRecordings mutates the values and the order of events in recorded responses.
func TestMutatedRecordings(t *testing.T) {
	all := slices.DeleteFunc(recordings(t), func(r recording) bool { return r.status != 200 })
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		rec := all[r.IntN(len(all))]
		docs := rec.events
		if rec.body != nil {
			docs = []string{string(rec.body)}
		}
		if len(docs) > 20 {
			at := r.IntN(len(docs) - 10)
			docs = slices.Concat(docs[:4], docs[at:at+6], docs[len(docs)-6:])
		}
		var out [][]byte
		for _, d := range docs {
			var v any
			if json.Unmarshal([]byte(d), &v) != nil {
				out = append(out, []byte(d)) // [DONE]
				continue
			}
			p, err := json.Marshal(mutate(r, v))
			if err != nil {
				t.Fatal(err)
			}
			switch r.IntN(40) {
			case 0:
				continue
			case 1:
				out = append(out, p)
			case 2:
				p = p[:r.IntN(len(p))]
			}
			out = append(out, p)
		}
		if r.IntN(4) == 0 {
			r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		}
		checkReader(t, bytes.Join(out, []byte("\n")), rec.body != nil, r.IntN(2) == 0)
	})
}

// FuzzUpstreamError reads arbitrary error responses.
func FuzzUpstreamError(f *testing.F) {
	for _, rec := range recordings(f) {
		if rec.status != 200 {
			f.Add(rec.status, rec.body)
		}
	}
	f.Add(502, []byte("<html><script>x</script><!-- y --><p>z"))
	f.Add(422, []byte(`{"detail":[{"msg":"x"}]}`))
	f.Add(400, []byte(`[{"error":"x"}]`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := native.Failure(status, body)
		if e.Status < 400 || e.Status > 599 || e.Kind == "" || e.Message == "" || len(e.Message) > 500 {
			t.Fatalf("got %+v", e)
		}
		if p := openai.NewWriter().AppendError(nil, e); !json.Valid(bytes.TrimPrefix(p, []byte("data: "))) || bytes.ContainsAny(bytes.TrimSuffix(p, []byte("\n\n")), "\r\n") {
			t.Fatalf("frame is %q", p)
		}
	})
}
