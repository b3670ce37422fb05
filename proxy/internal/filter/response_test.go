package filter_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// play applies reads to a pipeline for chat completions, and returns what the client received.
func play(t *testing.T, pl *pipeline, reads ...func(b *response.Batch)) string {
	t.Helper()
	for _, read := range reads {
		pl.read(read)
		pl.run()
	}
	return string(pl.sent)
}

func TestSignedReasoningIsNotEdited(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"})
	for _, signed := range []bool{true, false} {
		pl := newPipeline(t, openai.API(), filters, true)
		format := []byte(nil)
		if signed {
			format = []byte("anthropic-claude-v1")
		}
		sent := play(t, pl,
			func(b *response.Batch) {
				b.Start(nil, nil, format)
				b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingUTF8, []byte("first se"))
			},
			func(b *response.Batch) {
				b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingUTF8, []byte("cret, then more"))
			},
			func(b *response.Batch) { b.Reasoning(0, abi.ReasoningSignature, 0, abi.EncodingUTF8, []byte("SIGNED")) },
			func(b *response.Batch) {
				b.Reasoning(0, abi.ReasoningText, 1, abi.EncodingUTF8, []byte("another"))
				b.Reasoning(0, abi.ReasoningSignature, 1, abi.EncodingUTF8, []byte("VALID"))
			},
		)
		if pl.err != nil || strings.Contains(sent, "secret") || strings.Contains(sent, "SIGNED") || !strings.Contains(sent, "VALID") || !strings.Contains(sent, "first ") {
			t.Errorf("signed %v: %v in\n%s", signed, pl.err, sent)
		}
		if edited := strings.Contains(sent, "***, then more"); edited == signed {
			t.Errorf("signed %v: edited %v in\n%s", signed, edited, sent)
		}
	}
}

// TestHeldArgumentsAreBounded checks that arguments, which are held until they are complete, do not fill the memory.
func TestHeldArgumentsAreBounded(t *testing.T) {
	pl := newPipeline(t, openai.API(), bindFilters(t, wordFilter{find: "secret", put: "***"}), true)
	pl.read(func(b *response.Batch) { b.ToolCall(0, 1, []byte("c"), []byte("f")) })
	piece := []byte(strings.Repeat("x", 1<<20))
	for n := 0; n < response.DefaultMaxHeld; n += len(piece) {
		pl.read(func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingEscaped, piece) })
		if pl.run(); pl.err != nil {
			t.Fatalf("after %d bytes: %v", n+len(piece), pl.err)
		}
	}
	pl.read(func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingEscaped, []byte("x")) })
	pl.run()
	if e, ok := pl.err.(*apierror.Error); !ok || e.Code != "upstream_answer_too_large" {
		t.Errorf("got %v", pl.err)
	}
}

// TestHeldTextIsNotOvertaken checks that held text is sent before anything that follows it in its choice.
func TestHeldTextIsNotOvertaken(t *testing.T) {
	pl := newPipeline(t, openai.API(), bindFilters(t, wordFilter{find: "secret", put: "***"}), true)
	first := play(t, pl, func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a secre")) })
	if strings.Contains(first, "secre") || !strings.Contains(first, `"content":"a "`) {
		t.Errorf("sent %s", first)
	}
	sent := play(t, pl, func(b *response.Batch) { b.ToolCall(0, 1, []byte("c"), []byte("f")) })
	text, call := strings.Index(sent, `"content":"secre"`), strings.Index(sent, "tool_calls")
	if text < 0 || call < text {
		t.Errorf("sent %s", sent)
	}
}

// TestHeldTextIsSentAtFinish checks that what a filter holds of a text is sent if the response ends with that text.
func TestHeldTextIsSentAtFinish(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"})
	for name, api := range apis() {
		for _, stream := range []bool{true, false} {
			pl := newPipeline(t, api, filters, stream)
			sent := play(t, pl,
				func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a secret is a secre")) },
				func(b *response.Batch) {
					b.Finish(0, abi.FinishStop, nil)
					b.Done(abi.DoneNow)
				},
			)
			if pl.err != nil || !pl.w.Complete() {
				t.Fatalf("%s, stream %v: %v", name, stream, pl.err)
			}
			if !stream {
				sent = string(pl.w.AppendResponse(nil))
			}
			if got, _ := text(t, name, stream, []byte(sent)); got != "a *** is a secre" {
				t.Errorf("%s, stream %v: got %q in\n%s", name, stream, got, sent)
			}
		}
	}
}

// TestFinishSendsWhatIsHeld checks each kind of text in a stream that ends while a filter holds a part of it.
func TestFinishSendsWhatIsHeld(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"})
	for _, tt := range []struct {
		name   string
		events func(b *response.Batch)
		want   string // of the frame before the finish reason
	}{
		{"text", func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a secre")) }, `"content":"secre"`},
		{"refusal", func(b *response.Batch) { b.Refusal(0, abi.EncodingUTF8, []byte("a secre")) }, `"refusal":"secre"`},
		{"reasoning", func(b *response.Batch) { b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingUTF8, []byte("a secre")) }, `"reasoning_content":"secre"`},
		{"arguments of a call that the finish ends", func(b *response.Batch) {
			b.ToolCall(0, 1, []byte("c"), []byte("f"))
			b.ToolArguments(0, 1, abi.EncodingUTF8, []byte(`{"a":"secre"}`))
		}, `{\"a\":\"secre\"}`},
		{"arguments of a truncated call", func(b *response.Batch) {
			b.ToolCall(0, 1, []byte("c"), []byte("f"))
			b.ToolArguments(0, 1, abi.EncodingUTF8, []byte(`{"a":"secre`))
			b.Finish(0, abi.FinishLength, nil)
		}, `{\"a\":\"secre`},
		{"log probabilities", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("a"))
			b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), []byte(`{"content":[{"token":"a"}]}`))
		}, `"token":"a"`},
	} {
		pl := newPipeline(t, openai.API(), filters, true)
		play(t, pl, tt.events)
		sent := play(t, pl, func(b *response.Batch) {
			b.Finish(0, abi.FinishStop, nil)
			b.Done(abi.DoneNow)
		})
		at, finish := strings.Index(sent, tt.want), strings.Index(sent, `"finish_reason":"`)
		if pl.err != nil || at < 0 || finish < at {
			t.Errorf("%s: %v, want %s before the finish reason in\n%s", tt.name, pl.err, tt.want, sent)
		}
	}
}

