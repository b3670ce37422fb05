package response_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// run writes one response.
type run struct {
	t testing.TB
	w *response.Writer
	b response.Batch
}

func newRun(t testing.TB, o response.Options) *run {
	t.Helper()
	if o.ID == "" {
		o.ID = "chatcmpl-own"
	}
	if o.Model == "" {
		o.Model = "asked"
	}
	if o.Created == 0 {
		o.Created = 1700000000
	}
	r := &run{t: t, w: openai.NewWriter()}
	r.w.Reset(o)
	return r
}

// apply applies one batch that must be accepted.
func (r *run) apply(fill func(b *response.Batch)) {
	r.t.Helper()
	r.b.Reset()
	fill(&r.b)
	if err := r.w.Apply(&r.b); err != nil {
		r.t.Fatal(err)
	}
}

// reject applies one batch that must be rejected without output, and returns the error.
func (r *run) reject(fill func(b *response.Batch)) error {
	r.t.Helper()
	before := string(r.w.Output())
	r.b.Reset()
	fill(&r.b)
	err := r.w.Apply(&r.b)
	if err == nil {
		r.t.Error("the batch was accepted")
	}
	if after := string(r.w.Output()); after != before {
		r.t.Errorf("the rejected batch wrote %q", after[len(before):])
	}
	return err
}

// frames returns the data of the frames so far, and checks their form.
func (r *run) frames() (all []string) {
	r.t.Helper()
	out := string(r.w.Output())
	if out == "" {
		return nil
	}
	body, ok := strings.CutSuffix(out, "\n\n")
	if !ok {
		r.t.Fatalf("the output ends with %q", out[max(0, len(out)-30):])
	}
	for f := range strings.SplitSeq(body, "\n\n") {
		data, ok := strings.CutPrefix(f, "data: ")
		if !ok || strings.ContainsAny(data, "\r\n") || data != "[DONE]" && !json.Valid([]byte(data)) {
			r.t.Fatalf("not a frame: %q", f)
		}
		all = append(all, data)
	}
	return all
}

// deltas returns the "choices" of each frame, and the members that follow them.
func (r *run) deltas() (all []string) {
	r.t.Helper()
	for _, f := range r.frames() {
		_, rest, ok := strings.Cut(f, `"choices":`)
		if !ok {
			all = append(all, f)
			continue
		}
		all = append(all, strings.TrimSuffix(rest, "}"))
	}
	return all
}

// want compares the deltas of the frames so far.
func (r *run) want(want ...string) {
	r.t.Helper()
	got := r.deltas()
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			r.t.Errorf("frame %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

// response returns the non-streaming response.
func (r *run) response() string {
	r.t.Helper()
	if !r.w.Complete() {
		r.t.Fatalf("the response is incomplete; failed: %v", r.w.Failed())
	}
	p := r.w.AppendResponse(nil)
	if !json.Valid(p) {
		r.t.Fatalf("not JSON: %s", p)
	}
	return string(p)
}

// message returns the message of the first choice of the non-streaming response.
func (r *run) message() string {
	r.t.Helper()
	a := r.response()
	_, rest, _ := strings.Cut(a, `"message":`)
	message, _, ok := strings.Cut(rest, `,"logprobs":`)
	if !ok {
		r.t.Fatalf("no message in %s", a)
	}
	return message
}

const (
	role     = `[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`
	roleNull = `[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]`
	done     = `[DONE]`
)

func content(s string) string {
	return `[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]`
}

func delta(s string) string { return `[{"index":0,"delta":{` + s + `},"finish_reason":null}]` }

func finish(s string) string { return `[{"index":0,"delta":{},"finish_reason":"` + s + `"}]` }

// both runs a test for a streaming and a non-streaming client.
func both(t *testing.T, f func(t *testing.T, r *run)) {
	t.Run("streaming", func(t *testing.T) { f(t, newRun(t, response.Options{Stream: true})) })
	t.Run("non-streaming", func(t *testing.T) { f(t, newRun(t, response.Options{})) })
}

func text(s string) func(*response.Batch) {
	return func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(s)) }
}

func stop(b *response.Batch) {
	b.Finish(0, abi.FinishStop, nil)
	b.Done(abi.DoneNow)
}
