package plugin_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Numbers of a newer version of the contract do not fail a call: an import with a status returns -4, any other import
// has no effect. They are counted, and logged once.
//
// covers: C41
func TestUnknownNumbers(t *testing.T) {
	const newer = 100
	tests := []struct {
		name    string
		request bool
		call    func(h abi.Host) abi.Status
		status  abi.Status
		logged  string // "" if nothing is logged
	}{
		{"log level", false, func(h abi.Host) abi.Status { h.Log(newer, b("x")); return 0 }, 0, "log 100"},
		{"negative log level", false, func(h abi.Host) abi.Status { h.Log(-1, b("x")); return 0 }, 0, "log -1"},
		{"kind of warning", true, func(h abi.Host) abi.Status { h.Warn(newer, b("x")); return 0 }, 0, "warn 100"},
		{"framing", true, func(h abi.Host) abi.Status { return h.Answer(newer, 0, nil) }, abi.StatusUnknown, ""},
		{"framing bit", true, func(h abi.Host) abi.Status { return h.Answer(16, 0, nil) }, abi.StatusUnknown, ""},
		{"dialect", true, func(h abi.Host) abi.Status { return h.Answer(0, newer, nil) }, abi.StatusUnknown, ""},
		{"encoding", false, func(h abi.Host) abi.Status { h.Text(0, 3, b("x")); return 0 }, 0, "text 3"},
		{"encoding bit", false, func(h abi.Host) abi.Status { h.Refusal(0, 16, b("x")); return 0 }, 0, "refusal 16"},
		{"negative encoding", false, func(h abi.Host) abi.Status { h.Text(0, -8, b("x")); return 0 }, 0, "text -8"},
		{"encoding of reasoning", false, func(h abi.Host) abi.Status { h.Reasoning(0, 0, 0, 7, b("x")); return 0 }, 0, "reasoning 7"},
		{"part of reasoning", false, func(h abi.Host) abi.Status { h.Reasoning(0, abi.ReasoningParts, 0, 0, b("x")); return 0 }, 0, "reasoning 5"},
		{"encoding of arguments", false, func(h abi.Host) abi.Status { return h.ToolArguments(0, 0, 3, b("x")) }, abi.StatusUnknown, "tool_arguments 3"},
		{"scope", false, func(h abi.Host) abi.Status { return h.Extra(abi.Scopes, 0, 0, b("a"), b("1")) }, abi.StatusUnknown, ""},
		{"usage", false, func(h abi.Host) abi.Status { h.Usage(abi.UsageKinds, 1); return 0 }, 0, "usage 14"},
		{"finish reason", false, func(h abi.Host) abi.Status { h.Finish(0, abi.FinishReasons, nil); return 0 }, 0, "finish 5"},
		{"done", false, func(h abi.Host) abi.Status { h.Done(2); return 0 }, 0, "done 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHost(t, plugin.Options{Log: textLog(&log)})
			p := loadNative(t, h, native{
				request: func(h abi.Host, _ []byte) int32 {
					h.RequestPath(b("/v1"))
					if tt.request {
						want(t, "status", tt.call(h), tt.status)
					}
					return 0
				},
				event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
					h.Text(0, 0, b("before"))
					if !tt.request {
						want(t, "status", tt.call(h), tt.status)
						want(t, "status", tt.call(h), tt.status)
					}
					h.Text(0, 0, b("after"))
					h.Done(abi.DoneNow)
					return 0
				},
			})
			bound := bind(t, p, plugin.BindingConfig{Paths: []string{"/v1"}})
			a := newAttempt(t, body)
			if err := bound.Request(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
				t.Fatal(err)
			}
			if got := output(a); !strings.Contains(got, "before") || !strings.Contains(got, "after") || strings.Contains(got, `"x"`) || !a.Writer.Complete() {
				t.Errorf("output %s", got)
			}
			logged := strings.Count(log.String(), `what="`+tt.logged+`"`)
			if tt.logged != "" && (logged != 1 || p.Stats().Unknown == 0) || tt.logged == "" && log.Len() > 0 {
				t.Errorf("%d counted, log:\n%s", p.Stats().Unknown, &log)
			}
		})
	}
}

// A failure of an unknown kind counts as a failure of the provider.
//
// covers: C66
func TestUnknownKindOfFailure(t *testing.T) {
	for _, kind := range []abi.FailKind{abi.FailKinds, 1000, -1} {
		p := loadNative(t, newHost(t, plugin.Options{}), native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
			h.Fail(kind, nil, nil, nil, -1)
			return 0
		}})
		err := bind(t, p, plugin.BindingConfig{}).Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil)
		var failed *apierror.Error
		if !errors.As(err, &failed) || failed.Status != 502 || failed.Code != "upstream_error" || p.Stats().Unknown != 1 {
			t.Errorf("kind %d: %v, %d counted", kind, err, p.Stats().Unknown)
		}
	}
}

// TestUnknownEncoding checks that a text in an encoding that the host does not know fails the call of a plugin that was
// written for version 1.7 or later, and is left out for older ones.
//
// covers: C88
func TestUnknownEncoding(t *testing.T) {
	for minor, fails := range map[int32]bool{0: false, 6: false, 7: true, 8: true} {
		m := newModule("text")
		m.ExportMemory(16, w.NoMax)
		m.export(abi.ExportVersion, "", i32(minor))
		m.export(abi.ExportBuffer, "i", i32(inputAt))
		m.export(abi.ExportConfigure, "ii", i32(0))
		m.provider(i32(0), i32(3), i32(inputAt), w.LocalGet(3), m.call("text"), i32(0))
		bound := bind(t, load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
		err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("x"))
		if !fails {
			if err != nil {
				t.Errorf("version 1.%d: %v", minor, err)
			}
			continue
		}
		if e := wantCallError(t, err, plugin.KindProtocol); !strings.Contains(e.Error(), "text: unknown encoding") {
			t.Errorf("version 1.%d: %v", minor, e)
		}
	}
}
