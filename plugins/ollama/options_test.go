package ollama

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, h, form)
		for name, test := range map[string]struct{ settings, want string }{
			"unknown":         {`{"num_ctx":1}`, "unknown option num_ctx"},
			"options":         {`{"options":[]}`, "option options"},
			"keep_alive":      {`{"keep_alive":true}`, "option keep_alive"},
			"truncate":        {`{"truncate":"no"}`, "option truncate"},
			"shift":           {`{"shift":0}`, "option shift"},
			"think_levels":    {`{"think_levels":"no"}`, "option think_levels"},
			"highest_effort":  {`{"highest_effort":"xhigh"}`, "option highest_effort"},
			"unknown members": {`{"unknown":"pass"}`, "option unknown"},
		} {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				_, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(test.settings)})
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one that says %s", err, test.want)
				}
			})
		}
		t.Run(form.String()+"/every option", func(t *testing.T) {
			const settings = `{"options":{"num_ctx":8192},"keep_alive":-1,"truncate":false,"shift":true,"think_levels":true,"highest_effort":"high","unknown":"drop"}`
			if _, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(settings)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	forms(t, `{"keep_alive":"5m","options":{"num_ctx":8192}}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"options":{"num_ctx":4096}}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`),
		}
		body := sent(t, v.Run(b, false))
		if options, _ := body["options"].(map[string]any); options["num_ctx"] != 4096.0 || body["keep_alive"] != "5m" {
			t.Errorf("the request is %v", body)
		}
	})
}
