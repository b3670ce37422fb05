package gemini

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// sentRequest returns the head and the body of the request that a run has sent.
func sentRequest(t *testing.T, r plugintest.Result) (head, body string) {
	t.Helper()
	head, body, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		t.Fatalf("no request: %s", r.Response)
	}
	return head, strings.TrimSuffix(body, "\n")
}

// TestRequestsPassUnchanged checks that requests of Gemini clients reach the provider byte for byte, with the target's
// model in the path. Only IDs of function calls are removed for Vertex AI.
func TestRequestsPassUnchanged(t *testing.T) {
	paths, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d recordings, want at least 8 (%v)", len(paths), err)
	}
	for _, settings := range []string{`{}`, `{"api":"vertex","project":"p","location":"eu"}`} {
		suite.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
			if b.Forms() != abi.FormGemini|abi.FormEmbeddings {
				t.Fatalf("got forms %d", b.Forms())
			}
			for _, path := range paths {
				request, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, stream := range []bool{false, true} {
					v := plugintest.Vector{Form: "gemini", Target: "gemini-2.5-pro", Status: 200, Request: request}
					r := v.Run(b, stream)
					head, body := sentRequest(t, r)
					want := "POST /v1beta/models/gemini-2.5-pro"
					if strings.Contains(settings, "vertex") {
						want = "POST /v1/projects/p/locations/eu/publishers/google/models/gemini-2.5-pro"
					}
					if want += ":generateContent"; stream {
						want = strings.Replace(want, ":generateContent", ":streamGenerateContent?alt=sse", 1)
					}
					expected := string(request)
					if strings.Contains(settings, "vertex") && strings.Contains(expected, `"id":"`) {
						if strings.Contains(body, `"id":"`) {
							t.Errorf("%s: IDs of function calls are sent to Vertex AI: %s", path, body)
						}
						expected = body
					}
					if head != want || body != expected || r.Warnings != "" {
						t.Errorf("%s is sent as\n%s\n%s\nwith warnings %q", path, head, body, r.Warnings)
					}
				}
			}
		})
	}
}

// TestRejectsAccountData checks that a client can only refer to data in the operator's account if allow_file_uri is
// set.
func TestRejectsAccountData(t *testing.T) {
	const uri = `{"fileUri":"gs://x"}`
	for name, body := range map[string]string{
		"file":                        `{"contents":[{"parts":[{"text":"a"},{"fileData":` + uri + `}]}]}`,
		"file, snake case":            `{"contents":[{"parts":[{"file_data":` + uri + `}]}]}`,
		"file, single values":         `{"contents":{"parts":{"fileData":` + uri + `}}}`,
		"file in systemInstruction":   `{"contents":[{"parts":[{"text":"a"}]}],"system_instruction":{"parts":{"fileData":` + uri + `}}}`,
		"file in a function response": `{"contents":[{"parts":[{"functionResponse":{"name":"f","parts":[{"fileData":` + uri + `}]}}]}]}`,
		"cached content":              `{"contents":[{"parts":[{"text":"a"}]}],"cachedContent":"cachedContents/x"}`,
		"file search":                 `{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"fileSearch":{}}]}`,
		"retrieval":                   `{"contents":[{"parts":[{"text":"a"}]}],"tools":{"retrieval":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			v := plugintest.Vector{Form: "gemini", Target: "m", Status: 200, Request: []byte(body)}
			suite.EachForm(t, `{}`, func(t *testing.T, b *plugintest.Binding) {
				if r := v.Run(b, false); r.Request != "" || !strings.Contains(r.Response, `"UNSUPPORTED_CONTENT"`) {
					t.Errorf("got request %s\nand response %s\nwant only the error UNSUPPORTED_CONTENT", r.Request, r.Response)
				}
			})
			suite.EachForm(t, `{"allow_file_uri":true}`, func(t *testing.T, b *plugintest.Binding) {
				if _, sent := sentRequest(t, v.Run(b, false)); sent != body {
					t.Errorf("sent %s\nwant %s", sent, body)
				}
			})
		})
	}
}

func TestOperatorSafetySettingsOverrideClient(t *testing.T) {
	v := plugintest.Vector{Form: "gemini", Target: "m", Status: 200, Request: []byte(`{"contents":[{"parts":[{"text":"a"}]}],"safety_settings":[{"category":"A"}]}`)}
	suite.EachForm(t, `{"safety_settings":[{"category":"B"}]}`, func(t *testing.T, b *plugintest.Binding) {
		r := v.Run(b, false)
		if _, body := sentRequest(t, r); body != `{"contents":[{"parts":[{"text":"a"}]}],"safetySettings":[{"category":"B"}]}` || r.Warnings != "changed safetySettings\n" {
			t.Errorf("sent %s, warnings %q", body, r.Warnings)
		}
	})
}
