package plugin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// If the plugin has declared that it reads only JSON, other data is the provider's failure, and the plugin is not
// called.
//
// covers: C53
func TestEventsThatAreNotJSON(t *testing.T) {
	for _, declared := range []bool{true, false} {
		calls := 0
		bound := bindNative(t, native{
			request: func(h abi.Host, _ []byte) int32 {
				h.RequestPath(b("/v1"))
				framing := abi.FramingSSE
				if declared {
					framing |= abi.FramingEventsAreJSON
				}
				want(t, "status", h.Answer(framing, abi.DialectTranslated, nil), abi.StatusOK)
				return 0
			},
			response: func(abi.Host, int32, []byte) int32 { calls++; return 0 },
			event:    func(abi.Host, abi.EventKind, []byte, []byte) int32 { calls++; return 0 },
		}, plugin.BindingConfig{Paths: []string{"/v1"}})
		a := newAttempt(t, body)
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if a.Framing != abi.FramingSSE {
			t.Errorf("framing %d", a.Framing)
		}
		for data, ok := range map[string]bool{
			`{"delta":"secret prompt"}`: true, `[1]`: true, ``: true, `[DONE]`: true, "{\"cut\":\"\xe4\"}": true,
			`{"delta":"secret prompt`: false, `{"delta":{"text":"secret prompt"},`: false, `secret prompt`: false, `[DONE] `: false,
		} {
			for call, run := range map[string]func() error{
				"event":         func() error { return bound.Event(t.Context(), a, abi.EventPlain, b("delta"), b(data)) },
				"exception":     func() error { return bound.Event(t.Context(), a, abi.EventException, nil, b(data)) },
				"response":      func() error { return bound.Response(t.Context(), a, 200, b(data)) },
				"error message": func() error { return bound.Response(t.Context(), a, 400, b(data)) },
			} {
				calls = 0
				err := run()
				if ok || !declared || call == "exception" || call == "error message" {
					if err != nil || calls != 1 {
						t.Errorf("%s of %q: %v, %d calls", call, data, err, calls)
					}
					continue
				}
				var failed *apierror.Error
				if !errors.As(err, &failed) || failed.Code != "upstream_bad_answer" || !failed.TryNext || calls != 0 {
					t.Fatalf("%s of %q: %v, %d calls", call, data, err, calls)
				}
				if cause := failed.Cause.Error(); !strings.Contains(cause, " is not JSON: ") || !strings.Contains(cause, " at byte ") || strings.Contains(cause, "secret") {
					t.Errorf("%s of %q: cause %q", call, data, cause)
				}
			}
		}
	}
}

// The body of a bundled plugin is not checked.
func TestBodyOfBundledPluginIsNotChecked(t *testing.T) {
	m := newModule("request_path", "request_write").base()
	m.Data(keepAt, b("/v1{"))
	m.export(abi.ExportRequest, "ii", i32(keepAt), i32(3), m.call("request_path"), w.Drop, i32(keepAt+3), i32(1), m.call("request_write"), i32(0))
	m.export(abi.ExportEvent, "iiii", i32(0))
	for _, bundled := range []bool{true, false} {
		bound := bind(t, load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes(), Bundled: bundled}), plugin.BindingConfig{Paths: []string{"/v1"}})
		if err := bound.Request(t.Context(), newAttempt(t, body)); (err == nil) != bundled {
			t.Errorf("bundled %v: %v", bundled, err)
		}
	}
}

// covers: C51
func TestBodyOfPluginIsJSON(t *testing.T) {
	for written, reason := range map[string]string{
		`{"a":[1,"text"]}`:           "",
		"{\"a\":\"\u00e4\"}":         "",
		`{"secret":"prompt","n":1,}`: `the body of the request is not JSON: expected a member name in quotes at byte 25 of 26, after {"…":"…","…":0,`,
		"{\"a\":\"\xe4\"}":           `the body of the request is not JSON: invalid UTF-8 at byte 6 of 9, after {"…":"…`,
		"a=1&b=2":                    `the body of the request is not JSON: expected a value at byte 0 of 7`,
		"{}\n{}":                     `there is data after the document at byte 3 of 5, after {}`,
	} {
		bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
			h.RequestPath(b("/v1"))
			for i := range len(written) {
				h.RequestWrite(b(written[i : i+1]))
			}
			return 0
		}}, plugin.BindingConfig{Paths: []string{"/v1"}})
		a := newAttempt(t, body)
		err := bound.Request(t.Context(), a)
		if reason == "" {
			if err != nil || string(a.Out.Body) != written {
				t.Errorf("%q: %v, body %q", written, err, a.Out.Body)
			}
			continue
		}
		if e := wantCallError(t, err, plugin.KindProtocol); !strings.Contains(e.Error(), reason) || strings.Contains(e.Error(), "secret") {
			t.Errorf("%q: error %q, want it to contain %q", written, e, reason)
		}
	}
}
