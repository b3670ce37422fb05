package plugin_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestHostPanicFailsOneCall makes the gateway's own code panic during a call of a plugin. The call must fail, and its
// instance and its slot for whole-body calls must be free for the next call.
func TestHostPanicFailsOneCall(t *testing.T) {
	const secret = "value of the panic"
	m := newModule("text", "response_header", "tool_call", "finish").base()
	act := w.Code(
		when('h', i32(keepAt), i32('n'), w.I32Store8, i32(keepAt), i32(1), i32(keepAt), i32(0), m.call("response_header"), w.Drop, forever()),
		when('f', i32(0), i32(0), i32(keepAt), i32(1), m.call("finish"), forever()),
		when('t', i32(0), i32(1), i32(inputAt), i32(1), i32(inputAt), i32(1), m.call("tool_call")),
	)
	m.provider(act, m.echo())
	m.export(abi.ExportResponse, "iii", act, i32(0))
	var log bytes.Buffer
	h := newHost(t, plugin.Options{Instances: 1, WholeCalls: 1, Wait: time.Millisecond, Log: textLog(&log)})
	p := load(t, h, plugin.Spec{Wasm: m.Bytes()})
	armed := false
	boom := func() {
		if armed {
			panic(secret)
		}
	}
	bound := bind(t, p, plugin.BindingConfig{Redact: func(p []byte) []byte { boom(); return p }})
	attempt := func() *plugin.Attempt {
		a := newAttempt(t, body)
		a.ResponseHeader = func([]byte) []byte { boom(); return nil }
		a.Writer.Reset(response.Options{Stream: true, ID: "id", Model: "m", Created: 1, Aliases: func(name []byte) []byte { boom(); return name }})
		return a
	}
	for _, where := range []struct{ name, input, reason string }{
		{"in an import", "header", "panic in the gateway: response_header"},
		{"in the redactor", "finish", "panic in the gateway: finish"},
		{"in the commit", "tool", "panic in the gateway"},
	} {
		t.Run(where.name, func(t *testing.T) {
			for _, call := range []struct {
				name string
				call func(a *plugin.Attempt) error
			}{
				{"event", func(a *plugin.Attempt) error { return bound.Event(t.Context(), a, abi.EventPlain, nil, b(where.input)) }},
				{"whole", func(a *plugin.Attempt) error { return bound.Response(t.Context(), a, 200, b(where.input)) }},
			} {
				log.Reset()
				before := p.Stats()
				armed = true
				err := call.call(attempt())
				armed = false
				e := wantCallError(t, err, plugin.KindHost)
				if !strings.HasSuffix(e.Error(), where.reason) || strings.Contains(e.Error(), secret) {
					t.Errorf("%s: error %q", call.name, e)
				}
				if c := e.ClientError(); c.Status != 500 || c.Code != "internal_error" || c.TryNext {
					t.Errorf("%s: the client sees %+v", call.name, c)
				}
				after := p.Stats()
				if after.Failed[plugin.KindHost] != before.Failed[plugin.KindHost]+1 || after.Made != before.Made+1 {
					t.Errorf("%s: stats %+v, before the call %+v", call.name, after, before)
				}
				if got := log.String(); strings.Count(got, "panic in a plugin call") != 1 || !strings.Contains(got, "panic_test.go") || strings.Contains(got, secret) {
					t.Errorf("%s: log\n%s", call.name, got)
				}
				// The only instance and the only slot are free.
				echo(t, bound, newAttempt(t, body), "next")
				if err := bound.Response(t.Context(), attempt(), 200, b("next")); err != nil {
					t.Errorf("%s: the next whole-body call: %v", call.name, err)
				}
			}
		})
	}
}
