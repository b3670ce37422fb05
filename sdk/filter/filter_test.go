package filter_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/filter"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/native"
)

// probe is a filter that does what its text says.
type probe struct{ name string }

func init() {
	filter.RegisterAs[probe]("probe")
	filter.RegisterAs[quiet]("quiet")
}

func (p *probe) Configure(options json.Value) error {
	p.name = string(options.Get("name").Text())
	switch p.name {
	case "":
		return errors.New("name missing")
	case "refused":
		return sdk.Refuse("name", "No such name.")
	}
	return nil
}

func (p *probe) Request(r *filter.Request) error {
	if !r.Tag(string(r.Key)) {
		return sdk.Fail(abi.FailDenied, "no tag "+string(r.Key)+" for "+string(r.Model))
	}
	return nil
}

func (p *probe) Text(t *filter.Text) error {
	switch text := string(t.Bytes()); text {
	case "replace":
		t.Replace(0, 2, p.name)
		t.Hold(3)
	case "tag":
		t.Tag("a")
	case "refuse":
		return sdk.Fail(abi.FailContentPolicy, "No.")
	case "fail":
		return errors.New("failed")
	case "back":
		t.Replace(3, 2, "")
	case "large":
		t.Hold(abi.MaxHold + 1)
	case "describe":
		t.Replace(0, 0, fmt.Sprint(t.What, t.Choice, t.Held, t.OfRequest(), t.Complete()))
	}
	return nil
}

// quiet implements none of the optional interfaces, and has no state.
type quiet struct{}

func (*quiet) Text(*filter.Text) error { return nil }

// fakeHost records the calls of imports.
type fakeHost struct {
	abi.Host
	calls []string
}

func (h *fakeHost) record(format string, args ...any) {
	h.calls = append(h.calls, fmt.Sprintf(format, args...))
}

func (h *fakeHost) Log(_ abi.LogLevel, message []byte) { h.record("log %s", message) }

func (h *fakeHost) Fail(kind abi.FailKind, _, _, message []byte, _ int32) {
	h.record("fail %d %s", kind, message)
}

func (h *fakeHost) Tag(name []byte) abi.Status {
	h.record("tag %s", name)
	if string(name) == "unknown" {
		return abi.StatusRefused
	}
	return abi.StatusOK
}

func (h *fakeHost) Replace(from, to int32, text []byte) abi.Status {
	if to < from {
		return abi.StatusRefused
	}
	h.record("replace %d %d %s", from, to, text)
	return abi.StatusOK
}

func (h *fakeHost) Hold(n int32) abi.Status {
	if n > abi.MaxHold {
		return abi.StatusTooLarge
	}
	h.record("hold %d", n)
	return abi.StatusOK
}

func TestCalls(t *testing.T) {
	h := new(fakeHost)
	p := native.New("probe", h)
	if !p.Has(abi.ExportFilterText) || p.Has(abi.ExportRequest) || p.Has(abi.ExportChoose) {
		t.Fatal("the plugin has exports of another kind")
	}
	expect := func(what string, status, want int32, calls ...string) {
		t.Helper()
		if status != want || !slices.Equal(h.calls, calls) {
			t.Errorf("%s: status %d, calls %q; want %d, %q", what, status, h.calls, want, calls)
		}
		h.calls = nil
	}
	text := func(binding int32, s string) int32 { return p.FilterText(binding, abi.WhatText, 0, 0, 0, []byte(s)) }

	expect("before it is configured", text(0, "replace"), 1)
	expect("request before it is configured", p.FilterRequest(0, []byte(`{}`)), 1)
	expect("invalid options", p.Configure(0, []byte(`{}`)), 1, "log name missing")
	expect("refused options", p.Configure(0, []byte(`{"name":"refused"}`)), 1, "log name: No such name.")
	expect("an impossible binding", p.Configure(-1, []byte(`{"name":"x"}`)), 1)
	expect("configure", p.Configure(1, []byte(`{"name":"x"}`)), 0)
	expect("another binding", text(0, "replace"), 1)

	expect("replace and hold", text(1, "replace"), 0, "replace 0 2 x", "hold 3")
	expect("tag", text(1, "tag"), 0, "tag a")
	expect("nothing", text(1, ""), 0)
	expect("refuse", text(1, "refuse"), 0, "fail 3 No.")
	expect("fail", text(1, "fail"), 1, "log failed")
	expect("a range that ends before it begins", text(1, "back"), 1, "log the gateway rejected replace")
	expect("more held than the limit", text(1, "large"), 1, "log the gateway rejected hold")
	expect("description of a text", p.FilterText(1, abi.WhatUser, 2, abi.TextOfRequest|abi.TextComplete, 3, []byte("describe")), 0, "replace 0 0 9 2 3 true true")

	expect("request", p.FilterRequest(1, []byte(`{"summary":{"model":"m","key":"team-a"},"new":1}`)), 0, "tag team-a")
	expect("a tag that is not listed", p.FilterRequest(1, []byte(`{"summary":{"model":"m","key":"unknown"}}`)), 0, "tag unknown", "fail 18 no tag unknown for m")

	q := native.New("quiet", h)
	expect("quiet", q.Configure(0, nil), 0)
	expect("a filter without Request", q.FilterRequest(0, []byte(`{"summary":{}}`)), 0)
	expect("a text", q.FilterText(0, abi.WhatText, 0, 0, 0, []byte("x")), 0)
}

func TestCallsDoNotAllocate(t *testing.T) {
	q := native.New("quiet", new(fakeHost))
	q.Configure(0, nil)
	text := []byte("some text")
	if n := testing.AllocsPerRun(100, func() { q.FilterText(0, abi.WhatText, 0, 0, 0, text) }); n > 0 {
		t.Errorf("%v allocations per call", n)
	}
}
