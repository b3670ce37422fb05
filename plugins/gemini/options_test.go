package gemini

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	suite.TestSettings(t, map[string]string{
		`{"api":"vertex","project":"p","location":"global","publisher":"google","thinking":"level","levels":["low","high"],` +
			`"always_thinking":false,"schema":"openapi","signatures":"optional","allow_file_uri":true,"stream_arguments":true,"safety_settings":[]}`: "", // every option
		`{"temperature":1}`:                         "unknown option temperature",
		`{"api":"studio"}`:                          "option api",
		`{"api":"vertex"}`:                          "requires the options project and location",
		`{"api":"vertex","project":"p"}`:            "requires the options project and location",
		`{"project":""}`:                            "option project",
		`{"location":1}`:                            "option location",
		`{"publisher":""}`:                          "option publisher",
		`{"thinking":"effort"}`:                     "option thinking",
		`{"levels":[]}`:                             "option levels",
		`{"levels":["low","extreme"]}`:              "option levels",
		`{"levels":"low"}`:                          "option levels",
		`{"always_thinking":"yes"}`:                 "option always_thinking",
		`{"schema":"native"}`:                       "option schema",
		`{"signatures":true}`:                       "option signatures",
		`{"allow_file_uri":1}`:                      "option allow_file_uri",
		`{"stream_arguments":"on"}`:                 "option stream_arguments",
		`{"safety_settings":{"HARM_CATEGORY":"x"}}`: "option safety_settings",
	})
}

func TestTargetOptionsOverrideProvider(t *testing.T) {
	suite.EachForm(t, `{"thinking":"level","levels":["low"]}`, func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{
			Target: "m", Status: 200, Options: []byte(`{"levels":["high"]}`),
			Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"low"}`),
		}
		if r := v.Run(b, false); !strings.Contains(r.Request, `"thinkingConfig":{"thinkingLevel":"HIGH",`) {
			t.Errorf("target's levels are not used in %s", r.Request)
		}
	})
}

func TestInvalidTargetOptionsFailRequest(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		v := plugintest.Vector{Target: "m", Status: 200, Options: []byte(`{"schema":3}`), Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)}
		if r := v.Run(b, false); r.Request != "" || !strings.Contains(r.Response, "502\n") {
			t.Errorf("got request %s\nand response %s\nwant only status 502", r.Request, r.Response)
		}
	})
}

// TestModelTraitsFromName checks the defaults that a model's name implies for unset options.
func TestModelTraitsFromName(t *testing.T) {
	for name, want := range map[string]struct {
		generation int
		byLevel    translate.Choice
		always     translate.Choice
	}{
		"gemini-2.5-flash":         {2, translate.No, translate.No},
		"gemini-2.5-pro":           {2, translate.No, translate.Yes},
		"gemini-1.5-flash":         {1, translate.No, translate.No},
		"gemini-3-flash-preview":   {3, translate.Yes, translate.No},
		"gemini-3.1-pro-preview":   {3, translate.Yes, translate.Yes},
		"gemini-12-flash":          {12, translate.Yes, translate.No},
		"gemini-flash-latest":      {0, translate.No, translate.No},
		"tuned-on-gemini-3":        {3, translate.Yes, translate.No},
		"my-model":                 {0, translate.No, translate.No},
		"gemini-99999999999999999": {999, translate.Yes, translate.No},
	} {
		t.Run(name, func(t *testing.T) {
			var o options
			o.applyModelDefaults([]byte(name))
			if n := generation([]byte(name)); n != want.generation || o.byLevel != want.byLevel || o.requireSignature != want.byLevel || o.alwaysThinking != want.always {
				t.Errorf("got generation %d, options %+v, want %+v", n, o, want)
			}
		})
	}
}
