package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// sentRequest returns the head and the body of the request that a run has sent.
func sentRequest(t *testing.T, r plugintest.Result) (head string, body []byte) {
	t.Helper()
	head, sent, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		t.Fatalf("no request: %s", r.Response)
	}
	return head, []byte(strings.TrimSuffix(sent, "\n"))
}

// covers: M5.14
func TestMessagesArePassedOn(t *testing.T) {
	suite.TestPassedOn(t, "messages", "POST /v1/messages\nanthropic-version: 2023-06-01")
}

// TestMessagesArePassedOnToVertex checks that for Vertex AI, the model moves to the path and the version to the body,
// and all other members are unchanged.
func TestMessagesArePassedOnToVertex(t *testing.T) {
	suite.EachForm(t, `{"api":"vertex","project":"p","location":"eu"}`, func(t *testing.T, b *plugintest.Binding) {
		for name, request := range plugintest.RecordedRequests(t, "messages") {
			v := plugintest.Vector{Form: "messages", Target: "claude@1", Status: 200, Request: request}
			if strings.HasPrefix(name, "count-tokens") {
				continue
			}
			r := v.Run(b, false)
			head, got := sentRequest(t, r)
			var before, after map[string]json.RawMessage
			if err := json.Unmarshal(request, &before); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(got, &after); err != nil {
				t.Fatalf("%s: %v: %s", name, err, got)
			}
			call := "rawPredict"
			if string(before["stream"]) == "true" {
				call = "streamRawPredict"
			}
			if want := "POST /v1/projects/p/locations/eu/publishers/anthropic/models/claude@1:" + call; head != want {
				t.Errorf("%s: request head is %s, want %s", name, head, want)
			}
			if string(after["anthropic_version"]) != `"vertex-2023-10-16"` || after["model"] != nil || len(after) != len(before) {
				t.Errorf("%s is sent as %s", name, got)
			}
			for member, value := range before {
				if member != "model" && !bytes.Equal(after[member], value) {
					t.Errorf("%s: %s is sent as %s", name, member, after[member])
				}
			}
		}
	})
}

