package response_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestApplyIsAtomic(t *testing.T) {
	cases := []struct {
		name string
		bad  func(b *response.Batch)
	}{
		{"an unescaped quote in escaped text", func(b *response.Batch) { b.Text(0, abi.EncodingEscaped, []byte(`a"b`)) }},
		{"an unknown escape", func(b *response.Batch) { b.Text(0, abi.EncodingEscaped, []byte(`\x41`)) }},
		{"a raw line feed", func(b *response.Batch) { b.Refusal(0, abi.EncodingEscaped, []byte("a\nb")) }},
		{"bad digits after a high surrogate", func(b *response.Batch) { b.Text(0, abi.EncodingEscaped, []byte(`\ud83d\uzz`)) }},
		{"an invalid JSON value", func(b *response.Batch) { b.ToolArguments(0, 5, abi.EncodingJSON, []byte(`{"a":}`)) }},
		{"two JSON values", func(b *response.Batch) { b.ToolArguments(0, 5, abi.EncodingJSON, []byte(`{} {}`)) }},
		{"an unknown encoding", func(b *response.Batch) { b.Text(0, 3, nil) }},
		{"an unknown encoding bit", func(b *response.Batch) { b.Text(0, 16, nil) }},
		{"a negative encoding", func(b *response.Batch) { b.Text(0, -1, nil) }},
		{"a negative choice", func(b *response.Batch) { b.Text(-1, 0, nil) }},
		{"a choice above the limit", func(b *response.Batch) { b.Text(abi.MaxChoices, 0, nil) }},
		{"an unknown part of reasoning", func(b *response.Batch) { b.Reasoning(0, abi.ReasoningParts, 0, 0, nil) }},
		{"an unknown kind of usage", func(b *response.Batch) { b.Usage(abi.UsageKinds, 1) }},
		{"an unknown finish reason", func(b *response.Batch) { b.Finish(0, abi.FinishReasons, nil) }},
		{"an unknown done", func(b *response.Batch) { b.Done(2) }},
		{"an unknown scope", func(b *response.Batch) { b.Extra(abi.Scopes, 0, 0, []byte("a"), []byte("1")) }},
		{"an unknown event", func(b *response.Batch) { b.Events = append(b.Events, response.Event{Kind: 99}) }},
		{"a long id", func(b *response.Batch) { b.Start(make([]byte, abi.MaxName+1), nil, nil) }},
		{"a long tool name", func(b *response.Batch) { b.ToolCall(0, 9, nil, make([]byte, abi.MaxName+1)) }},
		{"a long native reason", func(b *response.Batch) { b.Finish(0, 0, make([]byte, abi.MaxName+1)) }},
		{"too many tool calls", func(b *response.Batch) {
			for k := range int32(abi.MaxKeys + 1) {
				b.ToolCall(0, k, nil, []byte("f"))
			}
		}},
		{"too many parts of reasoning", func(b *response.Batch) {
			for k := range int32(abi.MaxKeys + 1) {
				b.Reasoning(0, 0, k, 0, []byte("f"))
			}
		}},
		{"an extra member that is not JSON", func(b *response.Batch) { b.Extra(abi.ScopeAnswer, 0, 0, []byte("a"), []byte("nope")) }},
		{"an extra member without a name", func(b *response.Batch) { b.Extra(abi.ScopeAnswer, 0, 0, nil, []byte("1")) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, r *run) {
				r.apply(func(b *response.Batch) {
					b.ToolCall(0, 5, []byte("call_5"), []byte("f"))
					b.Text(0, abi.EncodingUTF8, []byte("a\xe2"))
				})
				err := r.reject(func(b *response.Batch) {
					b.Start([]byte("other"), []byte("other"), []byte("other"))
					b.Text(0, abi.EncodingUTF8, []byte("\x82\xac never\xf0"))
					b.Text(1, abi.EncodingUTF8, []byte("never"))
					b.ToolCall(0, 6, nil, []byte("never"))
					b.Extra(abi.ScopeMessage, 0, 0, []byte("never"), []byte("1"))
					b.Usage(abi.UsagePrompt, 99)
					c.bad(b)
					b.Finish(0, abi.FinishLength, nil)
					b.Done(abi.DoneNow)
				})
				var p *response.ProtocolError
				if !errors.As(err, &p) || p.Event < 6 {
					t.Fatalf("error %v, want a ProtocolError of the invalid event", err)
				}
				if r.w.HasTool(0, 6) || r.w.TextLength(0) != 1 || r.w.TextLength(1) != 0 || r.w.Usage().Prompt == 99 {
					t.Error("the rejected batch had an effect")
				}
				// The partial character from before the rejected batch can still be completed.
				r.apply(func(b *response.Batch) {
					b.Text(0, abi.EncodingUTF8, []byte("\x82\xac"))
					stop(b)
				})
				all := string(r.w.Output())
				if all == "" {
					all = r.response()
				}
				if !strings.Contains(all, "€") || strings.Contains(all, "never") || strings.Contains(all, "other") || strings.Contains(all, `"index":1`) {
					t.Errorf("got %s", all)
				}
			})
		})
	}
}

