package anthropic

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
		for name, settings := range map[string]string{
			"unknown":           `{"thinking":"adaptive"}`,
			"version":           `{"version":""}`,
			"beta":              `{"beta":["a"]}`,
			"adaptive_thinking": `{"adaptive_thinking":"yes"}`,
			"always_thinking":   `{"always_thinking":1}`,
			"highest_effort":    `{"highest_effort":"low"}`,
			"effort":            `{"highest_effort":"extreme"}`,
			"json_schema":       `{"json_schema":true}`,
			"sampling":          `{"sampling":"neither"}`,
			"out_of_range":      `{"out_of_range":"ignore"}`,
			"unknown members":   `{"unknown":"pass"}`,
		} {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				_, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(settings)})
				if err == nil || !strings.Contains(err.Error(), "option") {
					t.Errorf("error %v, want one that names the option", err)
				}
			})
		}
		t.Run(form.String()+"/every option", func(t *testing.T) {
			const settings = `{"version":"2023-06-01","beta":"x","adaptive_thinking":true,"always_thinking":false,"highest_effort":"max",` +
				`"json_schema":"tool","sampling":"one","out_of_range":"clamp","unknown":"drop"}`
			if _, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(settings)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	forms(t, `{"json_schema":"native","sampling":"both"}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"sampling":"one"}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"top_p":0.5,` +
				`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`),
		}
		body := sent(t, v.Run(b, false))
		if body["top_p"] != nil || body["output_config"] == nil {
			t.Errorf("the request is %v", body)
		}
	})
}

func TestInvalidTargetOptionsFailRequest(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{Target: "m", Status: 200, Options: []byte(`{"sampling":3}`), Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)}
		if r := v.Run(b, false); r.Request != "" || !strings.Contains(r.Answer, "502\n") {
			t.Errorf("%s%s", r.Request, r.Answer)
		}
	})
}
