package ollama

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	suite.TestSettings(t, map[string]string{
		`{"options":{"num_ctx":8192},"keep_alive":-1,"truncate":false,"shift":true,"think_levels":true,"highest_effort":"high","unknown":"drop"}`: "", // every option
		`{"num_ctx":1}`:              "unknown option num_ctx",
		`{"options":[]}`:             "option options",
		`{"keep_alive":true}`:        "option keep_alive",
		`{"truncate":"no"}`:          "option truncate",
		`{"shift":0}`:                "option shift",
		`{"think_levels":"no"}`:      "option think_levels",
		`{"highest_effort":"xhigh"}`: "option highest_effort",
		`{"unknown":"pass"}`:         "option unknown",
	})
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	suite.EachForm(t, `{"keep_alive":"5m","options":{"num_ctx":8192}}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"options":{"num_ctx":4096}}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`),
		}
		body := v.Run(b, false).RequestBody(t)
		if options, _ := body["options"].(map[string]any); options["num_ctx"] != 4096.0 || body["keep_alive"] != "5m" {
			t.Errorf("got request %v, want the target's num_ctx and the provider's keep_alive", body)
		}
	})
}
