package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/summary"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

var suite = plugintest.Suite{
	Package: ".",
	Use:     plugintest.Use{Paths: []string{"/kit", "/models"}, Headers: []string{"x-kit"}},
}

func TestVectors(t *testing.T) { suite.Test(t) }

// TestVectorsOfVersion3 tests what version 1.3 of the ABI added. The modules of older versions do not run these
// vectors.
func TestVectorsOfVersion3(t *testing.T) {
	s := suite
	s.Dir = "testdata/vectors3"
	s.Test(t)
}

// TestVectorsOfVersion4 does the same for version 1.4.
func TestVectorsOfVersion4(t *testing.T) {
	s := suite
	s.Dir = "testdata/vectors4"
	s.Test(t)
}

// TestVectorsOfVersion5 does the same for version 1.5.
func TestVectorsOfVersion5(t *testing.T) {
	s := suite
	s.Dir = "testdata/vectors5"
	s.Test(t)
}

func TestForms(t *testing.T) {
	for settings, want := range map[string]abi.Forms{`{}`: 0, `{"forms":1}`: abi.FormMessages, `{"forms":3}`: abi.FormMessages | abi.FormResponses} {
		suite.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
			if b.Forms() != want {
				t.Errorf("forms %d, want %d", b.Forms(), want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	suite.TestSettings(t, map[string]string{`{}`: "", `{"refuse":true}`: errSettings.Error()})
}

// TestBindingsAreSeparate checks that each binding has a provider with its own settings, in whatever order bindings are
// configured and called.
func TestBindingsAreSeparate(t *testing.T) {
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, form)
		var bindings []*plugintest.Binding
		for _, settings := range []string{`{"name":"a"}`, `{"name":"b"}`, ``} {
			b, err := p.Bind(settings)
			if err != nil {
				t.Fatal(err)
			}
			bindings = append(bindings, b)
		}
		v := plugintest.Vector{Target: "t", Status: 200, Options: []byte(`{"do":"summary"}`), Request: []byte(plugintest.Hello)}
		for i, want := range []string{`"settings":{"name":"a"}`, `"settings":{"name":"b"}`, `"settings":{}`} {
			if got := v.Run(bindings[i], false).Request; !strings.Contains(got, want) {
				t.Errorf("%v: binding %d sends %s, want %s", form, i, got, want)
			}
		}
	}
}

func TestModels(t *testing.T) {
	suite.TestModels(t, map[string]plugintest.ModelList{
		"all": {
			Body:   `{"models":[["m\"1","Name","o",1700000000,4096,true,0.5,2],["m2"]],"next":"p2"}`,
			Models: `{"id":"m\"1","display_name":"Name","owned_by":"o","created":1700000000,"max_tokens":4096,"thinking":true,"pricing":{"input":0.5,"output":2}} {"id":"m2"}`,
			Next:   "p2",
		},
		"one of two prices": {Body: `{"models":[["m","","",0,0,false,1]]}`, Models: `{"id":"m"}`},
	})
	suite.TestFailedLists(t, map[string]plugintest.FailedList{
		"status 401": {Status: 401, Code: "upstream_auth_failed"},
		"cut":        {Status: 200, Body: `{"models":[`, Code: "upstream_bad_answer"},
	})
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		out, err := b.List("c1")
		if err != nil || out.Path != "/models?after=c1" || len(out.Headers) != 1 || out.Headers[0].Name != "x-kit" {
			t.Errorf("list: %+v, %v", out, err)
		}
		models, next, err := b.Models(200, map[string]string{"x-next": "from-header"}, `{"header":"x-next","other":1}`)
		if err != nil || models != "" || next != "from-header" {
			t.Errorf("models %s, next %q, %v", models, next, err)
		}
	})
}

func TestNoModelListWithoutPath(t *testing.T) {
	suite.EachForm(t, `{"no list":true}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(""); err != nil || out.Path != "" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }

func TestFinishReasons(t *testing.T) {
	for word, want := range map[string]abi.FinishReason{
		"stop": abi.FinishStop, "END_TURN": abi.FinishStop, "MAX_TOKENS": abi.FinishLength, "length": abi.FinishLength, "tool_use": abi.FinishToolCalls,
		"TOOL_CALL": abi.FinishToolCalls, "SAFETY": abi.FinishContentFilter, "refusal": abi.FinishContentFilter,
	} {
		if got, known := provider.FinishReason([]byte(word)); got != want || !known {
			t.Errorf("%s: %d, known %t; want %d", word, got, known, want)
		}
	}
	for _, word := range []string{"", "stopped", "st"} {
		if got, known := provider.FinishReason([]byte(word)); got != abi.FinishStop || known {
			t.Errorf("%q: %d, known %t", word, got, known)
		}
	}
}

// TestFlagsOfTheGateway checks that every flag of the gateway has the same name and bit in the SDK.
func TestFlagsOfTheGateway(t *testing.T) {
	names := plugintest.FlagNames()
	for bit, name := range names {
		var r summary.Reader
		var s sdk.Summary
		if err := r.Parse(&s, fmt.Appendf(nil, `{"flags":[%q]}`, name)); err != nil || s.Flags != 1<<bit {
			t.Errorf("%s is %b, want %b (%v)", name, s.Flags, 1<<bit, err)
		}
	}
	if last := sdk.FlagToolNames; 1<<(len(names)-1) != last {
		t.Errorf("the gateway has %d flags, the last one here is %b", len(names), last)
	}
}