func TestApplyRejectsOversizedResponse(t *testing.T) {
	r := newRun(t, response.Options{MaxHeld: 1000})
	r.apply(text(strings.Repeat("x", 900)))
	err := r.reject(text(strings.Repeat("y", 200)))
	var e *apierror.Error
	if !errors.As(err, &e) || e.Code != "upstream_answer_too_large" || e.Status != 502 {
		t.Errorf("error %v, want upstream_answer_too_large", err)
	}
	// Written frames of a stream do not count as held.
	r = newRun(t, response.Options{Stream: true, MaxHeld: 1000})
	for range 100 {
		r.apply(text(strings.Repeat("x", 900)))
		r.w.Consume()
	}
	// Members that are held for the next chunk do.
	big := []byte(`["` + strings.Repeat("x", 600) + `"]`)
	extra := func(b *response.Batch) { b.Extra(abi.ScopeAnswer, 0, 0, []byte("citations"), big) }
	r.apply(extra)
	if err := r.reject(extra); !errors.As(err, &e) {
		t.Errorf("error %v, want upstream_answer_too_large", err)
	}
}

func TestResetClearsState(t *testing.T) {
	r := newRun(t, response.Options{Stream: true, IncludeUsage: true})
	fill := func(b *response.Batch) {
		b.Start([]byte("id"), []byte("m"), []byte("f"))
		b.Extra(abi.ScopeAnswer, 0, 0, []byte("sticky"), []byte("1"))
		b.Extra(abi.ScopeUsage, 0, 0, []byte("cost"), []byte("1"))
		b.Reasoning(0, abi.ReasoningText, 1, 0, []byte("r"))
		b.Text(0, abi.EncodingUTF8, []byte("a\xe2"))
		b.Refusal(1, abi.EncodingUTF8|abi.EncodingDefault, []byte("b"))
		b.ToolCall(0, 3, nil, []byte("f"))
		b.ToolArguments(0, 3, abi.EncodingDefault, []byte("{}"))
		b.Extra(abi.ScopeMessage, 0, 0, []byte("audio"), []byte(`{"data":"x"}`))
		b.Extra(abi.ScopeChoice, 2, 0, []byte("logprobs"), []byte(`{"content":[1]}`))
		b.Usage(abi.UsageReasoning, 4)
	}
	r.apply(fill)
	r.w.Fail(response.Truncated())
	for _, stream := range []bool{true, false} {
		r.w.Reset(response.Options{Stream: stream, IncludeUsage: true, ID: "new", Model: "new", Created: 5})
		fresh := newRun(t, response.Options{Stream: stream, IncludeUsage: true, ID: "new", Model: "new", Created: 5})
		if r.w.Started() || r.w.Failed() != nil || r.w.HasTool(0, 3) || r.w.TextLength(0) != 0 || r.w.Dropped() != 0 {
			t.Error("Reset kept state")
		}
		for _, run := range []*run{r, fresh} {
			run.apply(func(b *response.Batch) {
				b.Text(0, abi.EncodingUTF8, []byte("\x82 hello"))
				b.ToolCall(0, 3, nil, []byte("g"))
				b.Reasoning(0, abi.ReasoningSignature, 1, 0, []byte("s"))
				b.Extra(abi.ScopeMessage, 0, 0, []byte("annotations"), []byte(`[1]`))
				b.Finish(0, abi.FinishStop, nil)
				b.Text(1, abi.EncodingUTF8, []byte("b"))
				b.Finish(2, abi.FinishStop, nil)
				b.Done(abi.DoneNow)
			})
		}
		if got, want := string(r.w.Output()), string(fresh.w.Output()); got != want {
			t.Errorf("reused writer streams\n%s\nwant, as of a new one,\n%s", got, want)
		}
		if got, want := string(r.w.AppendResponse(nil)), string(fresh.w.AppendResponse(nil)); got != want {
			t.Errorf("reused writer responds\n%s\nwant, as of a new one,\n%s", got, want)
		}
	}
}

