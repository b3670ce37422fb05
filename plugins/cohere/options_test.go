package cohere

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
			"unknown":         {`{"temperature":1}`, "unknown option temperature"},
			"out_of_range":    {`{"out_of_range":"ignore"}`, "option out_of_range"},
			"unknown members": {`{"unknown":"pass"}`, "option unknown"},
			"replay_thinking": {`{"replay_thinking":"no"}`, "option replay_thinking"},
		} {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				_, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(test.settings)})
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one that says %s", err, test.want)
				}
			})
		}
		t.Run(form.String()+"/every option", func(t *testing.T) {
			const settings = `{"out_of_range":"clamp","unknown":"drop","replay_thinking":true}`
			if _, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(settings)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	forms(t, `{"out_of_range":"refuse","unknown":"refuse"}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"out_of_range":"clamp"}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":1.5}`),
		}
		if body := sent(t, v.Run(b, false)); body["temperature"] != 1.0 {
			t.Errorf("the request is %v", body)
		}
	})
}
