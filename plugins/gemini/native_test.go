package gemini

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// sent splits the request that a vector sends.
func sent(t *testing.T, r plugintest.Result) (head, body string) {
	t.Helper()
	head, body, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		t.Fatalf("no request: %s", r.Response)
	}
	return head, strings.TrimSuffix(body, "\n")
}

// TestContentIsPassedOn checks that requests of Gemini clients reach the provider byte for byte, with the target's
// model.
func TestContentIsPassedOn(t *testing.T) {
	paths, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d recordings, %v", len(paths), err)
	}
	for _, settings := range []string{`{}`, `{"api":"vertex","project":"p","location":"eu"}`} {
		suite.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
			if b.Forms() != abi.FormGemini|abi.FormEmbeddings {
				t.Fatalf("forms %d", b.Forms())
			}
			for _, path := range paths {
				request, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, stream := range []bool{false, true} {
					v := plugintest.Vector{Form: "gemini", Target: "gemini-2.5-pro", Status: 200, Request: request}
					r := v.Run(b, stream)
					head, body := sent(t, r)
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
							t.Errorf("%s: IDs of calls were sent to Vertex AI", path)
						}
						expected = body
					}
					if head != want || body != expected || r.Warnings != "" {
						t.Errorf("%s is sent as\n%s\n%s\n%s", path, head, body, r.Warnings)
					}
				}
			}
		})
	}
}

func TestAccountDataIsRefused(t *testing.T) {
	const uri = `{"fileUri":"gs://x"}`
	for name, body := range map[string]string{
		"file":                `{"contents":[{"parts":[{"text":"a"},{"fileData":` + uri + `}]}]}`,
		"file, snake case":    `{"contents":[{"parts":[{"file_data":` + uri + `}]}]}`,
		"file, single values": `{"contents":{"parts":{"fileData":` + uri + `}}}`,
		"file of a system":    `{"contents":[{"parts":[{"text":"a"}]}],"system_instruction":{"parts":{"fileData":` + uri + `}}}`,
		"file of a function":  `{"contents":[{"parts":[{"functionResponse":{"name":"f","parts":[{"fileData":` + uri + `}]}}]}]}`,
		"cached content":      `{"contents":[{"parts":[{"text":"a"}]}],"cachedContent":"cachedContents/x"}`,
		"store":               `{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"fileSearch":{}}]}`,
		"data store":          `{"contents":[{"parts":[{"text":"a"}]}],"tools":{"retrieval":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			v := plugintest.Vector{Form: "gemini", Target: "m", Status: 200, Request: []byte(body)}
			suite.EachForm(t, `{}`, func(t *testing.T, b *plugintest.Binding) {
				if r := v.Run(b, false); r.Request != "" || !strings.Contains(r.Response, `"UNSUPPORTED_CONTENT"`) {
					t.Errorf("sent %s\nresponded %s", r.Request, r.Response)
				}
			})
			suite.EachForm(t, `{"allow_file_uri":true}`, func(t *testing.T, b *plugintest.Binding) {
				if _, sent := sent(t, v.Run(b, false)); sent != body {
					t.Errorf("sent %s", sent)
				}
			})
		})
	}
}

func TestOperatorsSafety(t *testing.T) {
	v := plugintest.Vector{Form: "gemini", Target: "m", Status: 200, Request: []byte(`{"contents":[{"parts":[{"text":"a"}]}],"safety_settings":[{"category":"A"}]}`)}
	suite.EachForm(t, `{"safety_settings":[{"category":"B"}]}`, func(t *testing.T, b *plugintest.Binding) {
		r := v.Run(b, false)
		if _, body := sent(t, r); body != `{"contents":[{"parts":[{"text":"a"}]}],"safetySettings":[{"category":"B"}]}` || r.Warnings != "changed safetySettings\n" {
			t.Errorf("sent %s, warnings %q", body, r.Warnings)
		}
	})
}
