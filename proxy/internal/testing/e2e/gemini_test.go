package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const (
	askGemini    = `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`
	pathGemini   = "/v1beta/models/m:generateContent"
	streamGemini = "/v1beta/models/m:streamGenerateContent?alt=sse"
)

// geminiWire is the dialect of the Gemini API.
var geminiWire = &wire{
	plugin: "gemini",
	text:   `data: {"candidates": [{"content": {"parts": [{"text": "%s"}],"role": "model"},"index": 0}],"modelVersion": "up-m","responseId": "up-1"}` + "\r\n\r\n",
	finish: `data: {"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 3,"candidatesTokenCount": 5},"ofTomorrow": 1.0}` + "\r\n\r\n",
	whole:  `{"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":5}}`,
	failed: "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n",
}

// TestGeminiPassesToGemini checks that requests and responses are passed on byte for byte if the provider speaks the
// Gemini API.
func TestGeminiPassesToGemini(t *testing.T) {
	const odd = `{ "contents": [ {"parts":[{"text":"\u0078"},{"of_tomorrow":{"a":1.50}}],"role":"user"} ], "generation_config":{"topK":40.0}, "new": null}`
	stream, whole := geminiWire.stream("H\\u0069", "!"), geminiWire.answer("H\\u0069")
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", whole, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", stream, "Connection: close")})
	g := proxytest.Start(t, geminiWire.gatewayConfig(provider.URL()))
	for i, c := range []struct{ path, want, sent string }{
		{pathGemini, whole, "/v1beta/models/m:generateContent"},
		{streamGemini, strings.ReplaceAll(stream, "\r\n", "\n"), "/v1beta/models/m:streamGenerateContent?alt=sse"},
	} {
		r := g.Do(t, "POST", c.path, odd, "x-goog-api-client: canary")
		if r.Status != 200 || r.Body != c.want {
			t.Errorf("got status %d, body\n%s\nwant\n%s", r.Status, r.Body, c.want)
		}
		sent := provider.Requests()[i]
		if string(sent.Body) != odd || !strings.HasPrefix(sent.Head, "POST "+c.sent+" ") || sent.Header.Get("x-goog-api-client") != "" {
			t.Errorf("the provider received\n%s\n%s", sent.Head, sent.Body)
		}
		line := g.Log.Request(t, r.RequestID())
		if line["prompt_tokens"] != "3" || line["completion_tokens"] != "5" || line["complete"] != "true" {
			t.Errorf("logged as %v", line)
		}
	}
}

// TestGeminiRecordingsPassThrough replays recorded responses of Google to a client of the same API. Each must arrive
// byte for byte, with its usage logged.
func TestGeminiRecordingsPassThrough(t *testing.T) {
	paths, err := filepath.Glob("../../../../plugins/gemini/testdata/vectors/*-recorded-*/answer.*")
	if err != nil || len(paths) < 15 {
		t.Fatalf("got %d recordings, want at least 15, %v", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		if strings.Contains(name, "error") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			request, contentType, want := pathGemini, "application/json", string(body)
			if strings.HasSuffix(path, ".sse") {
				request, contentType = streamGemini, "text/event-stream"
				want = strings.TrimRight(strings.ReplaceAll(want, "\r\n", "\n"), "\n") + "\n\n"
			}
			provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, contentType, string(body), "Connection: close")})
			g := proxytest.Start(t, geminiWire.gatewayConfig(provider.URL()))
			r := g.Do(t, "POST", request, askGemini)
			if r.Status != 200 || r.Body != want {
				t.Errorf("got status %d, body\n%s\nwant\n%s", r.Status, r.Body, want)
			}
			if line := g.Log.Request(t, r.RequestID()); line["complete"] != "true" || strings.Contains(want, "promptTokenCount") && (line["prompt_tokens"] == "" || line["prompt_tokens"] == "0") {
				t.Errorf("logged as %v", line)
			}
		})
	}
}

