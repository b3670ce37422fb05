package openai

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// callForms are the settings of a provider that supports all of these APIs.
const callForms = `{"forms":["completions","embeddings","moderations","rerank"]}`

func TestCallsArePassedOn(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the module")
	}
	suite.EachForm(t, callForms, func(t *testing.T, b *plugintest.Binding) {
		for name, c := range map[string]struct{ form, request, want string }{
			"embeddings": {"embeddings", `{"model":"x", "input":[1,2],"encoding_format":"base64"}`, "/embeddings\n\n" + `{"model":"m\"", "input":[1,2],"encoding_format":"base64"}`},
			"moderation": {"moderations", `{"input":"a"}`, "/moderations\n\n" + `{"input":"a","model":"m\""}`},
			"rerank":     {"rerank", `{"model":"x","query":"q","documents":["a"],"top_n":1}`, "/rerank\n\n" + `{"model":"m\"","query":"q","documents":["a"],"top_n":1}`},
			"completion": {"completions", `{"model":"x","prompt":"a","max_tokens":5}`, "/completions\n\n" + `{"model":"m\"","prompt":"a","max_tokens":5}`},
			"stream":     {"completions", `{"model":"x","prompt":"a","stream":true}`, "/completions\n\n" + `{"model":"m\"","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`},
			"with its usage": {"completions", `{"model":"x","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`,
				"/completions\n\n" + `{"model":"m\"","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`},
		} {
			v := plugintest.Vector{Form: c.form, Target: `m"`, Status: 200, Options: []byte(callForms), Request: []byte(c.request)}
			if r := v.Run(b, false); r.Request != "POST "+c.want+"\n" || r.Warnings != "" {
				t.Errorf("%s: %s%s%s, want %s", name, r.Request, r.Warnings, r.Response, c.want)
			}
		}
	})
}

// TestCallsOfPresets checks the differences between upstreams, which are in their presets.
func TestCallsOfPresets(t *testing.T) {
	for name, c := range map[string]struct{ preset, form, request, want string }{
		"azure embeddings":   {"azure", "embeddings", `{"model":"x","input":"a"}`, "POST /openai/deployments/m/embeddings?api-version=2024-10-21\n"},
		"azure completions":  {"azure", "completions", `{"model":"x","prompt":"a"}`, "POST /openai/deployments/m/completions?api-version=2024-10-21\n"},
		"mistral embeddings": {"mistral", "embeddings", `{"model":"x","input":"a","dimensions":5,"user":"u"}`, "POST /embeddings\n\n" + `{"model":"m","input":"a","output_dimension":5}`},
		"mistral middle":     {"mistral", "completions", `{"model":"x","prompt":"a","suffix":"b","stream":true,"stream_options":{"include_usage":true}}`, "POST /fim/completions\n\n" + `{"model":"m","prompt":"a","suffix":"b","stream":true}`},
		"deepseek middle":    {"deepseek", "completions", `{"model":"x","prompt":"a","suffix":"b"}`, "POST /beta/completions\n"},
		"vllm rerank":        {"vllm", "rerank", `{"model":"x","query":"q","documents":["a"]}`, "POST /rerank\n"},
		"lmstudio refuses n": {"lmstudio", "completions", `{"model":"x","prompt":"a","n":2}`, ""},
	} {
		s := suite
		s.Use = preset(t, c.preset)
		v := plugintest.Vector{Form: c.form, Target: "m", Status: 200, Options: []byte(s.Use.Settings), Request: []byte(c.request)}
		r := v.Run(s.Bind(t, plugintest.Native), false)
		if !strings.HasPrefix(r.Request, c.want) || c.want == "" && !strings.Contains(r.Response, `"code":"unsupported`) {
			t.Errorf("%s: %s%s, want %s", name, r.Request, r.Response, c.want)
		}
	}
}
