package plugin_test

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestTrace(t *testing.T) {
	m := newModule("text", "input_get", "done").base()
	act := w.Code(
		i32(inputAt), i32(0), i32(keepAt), i32(8), m.call("input_get"), w.Drop,
		i32(0), i32(0), i32(inputAt), i32(7), m.call("text"),
		when('!', i32(-1), i32(0), i32(inputAt), i32(2), m.call("text")),
	)
	m.provider(act, i32(0))
	var out bytes.Buffer
	p := load(t, newHost(t, plugin.Options{Trace: &out}), plugin.Spec{Wasm: m.Bytes()})
	bound := bind(t, p, plugin.BindingConfig{})
	a := newAttempt(t, body)
	a.Summary.RequestID = "req_1"
	for input, want := range map[string]string{
		`["ä"]x`: `^req_1 binding provider_event
  in   "\[\\"ä\\"\]x"
  input_get "" = -2
  text 0 0 "\[\\"ä\\"\]x"
  returned 0 after \d+ units, \S+
$`,
		`[12345]`: `^req_1 binding provider_event
  in   "\[12345\]"
  input_get "" = 7: "\[12345\]"
  text 0 0 "\[12345\]"
  returned 0 after \d+ units, \S+
$`,
		`!`: `^req_1 binding provider_event
  in   "!"
  input_get "" = -2
  text 0 0 ".*"
  text -1 0 "!.*"
  failed after \d+ units, \S+: protocol error: text: choice out of range
`,
	} {
		out.Reset()
		bound.Event(t.Context(), a, abi.EventPlain, nil, b(input))
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("for %s the trace is\n%s\nwant a match of %s", input, &out, want)
		}
	}
}
