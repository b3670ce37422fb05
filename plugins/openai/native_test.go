package openai

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestForms(t *testing.T) {
	const common = abi.FormCompletions | abi.FormEmbeddings | abi.FormRerank
	for settings, want := range map[string]abi.Forms{
		`{}`:                      common,
		`{"forms":["responses"]}`: abi.FormResponses,
		`{"forms":[]}`:            abi.FormChat,
		`{"forms":["completions","embeddings","moderations","rerank"]}`: abi.FormCompletions | abi.FormEmbeddings | abi.FormModerations | abi.FormRerank,
		`{"api":"chat"}`:                 common,
		`{"api":"responses"}`:            common | abi.FormResponses,
		`{"api":"responses","forms":[]}`: abi.FormChat,
	} {
		suite.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
			if b.Forms() != want {
				t.Errorf("%s: forms %d, want %d", settings, b.Forms(), want)
			}
		})
	}
}

func TestResponsesArePassedOn(t *testing.T) {
	suite.TestPassedOn(t, "responses", "POST /responses")
}

// TestPresetsOfResponses checks that each upstream with the Responses API has its path in the preset, and that an
// upstream that stores no responses receives no request that refers to one.
func TestPresetsOfResponses(t *testing.T) {
	for name, keeps := range map[string]bool{
		"openai": true, "azure-v1": true, "xai": true, "lmstudio": true,
		"openrouter": false, "groq": false, "vllm": false, "ollama": false,
	} {
		s := suite
		s.Use = preset(t, name)
		b := s.Bind(t, plugintest.Native)
		if b.Forms()&abi.FormResponses == 0 {
			t.Errorf("%s: forms %d", name, b.Forms())
		}
		for member, rejected := range map[string]bool{
			`"previous_response_id":"resp_1"`: true, `"conversation":{"id":"c"}`: true, `"background":true`: true,
			`"previous_response_id":null`: false, `"background":false`: false, `"store":false`: false, `"include":[]`: false,
		} {
			v := plugintest.Vector{Form: "responses", Target: "m", Status: 200, Options: []byte(s.Use.Settings),
				Request: []byte(`{"model":"x","input":"Hi",` + member + `}`)}
			r := v.Run(b, false)
			switch rejected = rejected && !keeps; {
			case rejected && (r.Request != "" || !strings.Contains(r.Response, "400\n") || !strings.Contains(r.Response, "does not keep responses")):
				t.Errorf("%s: %s is not rejected: %s%s", name, member, r.Request, r.Response)
			case !rejected && r.Request != "POST /responses\n\n{\"model\":\"m\",\"input\":\"Hi\","+member+"}\n":
				t.Errorf("%s: %s is sent as %s%s", name, member, r.Request, r.Response)
			}
		}
		v := plugintest.Vector{Form: "responses", Target: "m", Status: 200, Options: []byte(s.Use.Settings), Request: []byte(`{"model":"x","store":true,"input":"Hi"}`)}
		r := v.Run(b, false)
		if stored := strings.Contains(r.Request, `"store":true`); stored != keeps || (r.Warnings == "changed store\n") == keeps {
			t.Errorf("%s: store is sent in %s%s", name, r.Request, r.Warnings)
		}
	}
}

func TestResponsesPath(t *testing.T) {
	s := suite
	s.Use.Paths = []string{"/openai/responses", "/custom/*/responses"}
	for settings, want := range map[string]string{
		`{"forms":["responses"],"responses_path":"/openai/responses","api_version":"2025-04-01-preview"}`: "POST /openai/responses?api-version=2025-04-01-preview\n",
		`{"forms":["responses"],"responses_path":"/custom/{model}/responses"}`:                            "POST /custom/m%2F1/responses\n",
	} {
		s.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
			v := plugintest.Vector{Form: "responses", Target: "m/1", Status: 200, Options: []byte(settings), Request: []byte(`{"model":"x","input":"Hi"}`)}
			if r := v.Run(b, false); !strings.HasPrefix(r.Request, want) {
				t.Errorf("%s%s, want %s", r.Request, r.Response, want)
			}
		})
	}
}
