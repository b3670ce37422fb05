package plugin_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// lookUp looks up a path in the input with each of the three imports. A negative status is returned as text.
func lookUp(h abi.Host, path string) (get string, count int32, text string) {
	read := func(f func(path, dst []byte) int32) string {
		n := f(b(path), nil)
		if n < 0 {
			return strconv.Itoa(int(n))
		}
		dst := make([]byte, n)
		if again := f(b(path), dst); again != n {
			return "length " + strconv.Itoa(int(again))
		}
		return string(dst)
	}
	return read(h.InputGet), h.InputCount(b(path)), read(h.InputText)
}

// covers: C44
func TestInputByPath(t *testing.T) {
	const data = `{"a":"x\"\u00e4\ud83d\ude00","n":-1.50e3,"list":[ {"id":1}, "two" ],"numbers":[ 1, 2.5 ,-3],"deep":[[1,2],[3]],"empty":[],"none":{},
		"twice":1,"twice":2,"~/":null,"lone":"\ud800","":true,"plain":"grün"}`
	type want struct {
		path  string
		get   string
		count int32
		text  string
	}
	cases := []want{
		{"", data, 12 + 1, "-2"},
		{"/a", `"x\"\u00e4\ud83d\ude00"`, -2, `x"ä😀`},
		{"/plain", `"grün"`, -2, "grün"},
		{"/n", "-1.50e3", -2, "-2"},
		{"/list", `[ {"id":1}, "two" ]`, 2, "-2"},
		{"/list/0/id", "1", -2, "-2"},
		{"/list/1", `"two"`, -2, "two"},
		{"/list/2", "-1", -1, "-1"},
		{"/list/01", "-1", -1, "-1"},
		{"/numbers", "[ 1, 2.5 ,-3]", 3, "-2"},
		{"/numbers/0", "1", -2, "-2"},
		{"/numbers/1", "2.5", -2, "-2"},
		{"/numbers/2", "-3", -2, "-2"},
		{"/numbers/3", "-1", -1, "-1"},
		{"/numbers/-", "-1", -1, "-1"},
		{"/deep/0/1", "2", -2, "-2"},
		{"/deep", "[[1,2],[3]]", 2, "-2"},
		{"/empty", "[]", 0, "-2"},
		{"/empty/0", "-1", -1, "-1"},
		{"/none", "{}", 0, "-2"},
		{"/twice", "1", -2, "-2"},
		{"/~0~1", "null", -2, "-2"},
		{"/lone", `"\ud800"`, -2, "\uFFFD"},
		{"/", "true", -2, "-2"},
		{"a", "-1", -1, "-1"},
		{"/a/b", "-1", -1, "-1"},
		{"/missing", "-1", -1, "-1"},
	}
	bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
		for _, c := range cases {
			get, count, text := lookUp(h, c.path)
			if got := (want{c.path, get, count, text}); got != c {
				t.Errorf("%q: got %+v, want %+v", c.path, got, c)
			}
		}
		short := make([]byte, 3)
		if n := h.InputText(b("/plain"), short); n != 5 || string(short) != "gr\xc3" {
			t.Errorf("a short buffer: %d, %q", n, short)
		}
		return 0
	}}, plugin.BindingConfig{})
	if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, b("name"), b(data)); err != nil {
		t.Fatal(err)
	}
}

// The imports read the input of the running call, whichever export it is.
//
// covers: C44
func TestInputOfEachCall(t *testing.T) {
	check := func(h abi.Host, path, want string) int32 {
		if got, _, _ := lookUp(h, path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
		return 0
	}
	bound := bindNative(t, native{
		configure: func(h abi.Host, _ []byte) int32 { return check(h, "/setting", "3") },
		request: func(h abi.Host, _ []byte) int32 {
			check(h, "/target", `"up"`)
			check(h, "/options/a", "[1]")
			h.RequestPath(b("/v1"))
			return 0
		},
		response: func(h abi.Host, _ int32, _ []byte) int32 { return check(h, "/r", "1") },
		event:    func(h abi.Host, _ abi.EventKind, _, data []byte) int32 { return check(h, "", string(data)) },
		end:      func(h abi.Host) int32 { return check(h, "", "-2") },
		list:     func(h abi.Host, _ []byte) int32 { return check(h, "/page", "2") },
		models:   func(h abi.Host, _ int32, _ []byte) int32 { return check(h, "/0", `"m"`) },
	}, plugin.BindingConfig{Settings: b(`{"setting":3}`), Paths: []string{"/v1"}})
	a := newAttempt(t, body)
	a.Summary.Target, a.Summary.Options = "up", b(`{"a":[1]}`)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`{"e":1}`, `[2]`, "\"cut \xe4\""} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := bound.Response(t.Context(), a, 200, b(`{"r":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := bound.End(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := bound.List(t.Context(), b(`{"page":2}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Models(t.Context(), 200, nil, b(`["m"]`)); err != nil {
		t.Fatal(err)
	}
	router := bindNative(t, native{choose: func(h abi.Host, _ []byte) int32 { return check(h, "/targets/1/index", "1") }}, plugin.BindingConfig{})
	if _, _, err := router.Choose(t.Context(), b(`{"targets":[{"index":0},{"index":1}]}`), 2); err != nil {
		t.Fatal(err)
	}
}

// covers: C45
func TestInputThatIsNotJSON(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "torn": `{"a":`, "text": "hello", "two documents": `{} {}`, "too deep": strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
			for _, path := range []string{"", "/a"} {
				if get, count, text := lookUp(h, path); get != "-2" || count != -2 || text != "-2" {
					t.Errorf("%s, %q: %s, %d, %s", name, path, get, count, text)
				}
			}
			return 0
		}}, plugin.BindingConfig{})
		if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b(data)); err != nil {
			t.Fatal(err)
		}
	}
}

