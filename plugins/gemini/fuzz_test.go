package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"n":2,"logprobs":true}`

func FuzzResponse(f *testing.F) {
	suite.FuzzResponses(f, "text/event-stream", plugintest.FuzzUse{Request: hello})
}

// FuzzRequest sends every request that the gateway accepts to the plugin. If the plugin accepts it as well, it must
// become a JSON request with contents, each with a role and parts.
func FuzzRequest(f *testing.F) {
	suite.FuzzRequests(f, checkRequest,
		plugintest.FuzzUse{Target: "gemini-2.5-flash"},
		plugintest.FuzzUse{Target: "gemini-2.5-flash", Options: `{"schema":"openapi","signatures":"demanded","allow_file_uri":true,"thinking":"level"}`},
		plugintest.FuzzUse{Target: "gemini-2.5-flash", Options: `{"api":"vertex","project":"p","location":"l","stream_arguments":true,"schema":"openapi"}`},
	)
}

// checkRequest checks that a request has contents, each with a role and parts.
func checkRequest(t *testing.T, _ int, sent string) {
	t.Helper()
	var got struct {
		Contents []struct {
			Role  string
			Parts []map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(sent), &got); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	last := ""
	for _, c := range got.Contents {
		if (c.Role != "user" && c.Role != "model") || c.Role == last || len(c.Parts) == 0 {
			t.Fatalf("content with role %q after %q has %d parts: %s", c.Role, last, len(c.Parts), sent)
		}
		last = c.Role
	}
	if len(got.Contents) == 0 {
		t.Fatalf("no contents: %s", sent)
	}
}

// FuzzPlainEvent checks that the fast path gives the same result as the general one, which a leading space makes the
// plugin take.
func FuzzPlainEvent(f *testing.F) {
	for _, v := range suite.Vectors(f) {
		if v.ContentType != "text/event-stream" {
			continue
		}
		for line := range strings.Lines(string(v.Response)) {
			if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok {
				f.Add(data)
			}
		}
	}
	for _, event := range streamEvents.Measured {
		f.Add(event.Data)
	}
	b := suite.Bind(f, plugintest.Native)
	f.Fuzz(func(t *testing.T, data string) {
		if strings.ContainsAny(data, "\r\n") {
			return
		}
		const more = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\".\"}]},\"finishReason\":\"STOP\"}]}\n\n"
		run := func(space string) string {
			v := plugintest.Vector{
				Target: "m", Request: []byte(hello), Status: 200, ContentType: "text/event-stream",
				Response: []byte("data: " + space + data + "\n\n" + more),
			}
			return v.Run(b, false).Response + v.Run(b, true).Response
		}
		if plain, other := run(""), run(" "); plain != other {
			t.Errorf("%s\n\nis read by the fast path as %s\nand by the general path as %s", data, plain, other)
		}
	})
}
