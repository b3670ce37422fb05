package response_test

import (
	"errors"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// failingRenderer is a recorder for an API that cannot represent texts or finish reasons.
type failingRenderer struct {
	recorder
	text, finish bool // whether Text and Finish set Output.Failed
}

func (p *failingRenderer) Text(choice int32, s []byte) {
	p.recorder.Text(choice, s)
	if p.text {
		p.out.Failed = apierror.Fail(abi.FailBadToolCall, "", "", "")
	}
}

func (p *failingRenderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	p.recorder.Finish(choice, reason, native)
	if p.finish {
		p.out.Failed = apierror.Fail(abi.FailBadToolCall, "", "", "")
	}
}

func TestUnrepresentableResponseFails(t *testing.T) {
	for _, stream := range []bool{true, false} {
		p := &failingRenderer{text: true}
		w := response.NewWriter(p)
		w.Reset(response.Options{Stream: stream})
		var b response.Batch
		b.Text(0, abi.EncodingUTF8, []byte("x"))
		var e *apierror.Error
		if err := w.Apply(&b); !errors.As(err, &e) || e.Code != "upstream_invalid_tool_call" {
			t.Errorf("stream %t: Apply returned %v", stream, err)
		}
		if w.Started() || w.Complete() {
			t.Errorf("stream %t: the batch was written: %q", stream, w.Output())
		}

		p.text, p.finish = false, true
		w.Reset(response.Options{Stream: stream})
		if err := w.Apply(&b); err != nil {
			t.Errorf("stream %t: Apply after a failed response and Reset returned %v", stream, err)
		}
		b.Reset()
		b.Done(abi.DoneNow)
		if err := w.Apply(&b); err != nil || w.Complete() || w.Failed() == nil || p.complete {
			t.Errorf("stream %t: Apply returned %v, complete %t, failed %v", stream, err, w.Complete(), w.Failed())
		}
	}
}

func TestHeadHasUsageSoFar(t *testing.T) {
	var r recorder
	w := response.NewWriter(&r)
	w.Reset(response.Options{ID: "own", PromptEstimate: 7})
	if u := r.head.Usage(); u.Prompt != 7 || !u.Estimated || r.head.OwnID != "own" {
		t.Errorf("usage %+v, ID %q", u, r.head.OwnID)
	}
	var b response.Batch
	b.Start([]byte("theirs"), nil, nil)
	b.Usage(abi.UsagePrompt, 12)
	if err := w.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if u := r.head.Usage(); u.Prompt != 12 || r.head.OwnID != "own" {
		t.Errorf("usage %+v, ID %q", u, r.head.OwnID)
	}
}
