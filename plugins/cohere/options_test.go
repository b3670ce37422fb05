package cohere

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	suite.TestSettings(t, map[string]string{
		`{"out_of_range":"clamp","unknown":"drop","replay_thinking":true}`: "", // every option
		`{"temperature":1}`:         "unknown option temperature",
		`{"out_of_range":"ignore"}`: "option out_of_range",
		`{"unknown":"pass"}`:        "option unknown",
		`{"replay_thinking":"no"}`:  "option replay_thinking",
	})
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	suite.EachForm(t, `{"out_of_range":"refuse","unknown":"refuse"}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"out_of_range":"clamp"}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":1.5}`),
		}
		if body := v.Run(b, false).RequestBody(t); body["temperature"] != 1.0 {
			t.Errorf("got request %v, want temperature 1", body)
		}
	})
}