// TestGeminiNativeFailures checks the errors that clients get when a provider of the same API fails.
func TestGeminiNativeFailures(t *testing.T) {
	quota, err := os.ReadFile("../../../../plugins/gemini/testdata/vectors/G35-recorded-error-429/answer.json")
	if err != nil {
		t.Fatal(err)
	}
	gemini := ingresses[len(ingresses)-1]
	for _, c := range []struct {
		name, path string
		answer     upstreamtest.Step
		status     int
		code       string
		retry      string
	}{
		{"quota", pathGemini, upstreamtest.Answer(429, "application/json", string(quota)), 429, "rate_limit_exceeded", "48"},
		{"bad request", streamGemini, upstreamtest.Answer(400, "application/json", `{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}`), 400, "invalid_request_error", ""},
		{"list", streamGemini, upstreamtest.Answer(400, "application/json", `[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]`), 400, "invalid_request_error", ""},
		{"key", pathGemini, upstreamtest.Answer(400, "application/json", `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`), 502, "upstream_auth_failed", ""},
		{"too long", pathGemini, upstreamtest.Answer(400, "application/json", `{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`), 400, "context_length_exceeded", ""},
		{"error in a stream, at first", streamGemini, upstreamtest.Answer(200, "text/event-stream", geminiWire.failed), 503, "overloaded", ""},
		{"not a response", pathGemini, upstreamtest.Answer(200, "application/json", `[]`), 502, "upstream_bad_answer", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), c.answer, upstreamtest.Close()})
			g := proxytest.Start(t, geminiWire.gatewayConfig(provider.URL()))
			r := g.Do(t, "POST", c.path, askGemini)
			gemini.wantError(t, g, r, c.status, c.code)
			if r.Header.Get("Retry-After") != c.retry || (c.retry != "") != strings.Contains(r.Body, `"retryDelay":"48`) {
				t.Errorf("retry-after %q: %s", r.Header.Get("Retry-After"), r.Body)
			}
		})
	}
	for name, end := range map[string][]upstreamtest.Step{
		"truncated": {upstreamtest.Close()}, "ended early": {upstreamtest.LastChunk()}, "error": {upstreamtest.Chunk(geminiWire.failed), upstreamtest.LastChunk()},
		"cut off after its reason": {upstreamtest.Chunk(geminiWire.finish), upstreamtest.Close()},
	} {
		t.Run(name, func(t *testing.T) {
			script := append(upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(geminiWire.opening("half"))}, end...)
			g := proxytest.Start(t, geminiWire.gatewayConfig(upstreamtest.New(t, script).URL()))
			r := g.Do(t, "POST", streamGemini, askGemini)
			if r.Status != 200 || !strings.Contains(r.Body, `"half"`) || strings.Contains(r.Body, "STOP") || strings.Count(r.Body, gemini.errorPrefix) != 1 {
				t.Errorf("got status %d: %s", r.Status, r.Body)
			}
		})
	}
}

func TestGeminiPaths(t *testing.T) {
	g := proxytest.Start(t, configuration("", "")+`
[[models]]
id      = "vendor/model:8b"
targets = [{ provider = "demo", model = "demo" }]
`)
	gemini := ingresses[len(ingresses)-1]
	for _, path := range []string{"/v1beta/models/demo:generateContent", "/v1/models/demo:generateContent", "/v1beta/models/vendor/model:8b:generateContent", "/v1beta/models/vendor%2Fmodel%3A8b:generateContent", "/v1beta/models/demo:generateContent?alt=json"} {
		r := g.Do(t, "POST", path, askGemini)
		if r.Status != 200 || !strings.Contains(r.Body, `"finishReason":"STOP"`) {
			t.Errorf("%s: status %d: %s", path, r.Status, r.Body)
		}
		if line := g.Log.Request(t, r.RequestID()); line["path"] != "/v1beta/models/{model}:generateContent" {
			t.Errorf("%s: logged as %v", path, line)
		}
	}
	if r := g.Do(t, "POST", "/v1/models/demo:streamGenerateContent?alt=sse", askGemini); r.Status != 200 || !strings.HasPrefix(r.Body, "data: {") {
		t.Errorf("got status %d: %s", r.Status, r.Body)
	}
	for _, c := range []struct {
		method, path string
		status       int
		code, says   string
	}{
		{"POST", "/v1beta/models/demo:streamGenerateContent", 400, "unsupported_parameter", "?alt=sse"},
		{"POST", "/v1beta/models/demo:predict", 404, "unknown_url", "Unknown URL: POST /v1beta/models/demo:predict. "},
		{"POST", "/v1beta/cachedContents", 404, "unknown_url", "generateContent"},
		{"GET", "/v1beta/models/demo:generateContent", 405, "method_not_allowed", "POST"},
		{"DELETE", "/v1beta/models/demo", 405, "method_not_allowed", "GET"},
		{"GET", "/v1beta/models/nobody", 404, "model_not_found", ""},
	} {
		r := g.Do(t, c.method, c.path, askGemini)
		if message := gemini.wantError(t, g, r, c.status, c.code); !strings.Contains(message, c.says) {
			t.Errorf("%s %s: %s", c.method, c.path, message)
		}
	}
	r := g.Do(t, "POST", pathGemini+"?key="+proxytest.Key, askGemini, "Authorization:")
	message := gemini.wantError(t, g, r, 401, "missing_api_key")
	if !strings.Contains(message, "x-goog-api-key") || !strings.Contains(message, "in the URL") || strings.Contains(g.Log.String(), proxytest.Key) {
		t.Errorf("key in the URL: message %s, log\n%s", message, g.Log.String())
	}
}