// covers: M1.6 M1.7 M1.8
func TestBetas(t *testing.T) {
	const vertex = `"api":"vertex","project":"p","location":"eu"`
	long := strings.Repeat("a", 200)
	for name, test := range map[string]struct {
		settings, betas, header, warnings string
	}{
		"all":                            {`{}`, `["one-1","two.2"]`, "one-1,two.2", ""},
		"none":                           {`{}`, `[]`, "", ""},
		"repeated":                       {`{}`, `["a","b","a"]`, "a,b", ""},
		"added to the operator's":        {`{"beta":"mine, yours"}`, `["yours","a","mine"]`, "mine, yours,a", ""},
		"only the operator's":            {`{"beta":"mine"}`, `[]`, "mine", ""},
		"allowlist":                      {`{"betas":["one-*","two-2"]}`, `["two-2","one-7","two-3"]`, "two-2,one-7", "dropped anthropic-beta two-3\n"},
		"empty allowlist":                {`{"betas":[],"beta":"mine"}`, `["a"]`, "mine", "dropped anthropic-beta a\n"},
		"allowlist with wildcard":        {`{"betas":["*"]}`, `["a","b"]`, "a,b", ""},
		"client markers":                 {`{"betas":["a"]}`, `["claude-code-20250219","oauth-2025-04-20","a"]`, "a", ""},
		"Vertex AI":                      {`{` + vertex + `}`, `["files-api-2025-04-14","context-1m-2025-08-07","claude-code-20250219"]`, "context-1m-2025-08-07", "dropped anthropic-beta files-api-2025-04-14\n"},
		"Vertex AI with allowlist":       {`{` + vertex + `,"betas":["files-*"]}`, `["files-api-2025-04-14"]`, "files-api-2025-04-14", ""},
		"values not allowed in a header": {`{}`, `["a","b\r\nx: y","","c d","\u00e4"]`, "a", "dropped anthropic-beta b??x:?y\ndropped anthropic-beta \ndropped anthropic-beta c?d\ndropped anthropic-beta ??\n"},
		"too many for a header":          {`{}`, `["` + strings.Repeat(`x`+long+`","`, 1) + strings.Join(manyBetas(20, long), `","`) + `"]`, "x" + long + "," + strings.Join(manyBetas(9, long), ","), droppedBetas(9, 20, long)},
	} {
		t.Run(name, func(t *testing.T) {
			suite.EachForm(t, test.settings, func(t *testing.T, b *plugintest.Binding) {
				v := plugintest.Vector{Form: "messages", Target: "m", Status: 200, Request: []byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`)}
				if err := json.Unmarshal([]byte(test.betas), &v.Betas); err != nil {
					t.Fatal(err)
				}
				r := v.Run(b, false)
				head, _ := sentRequest(t, r)
				header := ""
				for line := range strings.SplitSeq(head, "\n") {
					if value, ok := strings.CutPrefix(line, "anthropic-beta: "); ok {
						header = value
					}
				}
				if header != test.header || r.Warnings != test.warnings {
					t.Errorf("header %q, want %q\nwarnings %q, want %q", header, test.header, r.Warnings, test.warnings)
				}
			})
		})
	}
}

// manyBetas returns n different long betas.
func manyBetas(n int, long string) (all []string) {
	for i := range n {
		all = append(all, string(rune('a'+i))+long)
	}
	return all
}

// droppedBetas returns the warnings for the betas with indexes from up to to (exclusive). A warning truncates the name
// of the beta.
func droppedBetas(from, to int, long string) string {
	var all strings.Builder
	for _, beta := range manyBetas(to, long)[from:] {
		all.WriteString("dropped anthropic-beta " + beta[:64] + "\n")
	}
	return all.String()
}

// TestBetasOfConvertedRequests checks that a request that arrives as a chat completions request gets only the
// operator's betas, because it uses no features of the client's betas.
func TestBetasOfConvertedRequests(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	v := plugintest.Vector{ClientForm: "messages", Betas: []string{"a"}, Target: "m", Status: 200, Request: []byte(plugintest.Hello)}
	if r := v.Run(b, false); strings.Contains(r.Request, "anthropic-beta") || r.Warnings != "" {
		t.Errorf("client's betas are sent or warned about: %s, warnings %q", r.Request, r.Warnings)
	}
}

// TestThreads checks which providers receive a request's thread. Others would reject it, or ignore it and respond to the
// last messages of a conversation as if they were all.
func TestThreads(t *testing.T) {
	const (
		vertex = `"api":"vertex","project":"p","location":"eu"`
		create = `{"type":"create"}`
		resume = `{"type":"continue","previous_message_id":"msg_1"}`
	)
	for name, test := range map[string]struct {
		settings, thread string
		want             string // what becomes of the thread: sent, dropped or refused
	}{
		"created":                    {`{"threads":true}`, create, "sent"},
		"continued":                  {`{"threads":true}`, resume, "sent"},
		"continued with the beta":    {`{"threads":true,"betas":["message-threads-*"]}`, resume, "sent"},
		"continued, operator's beta": {`{"threads":true,"betas":[],"beta":"a, message-threads-2026-08-12"}`, resume, "sent"},
		"created without the beta":   {`{"threads":true,"betas":["a"]}`, create, "dropped"},
		"continued without the beta": {`{"threads":true,"betas":["a"]}`, resume, "refused"},
		"created elsewhere":          {`{}`, create, "dropped"},
		"continued elsewhere":        {`{}`, resume, "refused"},
		"null elsewhere":             {`{}`, `null`, "sent"},
		"created on Vertex AI":       {`{"threads":true,` + vertex + `}`, create, "dropped"},
		"continued on Vertex AI":     {`{` + vertex + `,"betas":["*"]}`, resume, "refused"},
		"created on Bedrock":         {`{"api":"bedrock"}`, create, "dropped"},
		"continued on Bedrock":       {`{"threads":true,"api":"bedrock"}`, resume, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := suite
			s.Use.Paths = append([]string{"/model/*/invoke"}, s.Use.Paths...)
			s.EachForm(t, test.settings, func(t *testing.T, b *plugintest.Binding) {
				v := plugintest.Vector{Form: "messages", Target: "m", Status: 200, Request: []byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"thread":` + test.thread + `}`)}
				r := v.Run(b, false)
				if test.want == "refused" {
					if r.Request != "" || !strings.HasPrefix(r.Response, "404") || !strings.Contains(r.Response, "thread_not_found") {
						t.Errorf("request %q, response %s", r.Request, r.Response)
					}
					return
				}
				_, body := sentRequest(t, r)
				if sent, warned := bytes.Contains(body, []byte(`"thread":`+test.thread)), r.Warnings == "dropped thread\n"; sent == (test.want == "dropped") || warned == sent {
					t.Errorf("sent %s, warnings %q", body, r.Warnings)
				}
			})
		})
	}
}

func TestDeclaresMessages(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		if b.Forms() != abi.FormMessages {
			t.Errorf("got forms %d, want %d", b.Forms(), abi.FormMessages)
		}
	})
}

// TestReasoningOfOtherHosts checks that a host with its own models receives its own reasoning back, but not that of
// Anthropic's models.
func TestReasoningOfOtherHosts(t *testing.T) {
	suite.EachForm(t, `{"reasoning_format":"host-1"}`, func(t *testing.T, b *plugintest.Binding) {
		first := suite.Vector(t, "recorded/stream-thinking-tool-t1")
		r := first.Run(b, false)
		if !strings.Contains(r.Response, `"format":"host-1"`) {
			t.Errorf("reasoning does not have the format host-1 in %s", r.Response)
		}
		own := first.FollowUp(t, r.Message(t), "40 C")
		foreign := *own
		foreign.Request = bytes.ReplaceAll(own.Request, []byte(`"host-1"`), []byte(`"anthropic-claude-v1"`))
		if sent := own.Run(b, false).Request; !strings.Contains(sent, `"signature":"`) {
			t.Errorf("the host's own reasoning is not sent back: %s", sent)
		}
		if sent := foreign.Run(b, false).Request; sent == "" || strings.Contains(sent, `"signature":"`) {
			t.Errorf("request with foreign reasoning is %q, want one without its signature", sent)
		}
	})
}

func TestListCanBeSwitchedOff(t *testing.T) {
	suite.EachForm(t, `{"list":false}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(""); err != nil || out.Path != "" {
			t.Errorf("list request is %+v (%v), want none", out, err)
		}
	})
}
