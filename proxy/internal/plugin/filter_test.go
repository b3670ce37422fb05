package plugin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// bindFilter returns a binding of a native filter that calls do for each text.
func bindFilter(t testing.TB, do func(h abi.Host, flags abi.TextFlags, text string)) *plugin.Binding {
	return bindNative(t, native{filterText: func(h abi.Host, _ abi.What, _ int32, flags abi.TextFlags, _ int32, text []byte) int32 {
		do(h, flags, string(text))
		return 0
	}}, plugin.BindingConfig{})
}

// covers: C70
func TestFilterText(t *testing.T) {
	const refused, tooLarge = abi.StatusRefused, abi.StatusTooLarge
	tests := []struct {
		name      string
		held, new string
		flags     abi.TextFlags
		do        func(h abi.Host, status func(abi.Status))
		out       string
		hold      int
		changed   bool
		statuses  []abi.Status
	}{
		{"nothing", "ab", "cd", 0, func(abi.Host, func(abi.Status)) {}, "abcd", 0, false, nil},
		{"no text", "", "", abi.TextComplete, func(abi.Host, func(abi.Status)) {}, "", 0, false, nil},
		{"a replacement", "", "a secret", 0, func(h abi.Host, s func(abi.Status)) { s(h.Replace(2, 8, b("***"))) }, "a ***", 0, true, []abi.Status{0}},
		{"a replacement across held text", "a se", "cret!", 0, func(h abi.Host, s func(abi.Status)) { s(h.Replace(2, 8, b("***"))) }, "a ***!", 0, true, []abi.Status{0}},
		{"an insertion at each end", "", "x", 0, func(h abi.Host, s func(abi.Status)) {
			s(h.Replace(0, 0, b("<")))
			s(h.Replace(1, 1, b(">")))
		}, "<x>", 0, true, []abi.Status{0, 0}},
		{"ranges that overlap, are out of order or outside", "", "abcdef", 0, func(h abi.Host, s func(abi.Status)) {
			s(h.Replace(1, 3, b("-")))
			s(h.Replace(2, 4, b("!")))
			s(h.Replace(0, 1, b("!")))
			s(h.Replace(5, 4, b("!")))
			s(h.Replace(4, 7, b("!")))
			s(h.Replace(-1, 4, b("!")))
			s(h.Replace(3, 4, nil))
		}, "a-ef", 0, true, []abi.Status{0, refused, refused, refused, refused, refused, 0}},
		{"ranges within a character, and invalid UTF-8", "", "ä", 0, func(h abi.Host, s func(abi.Status)) {
			s(h.Replace(1, 2, b("a")))
			s(h.Replace(0, 1, b("a")))
			s(h.Replace(0, 2, b("\xff")))
		}, "ä", 0, false, []abi.Status{refused, refused, refused}},
		{"a hold", "a", "bc", 0, func(h abi.Host, s func(abi.Status)) { s(h.Hold(2)) }, "a", 2, false, []abi.Status{0}},
		{"the last hold counts", "", "abc", 0, func(h abi.Host, s func(abi.Status)) { s(h.Hold(2)); s(h.Hold(1)) }, "ab", 1, false, []abi.Status{0, 0}},
		{"a hold of more than the text", "", "abc", 0, func(h abi.Host, s func(abi.Status)) { s(h.Hold(1024)) }, "", 3, false, []abi.Status{0}},
		{"a hold of more than the limit", "", "abc", 0, func(h abi.Host, s func(abi.Status)) { s(h.Hold(1025)); s(h.Hold(-1)) }, "abc", 0, false, []abi.Status{tooLarge, refused}},
		{"a hold of a part of a character", "a\u20ac", "b", 0, func(h abi.Host, s func(abi.Status)) { s(h.Hold(2)) }, "a", 4, false, []abi.Status{0}},
		{"a replacement of held text", "", "abcd", 0, func(h abi.Host, s func(abi.Status)) {
			s(h.Hold(2))
			s(h.Replace(1, 3, b("!")))
			s(h.Replace(1, 2, b("-")))
			s(h.Hold(3))
		}, "a-", 2, true, []abi.Status{0, refused, 0, refused}},
		{"the end of a text", "a", "b", abi.TextComplete, func(h abi.Host, s func(abi.Status)) { s(h.Hold(1)); s(h.Replace(1, 2, b("c"))) }, "ac", 0, true, []abi.Status{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var statuses []abi.Status
			bound := bindNative(t, native{filterText: func(h abi.Host, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32 {
				want(t, "call", fmt.Sprint(what, choice, flags, held, string(text)), fmt.Sprint(abi.WhatReasoning, 3, tt.flags, len(tt.held), tt.held+tt.new))
				tt.do(h, func(s abi.Status) { statuses = append(statuses, s) })
				return 0
			}}, plugin.BindingConfig{})
			var f plugin.Filtering
			r, err := bound.FilterText(t.Context(), &f, &plugin.Text{What: abi.WhatReasoning, Choice: 3, Flags: tt.flags, Held: b(tt.held), New: b(tt.new)})
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Out) != tt.out || r.Held != tt.hold || r.Changed != tt.changed || !slices.Equal(statuses, tt.statuses) {
				t.Errorf("%q, held %d, changed %v, statuses %v; want %q, %d, %v, %v", r.Out, r.Held, r.Changed, statuses, tt.out, tt.hold, tt.changed, tt.statuses)
			}
		})
	}
}

