package response_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// itemRecorder is a recorder that implements response.ItemRenderer.
type itemRecorder struct {
	recorder
	missing *apierror.Error // EndItems stores it in Output.Failed
}

func (r *itemRecorder) Embedding(index int32, numbers []byte) {
	r.calls = append(r.calls, fmt.Sprintf("embedding %d %s", index, numbers))
}

func (r *itemRecorder) Rank(index int32, score []byte) {
	r.calls = append(r.calls, fmt.Sprintf("rank %d %s", index, score))
}

func (r *itemRecorder) EndItems() { r.out.Failed = r.missing }

// wrapper forwards all calls to another renderer, as thinking.Recorder does.
type wrapper struct{ response.Renderer }

func (w wrapper) Unwrap() response.Renderer { return w.Renderer }

func TestItems(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		rec := new(itemRecorder)
		var r response.Renderer = rec
		if wrap {
			r = wrapper{rec}
		}
		w := response.NewWriter(r)
		w.Reset(response.Options{PromptEstimate: 7})
		var b response.Batch
		b.Embedding(0, []byte("[1, -2.5e-3]"))
		b.Embedding(1, nil)
		b.Rank(3, []byte("0.25"))
		b.Usage(abi.UsagePrompt, 12)
		b.Done(abi.DoneNow)
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		if !w.Complete() || strings.Join(rec.calls, "; ") != "embedding 0 [1, -2.5e-3]; embedding 1 ; rank 3 0.25" {
			t.Errorf("complete %v: %q", w.Complete(), rec.calls)
		}
		if u := w.Usage(); u.Prompt != 12 || u.Completion != 0 || u.Estimated {
			t.Errorf("usage %+v", u)
		}
	}
}

func TestMissingItemsFailResponse(t *testing.T) {
	rec := &itemRecorder{}
	w := response.NewWriter(rec)
	w.Reset(response.Options{})
	rec.missing = apierror.Fail(abi.FailBadAnswer, "", "", "one vector is missing")
	var b response.Batch
	b.Embedding(0, []byte("[1]"))
	b.Done(abi.DoneNow)
	if err := w.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if w.Complete() || w.Failed() != rec.missing || rec.complete {
		t.Errorf("complete %v, failed %v", w.Complete(), w.Failed())
	}
}

func TestRejectsInvalidItems(t *testing.T) {
	for name, fill := range map[string]func(b *response.Batch){
		"negative index":             func(b *response.Batch) { b.Embedding(-1, []byte("[1]")) },
		"number instead of an array": func(b *response.Batch) { b.Embedding(0, []byte("1")) },
		"string in the vector":       func(b *response.Batch) { b.Embedding(0, []byte(`[1,"2"]`)) },
		"truncated vector":           func(b *response.Batch) { b.Embedding(0, []byte("[1,2")) },
		"nested vector":              func(b *response.Batch) { b.Embedding(0, []byte("[[1]]")) },
		"string as a score":          func(b *response.Batch) { b.Rank(0, []byte(`"1"`)) },
		"space before the score":     func(b *response.Batch) { b.Rank(0, []byte(" 1")) },
		"two scores":                 func(b *response.Batch) { b.Rank(0, []byte("1,2")) },
	} {
		t.Run(name, func(t *testing.T) {
			rec := new(itemRecorder)
			w := response.NewWriter(rec)
			w.Reset(response.Options{})
			var b response.Batch
			b.Embedding(0, []byte("[1]"))
			fill(&b)
			err := w.Apply(&b)
			if _, rejected := errors.AsType[*response.ProtocolError](err); !rejected || len(rec.calls) > 0 {
				t.Errorf("error %v, want a ProtocolError; calls %q", err, rec.calls)
			}
			// Vectors and scores are passed on by plugins, so invalid ones are the provider's error.
			if e, provider := errors.AsType[*apierror.Error](err); provider != (name != "negative index") || provider && e.Code != "upstream_bad_answer" {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestRejectsItemsInChatResponse uses a renderer of chat completions, which have neither vectors nor ranks.
func TestRejectsItemsInChatResponse(t *testing.T) {
	r := newRun(t, response.Options{})
	r.reject(func(b *response.Batch) { b.Embedding(0, []byte("[1]")) })
	r.reject(func(b *response.Batch) { b.Rank(0, []byte("1")) })
}
