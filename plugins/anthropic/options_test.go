package anthropic

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	suite.TestSettings(t, map[string]string{
		`{"version":"2023-06-01","beta":"x","adaptive_thinking":true,"always_thinking":false,"highest_effort":"max",` +
			`"betas":["a","b*"],"list":true,"json_schema":"tool","sampling":"one","out_of_range":"clamp","unknown":"drop"}`: "", // every option
		`{"thinking":"adaptive"}`:      "option",
		`{"version":""}`:               "option",
		`{"beta":["a"]}`:               "option",
		`{"reasoning_format":""}`:      "option",
		`{"betas":"a"}`:                "option",
		`{"betas":[""]}`:               "option",
		`{"betas":[1]}`:                "option",
		`{"list":"no"}`:                "option",
		`{"adaptive_thinking":"yes"}`:  "option",
		`{"always_thinking":1}`:        "option",
		`{"highest_effort":"low"}`:     "option",
		`{"highest_effort":"extreme"}`: "option",
		`{"json_schema":true}`:         "option",
		`{"sampling":"neither"}`:       "option",
		`{"out_of_range":"ignore"}`:    "option",
		`{"unknown":"pass"}`:           "option",
	})
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	suite.EachForm(t, `{"json_schema":"native","sampling":"both"}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"sampling":"one"}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"top_p":0.5,` +
				`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`),
		}
		body := v.Run(b, false).RequestBody(t)
		if body["top_p"] != nil || body["output_config"] == nil {
			t.Errorf("the target's or the provider's options are not used in %v", body)
		}
	})
}

func TestInvalidTargetOptionsFailRequest(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{Target: "m", Status: 200, Options: []byte(`{"sampling":3}`), Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)}
		if r := v.Run(b, false); r.Request != "" || !strings.Contains(r.Response, "502\n") {
			t.Errorf("got request %s\nand response %s\nwant only status 502", r.Request, r.Response)
		}
	})
}