// TestFilterTextIsCutAnywhere checks that the text passed on and the held text together are the input.
//
// covers: C70
func TestFilterTextIsCutAnywhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\u00e4\u20ac\U0001f600"))).Draw(rt, "text")
		hold := rapid.Int32Range(0, 20).Draw(rt, "hold")
		at := rapid.IntRange(0, len([]rune(text))).Draw(rt, "cut")
		held, rest := string([]rune(text)[:at]), string([]rune(text)[at:])
		r, err := bindFilter(t, func(h abi.Host, _ abi.TextFlags, _ string) { h.Hold(hold) }).FilterText(t.Context(), new(plugin.Filtering), &plugin.Text{Held: b(held), New: b(rest)})
		if err != nil || string(r.Out)+text[len(text)-r.Held:] != text || r.Held < min(int(hold), len(text)) || r.Held > int(hold)+3 {
			rt.Fatalf("%q and %d bytes of %q: %v", r.Out, r.Held, text, err)
		}
	})
}

// covers: C71
func TestFilterTags(t *testing.T) {
	var statuses []abi.Status
	tag := func(h abi.Host, name string) { statuses = append(statuses, h.Tag(b(name))) }
	bound := bindNative(t, native{
		filterRequest: func(h abi.Host, input []byte) int32 {
			want(t, "input", string(input), `{"summary":{}}`)
			tag(h, "pii")
			tag(h, "other")
			return 0
		},
		filterText: func(h abi.Host, _ abi.What, _ int32, _ abi.TextFlags, _ int32, text []byte) int32 {
			tag(h, "code")
			if string(text) == "bad" {
				return 1
			}
			return 0
		},
	}, plugin.BindingConfig{})
	f := plugin.Filtering{Tenant: "alice", Tags: []string{"code", "pii"}}
	if err := bound.FilterRequest(t.Context(), &f, b(`{"summary":{}}`)); err != nil || f.Set != 2 {
		t.Fatalf("tags %b, %v", f.Set, err)
	}
	// The tags of a failed call are dropped.
	if _, err := bound.FilterText(t.Context(), &f, &plugin.Text{Flags: abi.TextOfRequest, New: b("bad")}); err == nil || f.Set != 2 {
		t.Errorf("tags %b, %v", f.Set, err)
	}
	if _, err := bound.FilterText(t.Context(), &f, &plugin.Text{Flags: abi.TextOfRequest, New: b("good")}); err != nil || f.Set != 3 {
		t.Errorf("tags %b, %v", f.Set, err)
	}
	if !slices.Equal(statuses, []abi.Status{0, abi.StatusRefused, 0, 0}) {
		t.Errorf("statuses %v", statuses)
	}
	_, err := bound.FilterText(t.Context(), &f, &plugin.Text{New: b("of a response")})
	if e := wantCallError(t, err, plugin.KindProtocol); e.FilterError().Code != "filter_failed" || e.FilterError().TryNext {
		t.Errorf("%+v", e.FilterError())
	}
}

// covers: C72
func TestFilterRefuses(t *testing.T) {
	bound := bindFilter(t, func(h abi.Host, _ abi.TextFlags, _ string) {
		h.Fail(abi.FailContentPolicy, nil, nil, b("not here"), -1)
	})
	var f plugin.Filtering
	r, err := bound.FilterText(t.Context(), &f, &plugin.Text{New: b("x")})
	var e *apierror.Error
	if !errors.As(err, &e) || e.Status != 400 || e.Message != "not here" || len(r.Out) > 0 {
		t.Errorf("%q, %v", r.Out, err)
	}
	// A filter without the export is not called for requests.
	if err := bound.FilterRequest(t.Context(), &f, b("{}")); err != nil {
		t.Error(err)
	}
}

