package filter_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// play runs reads through a gate for chat completions.
func play(t *testing.T, g *gate, reads ...func(b *response.Batch)) string {
	t.Helper()
	for _, read := range reads {
		g.read(read)
		g.run()
	}
	return string(g.sent)
}

func TestSignedReasoningIsNotEdited(t *testing.T) {
	filters := bound(t, word{find: "secret", put: "***"})
	for _, signed := range []bool{true, false} {
		g := newGate(t, openai.API(), filters, true)
		format := []byte(nil)
		if signed {
			format = []byte("anthropic-claude-v1")
		}
		sent := play(t, g,
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
		if g.err != nil || strings.Contains(sent, "secret") || strings.Contains(sent, "SIGNED") || !strings.Contains(sent, "VALID") || !strings.Contains(sent, "first ") {
			t.Errorf("signed %v: %v in\n%s", signed, g.err, sent)
		}
		if edited := strings.Contains(sent, "***, then more"); edited == signed {
			t.Errorf("signed %v: edited %v in\n%s", signed, edited, sent)
		}
	}
}

// TestHeldTextIsNotOvertaken checks that what is held goes out before anything else of its choice.
func TestHeldTextIsNotOvertaken(t *testing.T) {
	g := newGate(t, openai.API(), bound(t, word{find: "secret", put: "***"}), true)
	first := play(t, g, func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a secre")) })
	if strings.Contains(first, "secre") || !strings.Contains(first, `"content":"a "`) {
		t.Errorf("sent %s", first)
	}
	sent := play(t, g, func(b *response.Batch) { b.ToolCall(0, 1, []byte("c"), []byte("f")) })
	text, call := strings.Index(sent, `"content":"secre"`), strings.Index(sent, "tool_calls")
	if text < 0 || call < text {
		t.Errorf("sent %s", sent)
	}
}

func TestLogprobsOfFilteredTextAreDropped(t *testing.T) {
	g := newGate(t, openai.API(), bound(t, word{find: "secret", put: "***"}), true)
	text := func(s string) func(b *response.Batch) {
		return func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte(s))
			b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), []byte(`{"content":[{"token":"`+s+`","logprob":-1}]}`))
		}
	}
	sent := play(t, g, text("one"), text(" sec"), text("ret"), text("two"))
	if !strings.Contains(sent, `"token":"one"`) || strings.Contains(sent, `"token":" sec"`) || strings.Contains(sent, `"token":"ret"`) || strings.Contains(sent, `"token":"two"`) {
		t.Errorf("sent %s", sent)
	}
}

func TestUnfilteredMembers(t *testing.T) {
	filters := bound(t, word{find: "secret", put: "***"})
	g := newGate(t, openai.API(), filters, true)
	sent := play(t, g, func(b *response.Batch) {
		b.Text(0, abi.EncodingUTF8, []byte("x"))
		b.Extra(abi.ScopeMessage, 0, 0, []byte("annotations"), []byte(`[{"type":"url_citation","url_citation":{"title":"a secret"}}]`))
	})
	if g.err != nil || strings.Contains(sent, "secret") || !strings.Contains(sent, "a ***") {
		t.Errorf("%v: %s", g.err, sent)
	}
	g = newGate(t, openai.API(), filters, true)
	play(t, g, func(b *response.Batch) {
		b.Extra(abi.ScopeMessage, 0, 0, []byte("audio"), []byte(`{"transcript":"secret"}`))
	})
	if e, ok := g.err.(*apierror.Error); !ok || e.Code != "filter_failed" {
		t.Errorf("audio: %v", g.err)
	}
}

func TestFilterFailure(t *testing.T) {
	filters := bound(t, word{trap: "boom", find: "secret", put: "***"}, word{find: "a", put: "b"})
	say := func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a boom")) }
	g := newGate(t, openai.API(), filters, true)
	sent := play(t, g, say)
	if e, ok := g.err.(*apierror.Error); !ok || e.Code != "filter_failed" || e.TryNext || strings.Contains(sent, "boom") {
		t.Errorf("%v: %s", g.err, sent)
	}
	filters[0].Config.Pass = true
	g = newGate(t, openai.API(), filters, true)
	if sent := play(t, g, say); g.err != nil || !strings.Contains(sent, `"content":"b boom"`) {
		t.Errorf("%v: %s", g.err, sent)
	}
	// Another response is not concerned.
	filters[0].Config.Pass = false
	g = newGate(t, openai.API(), filters, true)
	if sent := play(t, g, func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("a")) }); g.err != nil || !strings.Contains(sent, `"content":"b"`) {
		t.Errorf("%v: %s", g.err, sent)
	}
}

func TestRequestIsEditedInPlace(t *testing.T) {
	filters := bound(t, word{find: "secret", put: "*\"*", tag: "b", refuse: "forbidden"})
	edit := func(body string) (string, bool, error) {
		g := newGate(t, openai.API(), filters, true)
		if err := g.chain.Announce(t.Context(), []byte(`{"summary":{"key":"alice"}}`)); err != nil {
			t.Fatal(err)
		}
		if tags := g.chain.AppendTags(nil); len(tags) != 1 || tags[0] != "b" {
			t.Errorf("tags %v", tags)
		}
		out, changed, err := g.chain.Request(t.Context(), "chat", []byte(body), []byte("> "))
		return string(out), changed, err
	}
	const before = `{ "x" : 1.50, "messages":[{"role":"user","content":"a \u0073ecret"},{"role":"assistant","tool_calls":[{"id":"secret","function":{"name":"secret","arguments":"{\"secret\": \"a secret\", \"n\": 1.0}"}}]}],"model":"secret"}`
	const after = `> { "x" : 1.50, "messages":[{"role":"user","content":"a *\"*"},{"role":"assistant","tool_calls":[{"id":"secret","function":{"name":"secret","arguments":"{\"secret\": \"a *\\\"*\", \"n\": 1.0}"}}]}],"model":"secret"}`
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

// BenchmarkEvent measures an event of a stream with a filter and without one.
func BenchmarkEvent(b *testing.B) {
	filters := bound(b, word{})
	for name, list := range map[string]int{"none": 0, "one": 1} {
		b.Run(name, func(b *testing.B) {
			g := newGate(b, openai.API(), filters[:list], true)
			if list == 0 {
				g.w.Reset(response.Options{Stream: true, ID: "id", Model: "m", Created: 1})
			}
			var batch response.Batch
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				batch.Text(0, abi.EncodingUTF8, []byte("some words of an answer"))
				if err := g.w.Apply(&batch); err != nil {
					b.Fatal(err)
				}
				if err := g.filtered.Run(b.Context()); err != nil {
					b.Fatal(err)
				}
				g.w.Consume()
			}
		})
	}
}