func TestLogprobsOfFilteredTextAreDropped(t *testing.T) {
	pl := newPipeline(t, openai.API(), bindFilters(t, wordFilter{find: "secret", put: "***"}), true)
	text := func(s string) func(b *response.Batch) {
		return func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte(s))
			b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), []byte(`{"content":[{"token":"`+s+`","logprob":-1}]}`))
		}
	}
	sent := play(t, pl, text("one"), text(" sec"), text("ret"), text("two"))
	if !strings.Contains(sent, `"token":"one"`) || strings.Contains(sent, `"token":" sec"`) || strings.Contains(sent, `"token":"ret"`) || strings.Contains(sent, `"token":"two"`) {
		t.Errorf("sent %s", sent)
	}
}

func TestExtraMembersAreFilteredOrRejected(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"})
	pl := newPipeline(t, openai.API(), filters, true)
	sent := play(t, pl, func(b *response.Batch) {
		b.Text(0, abi.EncodingUTF8, []byte("x"))
		b.Extra(abi.ScopeMessage, 0, 0, []byte("annotations"), []byte(`[{"type":"url_citation","url_citation":{"title":"a secret"}}]`))
	})
	if pl.err != nil || strings.Contains(sent, "secret") || !strings.Contains(sent, "a ***") {
		t.Errorf("%v: %s", pl.err, sent)
	}
	pl = newPipeline(t, openai.API(), filters, true)
	play(t, pl, func(b *response.Batch) {
		b.Extra(abi.ScopeMessage, 0, 0, []byte("audio"), []byte(`{"transcript":"secret"}`))
	})
	if e, ok := pl.err.(*apierror.Error); !ok || e.Code != "filter_failed" {
		t.Errorf("audio: %v", pl.err)
	}
}

func TestFilterFailure(t *testing.T) {
	filters := bindFilters(t, wordFilter{trap: "boom", find: "secret", put: "***"}, wordFilter{find: "a", put: "b"})
	trapping := func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a boom")) }
	pl := newPipeline(t, openai.API(), filters, true)
	sent := play(t, pl, trapping)
	if e, ok := pl.err.(*apierror.Error); !ok || e.Code != "filter_failed" || e.TryNext || strings.Contains(sent, "boom") {
		t.Errorf("%v: %s", pl.err, sent)
	}
	filters[0].Config.Pass = true
	pl = newPipeline(t, openai.API(), filters, true)
	if sent := play(t, pl, trapping); pl.err != nil || !strings.Contains(sent, `"content":"b boom"`) {
		t.Errorf("%v: %s", pl.err, sent)
	}
	// The next response is not affected.
	filters[0].Config.Pass = false
	pl = newPipeline(t, openai.API(), filters, true)
	if sent := play(t, pl, func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a")) }); pl.err != nil || !strings.Contains(sent, `"content":"b"`) {
		t.Errorf("%v: %s", pl.err, sent)
	}
}

// filterRequest filters a request, and appends the result to prefix.
func filterRequest(t *testing.T, pl *pipeline, api, body, prefix string) (out string, changed bool, err error) {
	t.Helper()
	var doc jsondoc.Doc
	if err := doc.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	if changed, err = pl.chain.Request(t.Context(), api, &doc); err != nil || !changed {
		return prefix, changed, err
	}
	p, err := pl.chain.AppendRequest([]byte(prefix))
	return string(p), changed, err
}