func TestGeminiModels(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	type listed struct {
		Name, DisplayName          string
		SupportedGenerationMethods []string
	}
	get := func(path string, into any, headers ...string) {
		t.Helper()
		r := g.Do(t, "GET", path, "", headers...)
		if err := json.Unmarshal([]byte(r.Body), into); err != nil || r.Status != 200 {
			t.Errorf("%s: status %d, %v: %s", path, r.Status, err, r.Body)
		}
	}
	for _, headers := range [][]string{nil, {"Authorization:", "x-goog-api-key: " + proxytest.Key}} {
		var list struct{ Models []listed }
		get("/v1beta/models?pageSize=10", &list, headers...)
		found := false
		for _, m := range list.Models {
			found = found || m.Name == "models/demo" && len(m.SupportedGenerationMethods) == 2
		}
		if !found {
			t.Errorf("listed %+v", list)
		}
	}
	var one listed
	get("/v1beta/models/demo", &one)
	if one.Name != "models/demo" || one.DisplayName == "" {
		t.Errorf("got %+v", one)
	}
	var list struct{ Models []listed }
	get("/v1/models", &list, "x-goog-api-client: google-genai-sdk/1.0", "Authorization:", "x-goog-api-key: "+proxytest.Key)
	var openAI struct{ Data []struct{ ID string } }
	get("/v1/models", &openAI)
	if len(list.Models) == 0 || len(openAI.Data) != len(list.Models) {
		t.Errorf("got %d models in Google's format and %d in OpenAI's", len(list.Models), len(openAI.Data))
	}
}

func TestGeminiCountTokens(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, body := range []string{askGemini, `{"generateContentRequest":{"model":"models/demo","contents":[{"parts":[{"text":"x"}]}]}}`} {
		r := g.Do(t, "POST", "/v1beta/models/demo:countTokens", body)
		var count struct{ TotalTokens int }
		if err := json.Unmarshal([]byte(r.Body), &count); err != nil || r.Status != 200 || count.TotalTokens < 1 || count.TotalTokens > 100 {
			t.Errorf("status %d, %v: %s", r.Status, err, r.Body)
		}
		if r.Header.Get("X-Gateway-Warning") == "" {
			t.Error("no warning that the count is an estimate")
		}
	}
}