// TestFilterDeclaresWhatItReads asks filters whether they read the description of a request.
func TestFilterDeclaresWhatItReads(t *testing.T) {
	called := func(h abi.Host, input []byte) int32 { return 0 }
	for name, c := range map[string]struct {
		guest native
		want  bool
	}{
		"no export":      {native{}, false},
		"no declaration": {native{filterRequest: called}, true},
		"declared":       {native{filterRequest: called, filterParts: new(abi.FilterRequest)}, true},
		"not declared":   {native{filterRequest: called, filterParts: new(abi.FilterParts)}, false},
		"unknown parts":  {native{filterRequest: called, filterParts: new(abi.FilterParts(2))}, false},
	} {
		c.guest.filterText = func(abi.Host, abi.What, int32, abi.TextFlags, int32, []byte) int32 { return 0 }
		if got := bindNative(t, c.guest, plugin.BindingConfig{}).ReadsRequest(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// covers: C39
func TestFilterPhases(t *testing.T) {
	for name, do := range map[string]func(h abi.Host){
		"text":      func(h abi.Host) { h.Text(0, 0, b("x")) },
		"candidate": func(h abi.Host) { h.Candidate(0) },
		"response":  func(h abi.Host) { h.StateSet(b("x")) },
		"too much":  func(h abi.Host) { h.Replace(0, 0, []byte(strings.Repeat("x", 70_000))) },
		"many pieces": func(h abi.Host) {
			for range 3000 {
				h.Replace(0, 0, nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bound := bindFilter(t, func(h abi.Host, _ abi.TextFlags, _ string) { do(h) })
			_, err := bound.FilterText(t.Context(), new(plugin.Filtering), &plugin.Text{New: b("x")})
			wantAnyCallError(t, err)
		})
	}
	bound := bindNative(t, native{
		filterRequest: func(h abi.Host, _ []byte) int32 { h.Hold(1); return 0 },
		filterText:    func(abi.Host, abi.What, int32, abi.TextFlags, int32, []byte) int32 { return 0 },
	}, plugin.BindingConfig{})
	wantCallError(t, bound.FilterRequest(t.Context(), new(plugin.Filtering), b("{}")), plugin.KindProtocol)
}

// filterModule returns a filter in WebAssembly with the given filter_text. Its parameters 0 to 5 are the binding, what,
// choice, flags, held and length; locals 6 and 7 are free.
func filterModule(imports []string, text func(m *module) []w.Op) *module {
	m := newModule(imports...).base()
	m.ExportFunc(abi.ExportFilterText, types("iiiiii"), types("i"), types("ii"), text(m)...)
	return m
}

// starModule returns a filter that replaces the first byte of each text with a star and holds the last byte.
func starModule() *module {
	return filterModule([]string{"replace", "hold"}, func(m *module) []w.Op {
		return []w.Op{
			m.data("*"),
			i32(0), i32(1), i32(keepAt), i32(1), m.call("replace"), w.Drop,
			i32(1), m.call("hold"), w.Drop, i32(0),
		}
	})
}

// data writes the first byte of s at keepAt.
func (m *module) data(s string) w.Op { return w.Code(i32(keepAt), i32(int32(s[0])), w.I32Store8) }

func TestFilterInWasm(t *testing.T) {
	h := newHost(t, plugin.Options{})
	bound := bind(t, load(t, h, plugin.Spec{Wasm: starModule().Bytes()}), plugin.BindingConfig{})
	if p := bound.Plugin(); !p.Filter() || p.Provider() || p.Router() || p.Kind() != "a filter" {
		t.Errorf("loaded as %s", p.Kind())
	}
	var f plugin.Filtering
	r, err := bound.FilterText(t.Context(), &f, &plugin.Text{Held: b("ab"), New: b("cd")})
	if err != nil || string(r.Out) != "*bc" || r.Held != 1 || f.Fuel == 0 {
		t.Errorf("%q, held %d, fuel %d, %v", r.Out, r.Held, f.Fuel, err)
	}
}

// TestFilterCircuit checks that an open circuit rejects new requests of the key, but not other keys or a stream in
// progress.
func TestFilterCircuit(t *testing.T) {
	c := &clock{now: unixMilli(0)}
	bound := bind(t, loadNative(t, newHost(t, plugin.Options{Now: c.Now}), native{filterText: func(_ abi.Host, _ abi.What, _ int32, _ abi.TextFlags, _ int32, text []byte) int32 {
		if string(text) == "trap" {
			panic("asked to")
		}
		return 0
	}}), plugin.BindingConfig{})
	text := func(f *plugin.Filtering, s string) error {
		_, err := bound.FilterText(t.Context(), f, &plugin.Text{New: b(s)})
		return err
	}
	bob, stream := plugin.Filtering{Tenant: "bob"}, plugin.Filtering{Tenant: "alice"}
	if err := text(&stream, "x"); err != nil {
		t.Fatal(err)
	}
	open := false
	for range 50 {
		c.add(time.Second / 2)
		err := text(&plugin.Filtering{Tenant: "alice"}, "trap")
		var e *plugin.CallError
		if open = errors.As(err, &e) && e.Kind == plugin.KindOpen; open {
			break
		}
	}
	if !open {
		t.Error("the circuit of a filter that always traps did not open")
	}
	if err := text(&bob, "x"); err != nil {
		t.Errorf("another key: %v", err)
	}
	if err := text(&stream, "x"); err != nil {
		t.Errorf("a stream in progress: %v", err)
	}
}

// BenchmarkFilter measures passing a piece of text to a filter that does nothing, and to one that replaces and holds
// text.
func BenchmarkFilter(b *testing.B) {
	h := newHost(b, plugin.Options{})
	for name, m := range map[string]*module{
		"pass": filterModule(nil, func(*module) []w.Op { return []w.Op{i32(0)} }),
		"star": starModule(),
	} {
		b.Run(name, func(b *testing.B) {
			bound := bind(b, load(b, h, plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
			var f plugin.Filtering
			piece := plugin.Text{Held: []byte("s"), New: []byte("ome words of an answer")}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bound.FilterText(b.Context(), &f, &piece); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