// TestRequestTextsThatAreNotPlain checks what a filter's change does to a text that must not be edited, and to signed
// reasoning, which loses its signature.
func TestRequestTextsThatAreNotPlain(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "*"})
	for _, tt := range []struct{ api, body, want string }{
		{"chat", `{"stop":["secret"]}`, "stop[0]"},
		{"chat", `{"messages":[{"role":"user","name":"secret","content":"a"}]}`, "messages[0].name"},
		{"messages", `{"tools":[{"name":"f","input_schema":{"properties":{"secret":{"enum":["a","secret"]}}}}]}`, "tools[0].input_schema.properties.secret.enum[1]"},
		{"gemini", `{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"properties":{"a":{"pattern":"secret"}}}}]}]}`, "tools[0].functionDeclarations[0].parameters.properties.a.pattern"},
		{"messages", `{"tools":[{"name":"f","input_schema":{"description":"secret"}}]}`, `{"tools":[{"name":"f","input_schema":{"description":"*"}}]}`},
		{"messages", `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a secret","signature":"s"},{"type":"thinking","thinking":"b","signature":"s"}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a *"},{"type":"thinking","thinking":"b","signature":"s"}]}]}`},
		{"gemini", `{"contents":[{"parts":[{"thoughtSignature":"s","text":"secret","thought":true}]}]}`, `{"contents":[{"parts":[{"text":"*","thought":true}]}]}`},
		{"responses", `{"input":[{"type":"reasoning","id":"r","encrypted_content":"s","summary":[{"type":"summary_text","text":"secret"},{"type":"summary_text","text":"secret"}]}]}`,
			`{"input":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"*"},{"type":"summary_text","text":"*"}]}]}`},
		{"chat", `{"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"secret","signature":"s"}]}]}`,
			`{"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"*"}]}]}`},
	} {
		pl := newPipeline(t, openai.API(), filters, false)
		out, _, err := filterRequest(t, pl, tt.api, tt.body, "")
		if tt.want[0] == '{' {
			if err != nil || out != tt.want {
				t.Errorf("%s: %v\n got %s\nwant %s", tt.body, err, out, tt.want)
			}
			continue
		}
		e, ok := err.(*apierror.Error)
		if !ok || e.Status != 400 || e.Code != "filter_refused" || e.Param != tt.want || e.TryNext || strings.Contains(e.Message, "a secret") {
			t.Errorf("%s: %v", tt.body, err)
		}
	}
}

func TestRequestIsEditedInPlace(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "*\"*", tag: "b", refuse: "forbidden"})
	edit := func(body string) (string, bool, error) {
		pl := newPipeline(t, openai.API(), filters, true)
		if err := pl.chain.Announce(t.Context(), []byte(`{"summary":{"key":"alice"}}`)); err != nil {
			t.Fatal(err)
		}
		if tags := pl.chain.AppendTags(nil); len(tags) != 1 || tags[0] != "b" {
			t.Errorf("tags %v", tags)
		}
		return filterRequest(t, pl, "chat", body, "> ")
	}
	const before = `{ "x" : 1.50, "messages":[{"role":"user","content":"a \u0073ecret"},{"role":"assistant","tool_calls":[{"id":"secret","function":{"name":"tool","arguments":"{\"secret\": \"a secret\", \"n\": 1.0}"}}]}],"model":"secret"}`
	const after = `> { "x" : 1.50, "messages":[{"role":"user","content":"a *\"*"},{"role":"assistant","tool_calls":[{"id":"secret","function":{"name":"tool","arguments":"{\"secret\": \"a *\\\"*\", \"n\": 1.0}"}}]}],"model":"secret"}`
	if out, changed, err := edit(before); err != nil || !changed || out != after {
		t.Errorf("%v %v\n got %s\nwant %s", changed, err, out, after)
	}
	if out, changed, err := edit(`{"messages":[{"role":"user","content":"nothing"}]}`); err != nil || changed || out != "> " {
		t.Errorf("%q %v %v", out, changed, err)
	}
	if _, _, err := edit(`{"messages":[{"role":"user","content":"forbidden"}]}`); err == nil || err.(*apierror.Error).Status != 403 {
		t.Errorf("%v", err)
	}
}

// BenchmarkEvent measures a stream event with and without a filter.
func BenchmarkEvent(b *testing.B) {
	filters := bindFilters(b, wordFilter{})
	for name, list := range map[string]int{"none": 0, "one": 1} {
		b.Run(name, func(b *testing.B) {
			pl := newPipeline(b, openai.API(), filters[:list], true)
			if list == 0 {
				pl.w.Reset(response.Options{Stream: true, ID: "id", Model: "m", Created: 1})
			}
			var batch response.Batch
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				batch.Text(0, abi.EncodingUTF8, []byte("some words of an answer"))
				if err := pl.w.Apply(&batch); err != nil {
					b.Fatal(err)
				}
				if err := pl.filtered.Run(b.Context()); err != nil {
					b.Fatal(err)
				}
				pl.w.Consume()
			}
		})
	}
}