// TestAmbiguousJSONIsAProviderError checks that the provider is blamed for ambiguous JSON, because the plugin passes it
// on unchanged, and that the plugin is blamed for invalid JSON.
//
// covers: F55
func TestAmbiguousJSONIsAProviderError(t *testing.T) {
	for _, c := range []struct {
		name, json string
		provider   bool
	}{
		{"duplicate member", `{"a":1,"a":2}`, true},
		{"number out of the range of float64", `{"a":1e999}`, true},
		{"unpaired surrogate", `{"a":"\ud83d"}`, true},
		{"invalid JSON", `{"a":1`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := openai.NewWriter()
			var b response.Batch
			w.Reset(response.Options{})
			b.ToolCall(0, 1, []byte("call_1"), []byte("f"))
			b.ToolArguments(0, 1, abi.EncodingJSON, []byte(c.json))
			err := w.Apply(&b)
			e, is := errors.AsType[*apierror.Error](err)
			if err == nil || is != c.provider || is && (e.Code != "upstream_bad_answer" || e.Cause == nil) {
				t.Errorf("error %v, want the provider's: %v", err, c.provider)
			}
			if _, is := errors.AsType[*response.ProtocolError](err); !is {
				t.Errorf("the error does not identify the event: %v", err)
			}
		})
	}
}

// TestRejectedBatchReservesNothing checks that the tool calls and reasoning of rejected batches take no place of those
// that follow.
func TestRejectedBatchReservesNothing(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		for round := range int32(2 * abi.MaxKeys) {
			_ = r.reject(func(b *response.Batch) {
				b.ToolCall(0, 10+round, nil, []byte("f"))
				b.Reasoning(0, abi.ReasoningText, 10+round, 0, []byte("a"))
				b.Text(-1, 0, nil)
			})
		}
		r.apply(func(b *response.Batch) {
			b.Reasoning(0, abi.ReasoningText, 1, 0, []byte("a"))
			b.ToolCall(0, 1, nil, []byte("f"))
		})
		if !r.w.HasTool(0, 1) {
			t.Error("the tool call did not start")
		}
	})
}

// TestRevoke checks that a response which was rejected after Apply becomes an HTTP status if nothing of it was sent, and
// otherwise ends with an error frame.
func TestRevoke(t *testing.T) {
	for _, sent := range []bool{false, true} {
		r := newRun(t, response.Options{Stream: true})
		r.apply(text("a"))
		if sent {
			r.w.Consume()
		}
		r.apply(text("rejected"))
		r.apply(stop)
		r.w.Revoke(apierror.Fail(abi.FailDenied, "denied", "", "No."))
		out := string(r.w.Output())
		if r.w.Complete() || r.w.Failed() == nil || r.w.Started() != sent || strings.Contains(out, `"code":"denied"`) != sent {
			t.Errorf("sent %v: complete %v, failed %v, started %v, output %s", sent, r.w.Complete(), r.w.Failed(), r.w.Started(), out)
		}
		if !sent && out != "" {
			t.Errorf("the output still has %s", out)
		}
	}
}
