package plugin_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: C68
func TestChoose(t *testing.T) {
	tests := []struct {
		name   string
		choose func(h abi.Host)
		order  []int
		why    string
		kind   plugin.CallErrorKind // 0 for no error
	}{
		{"an order", func(h abi.Host) {
			h.Candidate(2)
			h.Candidate(0)
			h.Explain(b("first"))
			h.Explain(b("weights, sk-secret"))
		}, []int{2, 0}, "weights, ***", 0},
		{"no preference", func(abi.Host) {}, nil, "", 0},
		{"a long explanation", func(h abi.Host) { h.Explain([]byte(strings.Repeat("\u00e4", 200))) }, nil, strings.Repeat("\u00e4", 128), 0},
		{"out of range", func(h abi.Host) { h.Candidate(3) }, nil, "", plugin.KindProtocol},
		{"negative", func(h abi.Host) { h.Candidate(-1) }, nil, "", plugin.KindProtocol},
		{"twice", func(h abi.Host) { h.Candidate(1); h.Candidate(1) }, nil, "", plugin.KindProtocol},
		{"import of another phase", func(h abi.Host) { h.Text(0, 0, nil) }, nil, "", plugin.KindProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bound := bindNative(t, native{choose: func(h abi.Host, in []byte) int32 {
				want(t, "input", string(in), "{}")
				tt.choose(h)
				return 0
			}}, plugin.BindingConfig{Redact: redact})
			order, why, err := bound.Choose(t.Context(), b("{}"), 3)
			if tt.kind != 0 {
				wantCallError(t, err, tt.kind)
			} else if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(order, tt.order) || why != tt.why {
				t.Errorf("order %v with explanation %q, want %v with %q", order, why, tt.order, tt.why)
			}
		})
	}
}

// covers: C69
func TestRouterErrors(t *testing.T) {
	bound := bindNative(t, native{choose: func(h abi.Host, _ []byte) int32 {
		h.Candidate(0)
		h.Fail(abi.FailDenied, nil, nil, b("not at night"), -1)
		return 0
	}}, plugin.BindingConfig{})
	order, _, err := bound.ChooseFor(t.Context(), "alice", b("{}"), 1)
	var e *apierror.Error
	if !errors.As(err, &e) || e.Status != 403 || e.Message != "not at night" || order != nil {
		t.Errorf("order %v, error %v", order, err)
	}
}

// covers: C67
func TestModelList(t *testing.T) {
	bound := bindNative(t, native{
		list: func(h abi.Host, cursor []byte) int32 {
			switch string(cursor) {
			case "none":
			case "bad":
				h.RequestPath(b("/v2/models"))
			default:
				h.RequestPath(append(b("/v1/models?after="), cursor...))
				h.RequestHeader(b("x-version"), b("1"))
			}
			return 0
		},
		models: func(h abi.Host, status int32, in []byte) int32 {
			if status >= 300 {
				h.Fail(abi.FailAuth, nil, nil, nil, -1)
				return 0
			}
			h.Model(b(`{ "id" : "a" }`))
			h.Model(in)
			h.More(b("next"))
			return 0
		},
	}, plugin.BindingConfig{Paths: []string{"/v1/models"}, Headers: []string{"x-version"}})

	out, err := bound.List(t.Context(), b("c1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plugin.OutRequest{Path: "/v1/models?after=c1", Headers: []plugin.Header{{Name: "x-version", Value: "1"}}}, out); diff != "" {
		t.Error(diff)
	}
	if out, err := bound.List(t.Context(), b("none")); err != nil || out.Path != "" {
		t.Errorf("no list: %+v, %v", out, err)
	}
	_, err = bound.List(t.Context(), b("bad"))
	wantCallError(t, err, plugin.KindProtocol)

	page, err := bound.Models(t.Context(), 200, nil, b(`{"id":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plugin.Page{Models: [][]byte{b(`{"id":"a"}`), b(`{"id":"b"}`)}, Next: "next"}, page); diff != "" {
		t.Error(diff)
	}
	_, err = bound.Models(t.Context(), 401, nil, nil)
	var e *apierror.Error
	if !errors.As(err, &e) || e.Code != "upstream_auth_failed" {
		t.Errorf("error %v, want upstream_auth_failed", err)
	}
	for _, bad := range []string{`[]`, `{"id":"a"`, `{"id":1,"id":2}`, ``, "\xff"} {
		_, err = bound.Models(t.Context(), 200, nil, b(bad))
		e := wantCallError(t, err, plugin.KindProtocol)
		if !strings.Contains(e.Error(), "model: not a JSON object") {
			t.Errorf("%q: %v", bad, e)
		}
	}
}

// covers: C31
func TestRouterReads(t *testing.T) {
	choose := func(abi.Host, []byte) int32 { return 0 }
	for _, parts := range []int32{0, 1, 7, 8} {
		bound := bindNative(t, native{choose: choose, reads: func() int32 { return parts }}, plugin.BindingConfig{})
		if got, ok := bound.Reads(); got != abi.RouterParts(parts) || !ok {
			t.Errorf("declared %d, got %d, %t", parts, got, ok)
		}
	}
	if got, ok := bindNative(t, native{choose: choose}, plugin.BindingConfig{}).Reads(); got != 0 || ok {
		t.Errorf("without the export, got %d, %t", got, ok)
	}
	m := newModule("candidate").base()
	m.export(abi.ExportReads, "i", i32(-1))
	m.export(abi.ExportChoose, "ii", i32(0))
	_, err := load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()}).Bind(t.Context(), plugin.BindingConfig{Name: "router"})
	if err == nil || !strings.Contains(err.Error(), "returned -1, not a valid set of parts") {
		t.Errorf("a negative result: %v", err)
	}
}

// TestInputOfCompactRouter checks that input_text reads the document at the end of the compact input.
//
// covers: C82
func TestInputOfCompactRouter(t *testing.T) {
	const document = `{"summary":{"key":"ci"}}`
	input := make([]byte, abi.RouterHeadSize+9)
	input[0], input[20] = abi.RouterHeadSize, byte(len(document))
	for _, test := range []struct {
		input []byte
		want  int32
	}{{append(input, document...), 2}, {input, int32(abi.StatusRefused)}, {input[:abi.RouterHeadSize], int32(abi.StatusRefused)}} {
		var got int32
		bound := bindNative(t, native{choose: func(h abi.Host, _ []byte) int32 {
			got = h.InputText([]byte("/summary/key"), make([]byte, 2))
			return 0
		}}, plugin.BindingConfig{})
		if _, _, err := bound.Choose(t.Context(), test.input, 0); err != nil || got != test.want {
			t.Errorf("input of %d bytes: %d, %v, want %d", len(test.input), got, err, test.want)
		}
	}
}