// A module can read its input and write its body without a JSON parser of its own.
func TestInputAndStringsInModule(t *testing.T) {
	m := newModule("host_minor", "input_text", "request_string", "request_path").base()
	m.Data(keepAt, b("/v1/model"))
	m.export(abi.ExportRequest, "ii",
		i32(keepAt), i32(3), m.call("request_path"), w.Drop,
		i32(keepAt+3), i32(6), i32(keepAt+100), i32(100), m.call("input_text"), w.LocalSet(2),
		i32(keepAt+100), w.LocalGet(2), m.call("request_string"), w.Drop,
		m.call("host_minor"), i32(abi.Minor), w.I32Sub)
	m.export(abi.ExportEvent, "iiii", i32(0))
	bound := bind(t, load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{Paths: []string{"/v1"}})
	a := newAttempt(t, body)
	a.Summary.Model = "a \"quoted\"\nmodel"
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got, want := string(a.Out.Body), `"a \"quoted\"\nmodel"`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
}

// covers: C50
func TestRequestString(t *testing.T) {
	var status abi.Status
	for name, c := range map[string]struct {
		text, body string
		status     abi.Status
	}{
		"plain":     {"hello", `["hello"]`, abi.StatusOK},
		"empty":     {"", `[""]`, abi.StatusOK},
		"escapes":   {"a\"b\\c\n\x01é", `["a\"b\\c\n\u0001é"]`, abi.StatusOK},
		"not UTF-8": {"a\xff", `[]`, abi.StatusRefused},
		"cut":       {"a\xc3", `[]`, abi.StatusRefused},
	} {
		bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
			h.RequestPath(b("/v1"))
			h.RequestWrite(b("["))
			status = h.RequestString(b(c.text))
			h.RequestWrite(b("]"))
			return 0
		}}, plugin.BindingConfig{Paths: []string{"/v1"}})
		a := newAttempt(t, body)
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if status != c.status || string(a.Out.Body) != c.body {
			t.Errorf("%s: status %d, body %s; want %d, %s", name, status, a.Out.Body, c.status, c.body)
		}
	}
}

// FuzzInput compares look-ups in an input with look-ups in a document whose arrays of numbers are indexed.
//
// covers: C45
func FuzzInput(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,{"b":"c\u00e4"}],"n":[1, 2 ,3]}`, `[[1],[],"x"]`, `"text"`, `{`, ``} {
		for _, path := range []string{"", "/a", "/a/2/b", "/n/1", "/0/0", "/0/-"} {
			f.Add([]byte(s), path)
		}
	}
	h := newFixedClockHost(f)
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		var get, text string
		var count int32
		g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
			return &native{host: host, event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
				get, count, text = lookUp(h, path)
				return 0
			}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if err := bind(t, g.Plugin("native"), plugin.BindingConfig{}).Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, data); err != nil {
			t.Fatal(err)
		}
		var d jsondoc.Doc
		if d.Parse(data, jsondoc.Limits{Loose: true}) != nil {
			if get != "-2" || count != -2 || text != "-2" {
				t.Fatalf("%q is not JSON: %s, %d, %s", data, get, count, text)
			}
			return
		}
		v := d.Pointer([]byte(path))
		wantGet, wantCount, wantText := "-1", int32(-1), "-1"
		if v.Exists() {
			wantGet, wantCount, wantText = string(v.Raw()), -2, "-2"
			if v.Kind() >= jsondoc.Object {
				wantCount = int32(v.Len())
			}
			if v.Kind() == jsondoc.String {
				wantText = string(bytes.ToValidUTF8(v.AppendText(nil), []byte("\uFFFD")))
			}
		}
		if get != wantGet || count != wantCount || text != wantText || !utf8.ValidString(text) {
			t.Fatalf("%q in %q: %s, %d, %q; want %s, %d, %q", path, data, get, count, text, wantGet, wantCount, wantText)
		}
	})
}

// covers: C50
func FuzzRequestString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\x00\x7f", "é😀", "\xff", "\u2028"} {
		f.Add(s)
	}
	h := newFixedClockHost(f)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
			return &native{host: host, request: func(h abi.Host, _ []byte) int32 {
				h.RequestPath(b("/v1"))
				if s := h.RequestString(b(text)); (s == abi.StatusOK) != utf8.ValidString(text) {
					t.Errorf("status %d", s)
				}
				return 0
			}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		a := newAttempt(t, body)
		if err := bind(t, g.Plugin("native"), plugin.BindingConfig{Paths: []string{"/v1"}}).Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		var got string
		if utf8.ValidString(text) && (json.Unmarshal(a.Out.Body, &got) != nil || got != text) {
			t.Fatalf("%q is written as %s", text, a.Out.Body)
		}
	})
}
