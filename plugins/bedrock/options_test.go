package bedrock

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	suite.TestSettings(t, map[string]string{
		`{"family":"claude","adaptive_thinking":true,"always_thinking":false,"highest_effort":"max","json_schema":"tool",` +
			`"sampling":"one","prompt_cache":false,"tool_choice":"tool","out_of_range":"clamp","unknown":"drop",` +
			`"guardrail":{"guardrailIdentifier":"g","guardrailVersion":"1"},"latency":"standard","fields":{}}`: "", // every option
		`{"region":"us-east-1"}`:       "option",
		`{"family":"llama"}`:           "option",
		`{"adaptive_thinking":"yes"}`:  "option",
		`{"always_thinking":1}`:        "option",
		`{"highest_effort":"low"}`:     "option",
		`{"highest_effort":"extreme"}`: "option",
		`{"json_schema":true}`:         "option",
		`{"sampling":"neither"}`:       "option",
		`{"prompt_cache":"yes"}`:       "option",
		`{"tool_choice":"required"}`:   "option",
		`{"out_of_range":"ignore"}`:    "option",
		`{"unknown":"pass"}`:           "option",
		`{"guardrail":"x"}`:            "option",
		`{"latency":""}`:               "option",
		`{"fields":["a"]}`:             "option",
	})
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	s := suite
	s.Use.Settings = `{"latency":"optimized","json_schema":"native"}`
	b := s.Bind(t, plugintest.Native)
	v := plugintest.Vector{
		Target: "us.anthropic.claude", Status: 200, Options: []byte(`{"json_schema":"tool"}`),
		Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],` +
			`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`),
	}
	body := v.Run(b, false).RequestBody(t)
	if body["performanceConfig"] == nil || body["outputConfig"] != nil || body["toolConfig"] == nil {
		t.Errorf("got request %v, want the provider's latency and the target's forced tool", body)
	}
}

func TestInvalidTargetOptionsFailRequest(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{Target: "m", Status: 200, Options: []byte(`{"sampling":3}`), Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)}
		if r := v.Run(b, false); r.Request != "" || !strings.Contains(r.Response, "502\n") {
			t.Errorf("%s%s", r.Request, r.Response)
		}
	})
}

func TestModelFamily(t *testing.T) {
	for model, want := range map[string]family{
		"anthropic.claude-3-haiku-20240307-v1:0":                            claude,
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0":                      claude,
		"arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2:1": claude,
		"amazon.nova-micro-v1:0":                                            nova,
		"eu.amazon.nova-2-lite-v1:0":                                        nova,
		"amazon.titan-text-lite-v1":                                         other,
		"openai.gpt-oss-20b-1:0":                                            gptOSS,
		"us.meta.llama3-1-70b-instruct-v1:0":                                other,
		"arn:aws:bedrock:us-east-1:1:application-inference-profile/x":       other,
		"": other,
	} {
		if got := modelFamily([]byte(model)); got != want {
			t.Errorf("%s: got family %s, want %s", model, families[got].name, families[want].name)
		}
	}
}
