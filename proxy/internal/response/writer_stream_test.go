package response_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: S1 S3 S7
func TestStreamEnvelope(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		b.Start([]byte("id-1"), []byte("model-1"), nil)
		b.Text(0, abi.EncodingUTF8, []byte("Hi"))
	})
	r.apply(text(" you"))
	r.apply(stop)
	if !r.w.Complete() {
		t.Error("the response is incomplete")
	}
	r.want(role, content("Hi"), content(" you"), finish("stop"), done)
	const first = `{"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"model-1","system_fingerprint":null,"choices":` + role + `}`
	if got := r.frames()[0]; got != first {
		t.Errorf("first frame is %s", got)
	}
	if n := strings.Count(string(r.w.Output()), `"role"`); n != 1 {
		t.Errorf("%d chunks have a role, want 1", n)
	}
	if out := string(r.w.Output()); !strings.HasSuffix(out, "}\n\ndata: [DONE]\n\n") {
		t.Errorf("the stream ends with %q", out[len(out)-30:])
	}
}

// covers: S1
func TestRoleChunkWaitsForContent(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		b.Start([]byte("x"), []byte("y"), nil)
		b.Text(0, abi.EncodingUTF8, nil)
		b.Usage(abi.UsagePrompt, 3)
		b.Extra(abi.ScopeAnswer, 0, 0, []byte("provider"), []byte(`"P"`))
		b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), []byte(`{"content":[]}`))
	})
	if r.w.Started() {
		t.Errorf("started before any content: %s", r.w.Output())
	}
}

// covers: S2
func TestSameIdentityInEveryChunk(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) { b.Start(nil, []byte("first"), nil) })
	r.apply(func(b *response.Batch) { b.Start([]byte("one"), nil, nil) })
	r.apply(text("a"))
	r.apply(func(b *response.Batch) { b.Start([]byte("two"), []byte("second"), nil) })
	r.apply(text("b"))
	r.apply(stop)
	for _, f := range r.frames() {
		if f != done && !strings.HasPrefix(f, `{"id":"one","object":"chat.completion.chunk","created":1700000000,"model":"first",`) {
			t.Errorf("frame is %s", f)
		}
	}
}

// covers: S2
func TestStartAfterTextInBatch(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		b.Text(0, 0, []byte("a"))
		b.Start([]byte("id"), nil, nil)
		b.Start([]byte("late"), []byte("m"), nil)
	})
	if got := r.frames()[0]; !strings.HasPrefix(got, `{"id":"id","object":"chat.completion.chunk","created":1700000000,"model":"m",`) {
		t.Errorf("got %s", got)
	}
}

// covers: S2
func TestMissingStartIsGenerated(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		r.apply(text("a"))
		r.apply(stop)
		got := string(r.w.Output())
		if got == "" {
			got = r.response()
		}
		if !strings.Contains(got, `"id":"chatcmpl-own"`) || !strings.Contains(got, `"model":"asked"`) {
			t.Errorf("got %s", got)
		}
	})
}

// covers: S3
func TestOneFinishPerChoice(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(text("a"))
	r.apply(func(b *response.Batch) { b.Finish(0, abi.FinishLength, nil) })
	r.apply(func(b *response.Batch) { b.Finish(0, abi.FinishStop, nil) })
	r.want(role, content("a")) // the finish reason is held back until the response is complete
	r.apply(func(b *response.Batch) { b.Done(abi.DoneNow) })
	r.want(role, content("a"), finish("length"), done)
}

// covers: S3
func TestChoicesFinishIndependently(t *testing.T) {
	r := newRun(t, response.Options{Stream: true, Choices: 2})
	r.apply(func(b *response.Batch) {
		b.Text(1, abi.EncodingUTF8, []byte("b"))
		b.Text(0, abi.EncodingUTF8, []byte("a"))
		b.Finish(1, abi.FinishLength, nil)
		b.Text(0, abi.EncodingUTF8, []byte("c"))
		b.Finish(0, abi.FinishStop, nil)
		b.Done(abi.DoneNow)
	})
	r.want(
		`[{"index":1,"delta":{"role":"assistant","content":""},"finish_reason":null}]`,
		`[{"index":1,"delta":{"content":"b"},"finish_reason":null}]`,
		role, content("a"), content("c"), finish("stop"),
		`[{"index":1,"delta":{},"finish_reason":"length"}]`,
		done,
	)
}