// TestGeminiReasoningReturns has a client return signed thinking of a Messages provider. The provider must get its
// thinking back, and another provider must not get the signature.
func TestGeminiReasoningReturns(t *testing.T) {
	const thought = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", thought, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", anthropicWire.answer("good"), "Connection: close")})
	google := answeringProvider(t, upstreamtest.Answer(200, "application/json", geminiWire.answer("good"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL())+geminiWire.providerConfig("google", google.URL(), "")+modelWithTargets("g", "google/g"))
	const config = `"generationConfig":{"maxOutputTokens":4096,"thinkingConfig":{"thinkingBudget":1024,"includeThoughts":true}},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"type":"INTEGER"}}}}]}]`
	r := g.Do(t, "POST", pathGemini, `{"contents":[{"role":"user","parts":[{"text":"x"}]}],`+config+`}`)
	var answer struct {
		Candidates []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || r.Status != 200 || len(answer.Candidates) != 1 || !strings.Contains(r.Body, `"thoughtSignature"`) {
		t.Fatalf("status %d, %v: %s", r.Status, err, r.Body)
	}
	next := `{"contents":[{"role":"user","parts":[{"text":"x"}]},` + string(answer.Candidates[0].Content) + `,{"role":"user","parts":[{"functionResponse":{"id":"toolu_1","name":"f","response":{"output":"ok"}}}]}],` + config + `}`
	if r := g.Do(t, "POST", pathGemini, next); r.Status != 200 || !strings.Contains(r.Body, `"good"`) {
		t.Errorf("got status %d: %s", r.Status, r.Body)
	}
	sent := string(provider.Requests()[1].Body)
	for _, want := range []string{`"thinking":"Hm"`, `"signature":"c2lnbmVk"`, `"tool_use_id":"toolu_1"`} {
		if !strings.Contains(sent, want) {
			t.Errorf("no %s in the provider's request: %s", want, sent)
		}
	}
	if r := g.Do(t, "POST", "/v1beta/models/g:generateContent", next); r.Status != 200 {
		t.Errorf("got status %d: %s", r.Status, r.Body)
	}
	if sent := string(google.Requests()[0].Body); strings.Contains(sent, "Signature") || strings.Contains(sent, `"Hm"`) || !strings.Contains(sent, `"functionCall"`) {
		t.Errorf("Google received %s", sent)
	}
}

// TestGeminiIsFiltered checks that filters apply to requests and responses that are otherwise passed on unchanged.
func TestGeminiIsFiltered(t *testing.T) {
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", geminiWire.answer("a top secret b"), "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", geminiWire.stream("a top se", "cret b"), "Connection: close")})
	g := proxytest.Start(t, geminiWire.gatewayConfig(provider.URL())+blocklist("mask", ""))
	gemini := ingresses[len(ingresses)-1]
	for i, path := range []string{pathGemini, streamGemini} {
		r := g.Do(t, "POST", path, `{"contents":{"parts":{"text":"the top secret"}},"system_instruction":{"parts":[{"text":"a top secret"}]}}`)
		r.Body = strings.ReplaceAll(r.Body, `": `, `":`) // as in responses that the gateway renders
		gemini.wantText(t, g, r, i == 1, "a [x] b")
		if sent := string(provider.Requests()[i].Body); strings.Contains(sent, "secret") || strings.Count(sent, "[x]") != 2 {
			t.Errorf("the provider was sent %s", sent)
		}
	}
}

// TestGeminiFramesAreFiltered checks that the rest of a filtered frame is unchanged, that held text precedes later
// frames, and that the rest and the signature of changed thoughts are dropped.
func TestGeminiFramesAreFiltered(t *testing.T) {
	const more = `"usageMetadata":{"promptTokenCount":3,"totalTokenCount":9},"x":1.0`
	frame := func(parts, rest string) string {
		return fmt.Sprintf("data: {\"candidates\": [{\"content\": {\"parts\": [%s],\"role\": \"model\"}%s,\"index\": 0}],%s}\r\n\r\n", parts, rest, more)
	}
	stream := frame(`{"text":"a top secret thought","thought":true}`, "") +
		frame(`{"text":"","thought":true,"thoughtSignature":"c2ln"}`, "") +
		frame(`{"text":"untouched. "}`, "") +
		frame(`{"text":"This is a top se"}`, "") +
		frame(`{"text":"cret to"}`, "") +
		frame(`{"functionCall":{"name":"f","args":{"q":"the top secret","n":1.50}}}`, "") +
		frame(`{"text":"end to"},{"text":"p secret."}`, `,"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["top secret"]}`)
	whole := strings.TrimPrefix(strings.TrimSpace(frame(`{"text":"the top secret"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`, `,"finishReason":"STOP"`)), "data: ")
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", stream, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", whole, "Connection: close")})
	g := proxytest.Start(t, geminiWire.gatewayConfig(provider.URL())+blocklist("mask", ""))
	ask := `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`
	r := g.Do(t, "POST", streamGemini, ask)
	want := frame(`{"text":"a ","thought":true}`, "") +
		frame(`{"text":"","thought":true,"thoughtSignature":""}`, "") +
		frame(`{"text":"untouched. "}`, "") +
		frame(`{"text":"This is a "}`, "") +
		frame(`{"text":"[x] "}`, "") +
		frame(`{"text":"to"}`, "") +
		frame(`{"functionCall":{"name":"f","args":{"q":"the [x]","n":1.50}}}`, "") +
		frame(`{"text":"end "},{"text":"[x]."}`, `,"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["[x]"]}`)
	if want = strings.ReplaceAll(want, "\r\n", "\n"); r.Status != 200 || r.Body != want {
		t.Errorf("got status %d, body\n%s\nwant\n%s", r.Status, r.Body, want)
	}
	r = g.Do(t, "POST", pathGemini, ask)
	if want := strings.Replace(whole, "top secret", "[x]", 1); r.Status != 200 || r.Body != want {
		t.Errorf("got status %d, body\n%s\nwant\n%s", r.Status, r.Body, want)
	}
}
