package main

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: ".",
	Use:     plugintest.Use{Paths: []string{"/kit", "/models"}, Headers: []string{"x-kit"}},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func TestRejectsInvalidSettings(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, h, form)
		_, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "kit", Settings: []byte(`{"refuse":true}`)})
		if err == nil || !strings.Contains(err.Error(), errSettings.Error()) {
			t.Errorf("%v: error %v", form, err)
		}
	}
}

// TestBindingsAreSeparate checks that every binding has its own provider with its own settings, whatever was bound and
// called in between.
func TestBindingsAreSeparate(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, h, form)
		var bindings []*plugintest.Binding
		for _, settings := range []string{`{"name":"a"}`, `{"name":"b"}`, ``} {
			b, err := p.Bind(context.Background(), plugintest.BindingConfig{Name: "kit", Settings: []byte(settings), Paths: suite.Use.Paths})
			if err != nil {
				t.Fatal(err)
			}
			bindings = append(bindings, b)
		}
		v := plugintest.Vector{
			Target: "t", Status: 200, Options: []byte(`{"do":"summary"}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`),
		}
		for i, want := range []string{`"settings":{"name":"a"}`, `"settings":{"name":"b"}`, `"settings":{}`} {
			if got := v.Run(bindings[i], false).Request; !strings.Contains(got, want) {
				t.Errorf("%v: binding %d sends %s, want %s", form, i, got, want)
			}
		}
	}
}

func TestModels(t *testing.T) {
	h := plugintest.Host(t)
	header := func(name []byte) []byte {
		if string(name) == "x-next" {
			return []byte("from-header")
		}
		return nil
	}
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		t.Run(form.String(), func(t *testing.T) {
			b := suite.Bind(t, h, form)
			out, err := b.List(context.Background(), []byte("c1"))
			if err != nil || out.Path != "/models?after=c1" || len(out.Headers) != 1 || out.Headers[0].Name != "x-kit" {
				t.Errorf("list: %+v, %v", out, err)
			}
			for name, test := range map[string]struct{ body, models, next string }{
				"all": {
					`{"models":[["m\"1","Name","o",1700000000,4096,true,0.5,2],["m2"]],"next":"p2"}`,
					`{"id":"m\"1","display_name":"Name","owned_by":"o","created":1700000000,"max_tokens":4096,"thinking":true,"pricing":{"input":0.5,"output":2}} {"id":"m2"}`,
					"p2",
				},
				"half a price": {`{"models":[["m","","",0,0,false,1]]}`, `{"id":"m"}`, ""},
				"header":       {`{"header":"x-next","other":1}`, "", "from-header"},
			} {
				t.Run(name, func(t *testing.T) {
					page, err := b.Models(context.Background(), 200, header, []byte(test.body))
					if err != nil {
						t.Fatal(err)
					}
					var models []string
					for _, m := range page.Models {
						models = append(models, string(m))
					}
					if got := strings.Join(models, " "); got != test.models || page.Next != test.next {
						t.Errorf("models %s, next %q", got, page.Next)
					}
				})
			}
			if _, err := b.Models(context.Background(), 401, header, nil); err == nil || !strings.Contains(err.Error(), "upstream_auth_failed") {
				t.Errorf("status 401: %v", err)
			}
			if _, err := b.Models(context.Background(), 200, header, []byte(`{"models":[`)); err == nil || !strings.Contains(err.Error(), "upstream_bad_answer") {
				t.Errorf("broken page: %v", err)
			}
		})
	}
}

func TestNoModelListWithoutPath(t *testing.T) {
	s := suite
	s.Use.Settings = `{"no list":true}`
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		out, err := s.Bind(t, h, form).List(context.Background(), nil)
		if err != nil || out.Path != "" {
			t.Errorf("%v: %+v, %v", form, out, err)
		}
	}
}

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
