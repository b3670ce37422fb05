package gemini_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// chunkTail is the rest of a chunk after its parts.
const chunkTail = `],"role":"model"},"index":0}],"modelVersion":"model-1","responseId":"id-1"}`

func TestRender(t *testing.T) {
	const head = `{"candidates":[{"content":{"parts":[`
	last := func(reason, usage string) string {
		return head + `{"text":""}],"role":"model"},"finishReason":"` + reason + `","index":0}],"usageMetadata":{` + usage + `},"modelVersion":"model-1","responseId":"id-1"}`
	}
	counted := []func(*response.Batch){usage(abi.UsagePrompt, 10), usage(abi.UsageCompletion, 9), usage(abi.UsageReasoning, 4), usage(abi.UsageCached, 3)}
	const countedUsage = `"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":19,"cachedContentTokenCount":3,"thoughtsTokenCount":4`
	claude := sealForClient(thinking.Sealed{Format: "anthropic-claude-v1", Part: abi.ReasoningSignature, Data: []byte("sig")})
	plain := sealForClient(thinking.Sealed{Format: "deepseek", Part: abi.ReasoningText})
	encrypted := sealForClient(thinking.Sealed{Format: "openai-responses-v1", Part: abi.ReasoningEncrypted, Data: []byte("enc")})
	end := func(reason abi.FinishReason, native string) func(*response.Batch) {
		return inOneBatch(append(append([]func(*response.Batch){}, counted...), finish(reason, native), done)...)
	}
	for name, test := range map[string]struct {
		script       script
		noThoughts   bool     // the client does not ask for thoughts
		chunks       []string // the parts of each chunk except the last one
		parts        string   // the parts of the non-streaming response
		finishReason string
	}{
		"text":       {script{start(""), text("He"), text("llo"), end(abi.FinishStop, "")}, false, []string{`{"text":"He"}`, `{"text":"llo"}`}, `{"text":"Hello"}`, "STOP"},
		"no content": {script{start(""), text(""), end(abi.FinishLength, "")}, false, nil, ``, "MAX_TOKENS"},
		"filtered":   {script{start(""), text("He"), end(abi.FinishContentFilter, "RECITATION")}, false, []string{`{"text":"He"}`}, `{"text":"He"}`, "RECITATION"},
		"refusal": {script{start(""), func(b *response.Batch) { b.Refusal(0, abi.EncodingUTF8, []byte("No")) }, end(abi.FinishStop, "")}, false,
			[]string{`{"text":"No"}`}, `{"text":"No"}`, "SAFETY"},
		"call": {script{start(""), text("See "), call(1, "a", "f"), args(1, `{"x": `), args(1, "\n1}"), end(abi.FinishToolCalls, "")}, false,
			[]string{`{"text":"See "}`, `{"functionCall":{"id":"a","name":"f","args":{"x":  1}}}`}, `{"text":"See "},{"functionCall":{"id":"a","name":"f","args":{"x":  1}}}`, "STOP"},
		"interleaved calls": {script{start(""), call(1, "a", "f"), call(2, "b", "g"), args(2, `{"b"`), args(1, `{"a":1}`), args(2, `:2}`), end(abi.FinishToolCalls, "")}, false,
			[]string{`{"functionCall":{"id":"a","name":"f","args":{"a":1}}}`, `{"functionCall":{"id":"b","name":"g","args":{"b":2}}}`},
			`{"functionCall":{"id":"a","name":"f","args":{"a":1}}},{"functionCall":{"id":"b","name":"g","args":{"b":2}}}`, "STOP"},
		"call without arguments": {script{start(""), call(1, "a", "f"), end(abi.FinishToolCalls, "")}, false, []string{`{"functionCall":{"id":"a","name":"f","args":{}}}`}, `{"functionCall":{"id":"a","name":"f","args":{}}}`, "STOP"},
		"truncated call":         {script{start(""), call(1, "a", "f"), args(1, `{"x"`), end(abi.FinishLength, "")}, false, nil, ``, "MAX_TOKENS"},
		"text after a call": {script{start(""), call(1, "a", "f"), func(b *response.Batch) { b.ToolEnd(0, 1) }, text("So"), end(abi.FinishToolCalls, "")}, false,
			[]string{`{"functionCall":{"id":"a","name":"f","args":{}}}`, `{"text":"So"}`}, `{"functionCall":{"id":"a","name":"f","args":{}}},{"text":"So"}`, "STOP"},
		"Google's thoughts": {script{start("google-gemini-v1"), reasoning(abi.ReasoningText, 0, "Hm"), reasoning(abi.ReasoningText, 0, "m"), text("Hi"), reasoning(abi.ReasoningEncrypted, 2, "c2ln"), end(abi.FinishStop, "")}, false,
			[]string{`{"thought":true,"text":"Hm"}`, `{"thought":true,"text":"m"}`, `{"text":"Hi"}`, `{"text":"","thoughtSignature":"c2ln"}`},
			`{"thought":true,"text":"Hmm"},{"text":"Hi"},{"text":"","thoughtSignature":"c2ln"}`, "STOP"},
		"Google's signed call": {script{start("google-gemini-v1"), call(0, "a", "f"), func(b *response.Batch) { b.ToolEnd(0, 0) }, reasoning(abi.ReasoningToolEncrypted, 0, "c2ln"), end(abi.FinishStop, "")}, false,
			[]string{`{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"c2ln"}`}, `{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"c2ln"}`, "STOP"},
		"Claude's thoughts": {script{start("anthropic-claude-v1"), reasoning(abi.ReasoningText, 0, "Hm"), reasoning(abi.ReasoningSignature, 0, "si"), reasoning(abi.ReasoningSignature, 0, "g"), text("Hi"), end(abi.FinishStop, "")}, false,
			[]string{`{"thought":true,"text":"Hm"}`, `{"thought":true,"text":"","thoughtSignature":"` + claude + `"}`, `{"text":"Hi"}`},
			`{"thought":true,"text":"Hm","thoughtSignature":"` + claude + `"},{"text":"Hi"}`, "STOP"},
		"thoughts that the client does not ask for": {script{start("anthropic-claude-v1"), reasoning(abi.ReasoningText, 0, "Hm"), reasoning(abi.ReasoningSignature, 0, "sig"), text("Hi"), end(abi.FinishStop, "")}, true,
			[]string{`{"text":"Hi"}`}, `{"text":"Hi"}`, "STOP"},
		"unsigned thoughts": {script{start("deepseek"), reasoning(abi.ReasoningText, 0, "Hm"), text("Hi"), end(abi.FinishStop, "")}, false,
			[]string{`{"thought":true,"text":"Hm"}`, `{"thought":true,"text":"","thoughtSignature":"` + plain + `"}`, `{"text":"Hi"}`},
			`{"thought":true,"text":"Hm","thoughtSignature":"` + plain + `"},{"text":"Hi"}`, "STOP"},
		"thoughts of unknown format": {script{start(""), reasoning(abi.ReasoningText, 0, "Hm"), text("Hi"), end(abi.FinishStop, "")}, false,
			[]string{`{"thought":true,"text":"Hm"}`, `{"text":"Hi"}`}, `{"thought":true,"text":"Hm"},{"text":"Hi"}`, "STOP"},
		"encrypted thoughts": {script{start("openai-responses-v1"), reasoning(abi.ReasoningEncrypted, 0, "enc"), text("Hi"), end(abi.FinishStop, "")}, true,
			[]string{`{"text":"","thoughtSignature":"` + encrypted + `"}`, `{"text":"Hi"}`}, `{"text":"","thoughtSignature":"` + encrypted + `"},{"text":"Hi"}`, "STOP"},
		"image": {script{start(""), func(b *response.Batch) {
			b.Extra(abi.ScopeMessage, 0, 0, []byte("images"), []byte(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`))
		}, end(abi.FinishStop, "")}, false, []string{`{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`}, `{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`, "STOP"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestWriter()
			w.reset(t, true, !test.noThoughts, false)
			test.script.play(t, w)
			var want strings.Builder
			for _, parts := range test.chunks {
				fmt.Fprintf(&want, "data: %s%s%s\n\n", head, parts, chunkTail)
			}
			fmt.Fprintf(&want, "data: %s\n\n", last(test.finishReason, countedUsage))
			if diff := cmp.Diff(want.String(), string(w.Output())); diff != "" || !w.Complete() || w.Held() != 0 {
				t.Errorf("complete %t, %v, %d bytes held\n%s", w.Complete(), w.Failed(), w.Held(), diff)
			}
			w.reset(t, false, !test.noThoughts, false)
			test.script.play(t, w)
			parts := `"parts":[` + test.parts + `],`
			if test.parts == "" {
				parts = ""
			}
			document := `{"candidates":[{"content":{` + parts + `"role":"model"},"finishReason":"` + test.finishReason + `","index":0}],"usageMetadata":{` + countedUsage + `},"modelVersion":"model-1","responseId":"id-1"}`
			if diff := cmp.Diff(document, string(w.AppendResponse(nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRenderCandidates(t *testing.T) {
	s := script{start(""), func(b *response.Batch) {
		b.Text(1, abi.EncodingUTF8, []byte("one"))
		b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), []byte(`{"content":[{"token":"z\"","logprob":-0.5,"bytes":null,"top_logprobs":[{"token":"a","logprob":-1}]}],"refusal":null}`))
		b.Text(0, abi.EncodingUTF8, []byte("zero"))
		b.Finish(1, abi.FinishLength, nil)
		b.Finish(0, abi.FinishStop, nil)
	}, done}
	for _, stream := range []bool{true, false} {
		w := newTestWriter()
		w.reset(t, stream, false, false)
		s.play(t, w)
		got := summarize(t, w.body(stream), stream)
		if !strings.Contains(got, `text "zero"`) || !strings.Contains(got, "finish 0 STOP\n") || !strings.Contains(got, "finish 1 MAX_TOKENS\n") {
			t.Errorf("got %s\n%s", got, w.body(stream))
		}
		if want := `"logprobsResult":{"chosenCandidates":[{"token":"z\"","logProbability":-0.5}],"topCandidates":[{"candidates":[{"token":"a","logProbability":-1}]}]}`; strings.Count(string(w.body(stream)), want) != 1 {
			t.Errorf("log probabilities are not in the response exactly once: %s", w.body(stream))
		}
	}
}

func TestFailedResponse(t *testing.T) {
	for name, test := range map[string]struct {
		script script
		code   string
	}{
		"truncated":                    {script{text("Hal")}, "upstream_stream_truncated"},
		"truncated call":               {script{text("a"), call(0, "a", "f"), args(0, `{"a`), done}, "upstream_stream_truncated"},
		"provider's failure":           {script{text("Hal"), func(b *response.Batch) { b.Fail(apierror.Fail(abi.FailOverloaded, "", "", "")) }}, "overloaded"},
		"arguments that are no object": {script{text("a"), call(0, "a", "f"), args(0, `[1]`), finish(abi.FinishToolCalls, ""), done}, "upstream_invalid_tool_call"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestWriter()
			w.reset(t, true, false, false)
			test.script.play(t, w)
			all := decodeChunks(t, w.Output())
			if last := all[len(all)-1]; w.Complete() || last.Error == nil || w.Failed().Code != test.code || strings.Contains(string(w.Output()), "finishReason") {
				t.Errorf("complete %t, %v: %s", w.Complete(), w.Failed(), w.Output())
			}
		})
	}
}

func TestErrorBody(t *testing.T) {
	for _, test := range []struct {
		e    *apierror.Error
		id   string
		want string
	}{
		{apierror.Invalid("invalid_type", "contents[0]", "a \"b\""), "req-1", `{"error":{"code":400,"message":"a \"b\"","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_TYPE","domain":"sluice"},` +
			`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"contents[0]","description":"a \"b\""}]},{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"req-1"}]}}`},
		{&apierror.Error{Status: 429, Code: "made up", Message: "m", RetryAfter: 1500 * time.Millisecond}, "", `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}`},
		{&apierror.Error{Status: 503, Kind: apierror.KindServiceUnavailable}, "", `{"error":{"code":503,"message":"","status":"UNAVAILABLE","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_UNAVAILABLE_ERROR","domain":"sluice"}]}}`},
	} {
		if diff := cmp.Diff(test.want, string(gemini.AppendError(nil, test.e, test.id))); diff != "" {
			t.Error(diff)
		}
	}
	for status, code := range map[int]string{401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED", 413: "INVALID_ARGUMENT", 499: "CANCELLED", 500: "INTERNAL", 502: "INTERNAL", 504: "DEADLINE_EXCEEDED"} {
		if got := string(gemini.AppendError(nil, &apierror.Error{Status: status}, "")); !strings.Contains(got, `"status":"`+code+`"`) {
			t.Errorf("body for status %d does not have the code %s: %s", status, code, got)
		}
	}
}