// covers: S4
func TestUsageChunkIfRequested(t *testing.T) {
	r := newRun(t, response.Options{Stream: true, IncludeUsage: true})
	r.apply(text("a"))
	r.apply(func(b *response.Batch) {
		b.Usage(abi.UsagePrompt, 20)
		b.Usage(abi.UsageCompletion, 2)
		stop(b)
	})
	frames := r.frames()
	for _, f := range frames[:3] {
		if !strings.HasSuffix(f, `}],"usage":null}`) {
			t.Errorf("frame is %s", f)
		}
	}
	if want := `"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,"total_tokens":22}}`; !strings.HasSuffix(frames[3], want) {
		t.Errorf("usage chunk is %s", frames[3])
	}
	if frames[4] != done || len(frames) != 5 {
		t.Errorf("frames are %q", frames)
	}
}

// covers: S5
func TestNoUsageUnlessRequested(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(text("a"))
	r.apply(func(b *response.Batch) {
		b.Usage(abi.UsagePrompt, 20)
		b.Usage(abi.UsageCompletion, 2)
		stop(b)
	})
	if out := string(r.w.Output()); strings.Contains(out, "usage") || strings.Contains(out, `"choices":[]`) {
		t.Errorf("got %s", out)
	}
	if u := r.w.Usage(); u.Prompt != 20 || u.Completion != 2 || !u.Known || u.Estimated || !u.Complete {
		t.Errorf("usage %+v", u)
	}
}

// covers: S10
func TestTruncatedStream(t *testing.T) {
	cases := []struct {
		name string
		fill func(b *response.Batch)
	}{
		{"within the text", text("a")},
		{"finish without Done", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("a"))
			b.Finish(0, abi.FinishStop, nil)
		}},
		{"choice begun after Done", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("a"))
			b.Finish(0, abi.FinishStop, nil)
			b.Done(abi.DoneAtEnd)
			b.Text(1, abi.EncodingUTF8, []byte("b"))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, response.Options{Stream: true, IncludeUsage: true, PromptEstimate: 9})
			r.apply(c.fill)
			r.apply(func(b *response.Batch) { b.Usage(abi.UsageCompletion, 4) })
			err := r.w.End()
			var e *apierror.Error
			if !errors.As(err, &e) || e.Code != "upstream_stream_truncated" || r.w.Failed() != e || r.w.Complete() {
				t.Fatalf("End returns %v, failed is %v", err, r.w.Failed())
			}
			frames := r.frames()
			const want = `{"error":{"message":"Upstream closed the stream before it was complete","type":"server_error","param":null,"code":"upstream_stream_truncated"}}`
			if got := frames[len(frames)-1]; got != want {
				t.Errorf("last frame is %s", got)
			}
			if out := string(r.w.Output()); strings.Contains(out, done) || strings.Contains(out, `"finish_reason":"`) || strings.Contains(out, `"usage":{`) {
				t.Errorf("the truncated stream has a finish reason, usage or [DONE]: %s", out)
			}
			if u := r.w.Usage(); u.Completion != 4 || u.Prompt != 9 || u.Complete || !u.Estimated || !u.Known {
				t.Errorf("usage %+v", u)
			}
		})
	}
}

// covers: S10
func TestTruncatedBeforeFirstByte(t *testing.T) {
	for _, stream := range []bool{true, false} {
		r := newRun(t, response.Options{Stream: stream})
		r.apply(func(b *response.Batch) { b.Start([]byte("x"), nil, nil) })
		var e *apierror.Error
		if err := r.w.End(); !errors.As(err, &e) || e.Status != 502 || !e.TryNext {
			t.Errorf("End returns %v", err)
		}
		if r.w.Started() {
			t.Errorf("the stream started: %s", r.w.Output())
		}
	}
}

func TestRejectsEmptyResponse(t *testing.T) {
	for _, fill := range []func(*response.Batch){nil, func(b *response.Batch) { b.Usage(abi.UsagePrompt, 1); b.Done(abi.DoneNow) }} {
		r := newRun(t, response.Options{Stream: true})
		if fill != nil {
			r.apply(fill)
		}
		var e *apierror.Error
		if err := r.w.End(); !errors.As(err, &e) || e.Code != "upstream_bad_answer" {
			t.Errorf("End returns %v", err)
		}
	}
}

func TestDoneAtCleanEnd(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		r.apply(text("a"))
		r.apply(func(b *response.Batch) {
			b.Finish(0, abi.FinishStop, nil)
			b.Done(abi.DoneAtEnd)
		})
		if r.w.Complete() {
			t.Error("complete before End")
		}
		r.apply(func(b *response.Batch) { b.Usage(abi.UsageCompletion, 8) })
		if err := r.w.End(); err != nil || !r.w.Complete() {
			t.Errorf("End returns %v", err)
		}
		if got := r.w.Usage().Completion; got != 8 {
			t.Errorf("%d completion tokens, want 8", got)
		}
		if err := r.w.End(); err != nil {
			t.Errorf("the second End returns %v", err)
		}
	})
}

func TestDoneWithoutFinishIsStop(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(text("a"))
	r.apply(func(b *response.Batch) { b.Done(abi.DoneNow) })
	r.want(role, content("a"), finish("stop"), done)
}

// covers: S14
func TestFailureBeforeFirstByte(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		r.apply(func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("dropped"))
			b.Usage(abi.UsagePrompt, 5)
			b.Fail(apierror.Fail(abi.FailOverloaded, "", "", ""))
			b.Done(abi.DoneNow)
		})
		if r.w.Started() || r.w.Complete() || r.w.Failed() == nil || r.w.Failed().Status != 503 {
			t.Errorf("started %v, complete %v, failed %v", r.w.Started(), r.w.Complete(), r.w.Failed())
		}
		if r.w.Usage().Prompt != 5 {
			t.Errorf("%d prompt tokens, want 5", r.w.Usage().Prompt)
		}
	})
}

func TestErrorFrameEndsStartedStream(t *testing.T) {
	for _, consumed := range []bool{true, false} {
		r := newRun(t, response.Options{Stream: true, IncludeUsage: true})
		r.apply(text("a"))
		if consumed {
			r.w.Consume()
			if len(r.w.Output()) != 0 || !r.w.Started() {
				t.Error("Consume did not empty Output, or reset Started")
			}
		}
		r.apply(func(b *response.Batch) {
			b.Finish(0, abi.FinishStop, nil)
			b.Fail(apierror.Fail(abi.FailRateLimit, "", "", "slow \"down\"\n"))
			b.Done(abi.DoneNow)
		})
		frames := r.frames()
		const want = `{"error":{"message":"slow \"down\"\n","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`
		if got := frames[len(frames)-1]; got != want {
			t.Errorf("last frame is %s", got)
		}
		n := len(frames)
		r.w.Fail(response.Truncated())
		r.apply(text("more"))
		r.apply(stop)
		if err := r.w.End(); err != r.w.Failed() {
			t.Errorf("End returns %v", err)
		}
		if len(r.frames()) != n {
			t.Errorf("frames after the end: %q", r.frames())
		}
	}
}

func TestNothingFollowsDone(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(text("a"))
	r.apply(stop)
	n := len(r.frames())
	r.w.Fail(response.Truncated())
	r.apply(text("b"))
	r.apply(func(b *response.Batch) { b.Fail(response.Truncated()) })
	if r.w.Failed() != nil || len(r.frames()) != n || r.w.Dropped() != 1 {
		t.Errorf("failed %v, dropped %d, frames %q", r.w.Failed(), r.w.Dropped(), r.frames())
	}
}

// covers: S20
func TestContentAfterFinishIsDropped(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		r.apply(text("a"))
		r.apply(func(b *response.Batch) {
			b.Finish(0, abi.FinishStop, nil)
			b.Text(0, abi.EncodingUTF8, []byte("b"))
			b.Text(0, abi.EncodingUTF8, nil) // an empty text does not count as dropped
		})
		r.apply(func(b *response.Batch) {
			b.ToolCall(0, 1, nil, []byte("f"))
			b.ToolArguments(0, 1, abi.EncodingUTF8, []byte("{}"))
			b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingUTF8, []byte("c"))
			b.Refusal(0, abi.EncodingUTF8, []byte("d"))
		})
		r.apply(func(b *response.Batch) { b.Done(abi.DoneNow) })
		if got := r.w.Dropped(); got != 5 {
			t.Errorf("%d dropped, want 5", got)
		}
		if r.w.Output() != nil && len(r.w.Output()) > 0 {
			r.want(role, content("a"), finish("stop"), done)
		} else if got := r.message(); got != `{"role":"assistant","content":"a","refusal":null}` {
			t.Errorf("message is %s", got)
		}
	})
}

// covers: S21
func TestNonStreamingResponseAsStream(t *testing.T) {
	r := newRun(t, response.Options{Stream: true, IncludeUsage: true})
	r.apply(func(b *response.Batch) {
		b.Start([]byte("id-1"), []byte("m"), nil)
		b.Text(0, abi.EncodingUTF8, []byte("Hello"))
		b.ToolCall(0, 0, []byte("call_1"), []byte("f"))
		b.ToolArguments(0, 0, abi.EncodingUTF8, []byte(`{"a":1}`))
		b.ToolEnd(0, 0)
		b.Finish(0, abi.FinishToolCalls, nil)
		b.Usage(abi.UsagePrompt, 1)
		b.Usage(abi.UsageCompletion, 2)
		b.Done(abi.DoneNow)
	})
	r.want(
		role+`,"usage":null`,
		content("Hello")+`,"usage":null`,
		delta(`"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]`)+`,"usage":null`,
		finish("tool_calls")+`,"usage":null`,
		`[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`,
		done,
	)
}
