package plugintest_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// userSays returns a vector with one user message.
func userSays(text string) *plugintest.Vector {
	return &plugintest.Vector{
		Target: "m", Status: 200,
		Request: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, text),
	}
}

// TestFormsDetectStatefulPlugin covers what Suite.Test relies on: an instance that has served other requests reveals a
// stateful plugin, and a fresh one does not.
func TestFormsDetectStatefulPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a guest in Go")
	}
	suite := plugintest.Suite{Package: "proxy/plugintest/testdata/leaky"}
	for form, want := range map[plugintest.Form]string{
		plugintest.Fresh:  `"content":"."`,
		plugintest.Module: `"content":"I heard a secret."`,
	} {
		b := suite.Bind(t, form)
		userSays("a secret").Run(b, false)
		if got := userSays("hello").Run(b, false).Response; !strings.Contains(got, want) {
			t.Errorf("%v: got response %s, want %s", form, got, want)
		}
	}
}

// TestPluginsOfModule checks that the plugins of a module do not share state.
func TestPluginsOfModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module of several plugins")
	}
	suite := func(name string) plugintest.Suite {
		return plugintest.Suite{Package: "proxy/plugintest/testdata/pair", Plugin: name}
	}
	left, right := suite("left").Bind(t, plugintest.Module), suite("right").Bind(t, plugintest.Module)
	for _, c := range []struct {
		b             *plugintest.Binding
		prompt, reply string
	}{{left, "one", "left heard one"}, {right, "two", "right heard two"}, {left, "three", "left heard one"}} {
		if got := userSays(c.prompt).Run(c.b, false).Response; !strings.Contains(got, `"content":"`+c.reply+`"`) {
			t.Errorf("prompt %q: got %s, want %q", c.prompt, got, c.reply)
		}
	}
	leftPlugin, middle := suite("left").Load(t, plugintest.Module), suite("middle").Load(t, plugintest.Module)
	if leftPlugin.Router() || !leftPlugin.Provider() || middle.Provider() || !middle.Router() {
		t.Error("left is not only a provider, or middle not only a router")
	}
	order, _, err := suite("middle").Bind(t, plugintest.Module).Choose([]byte(`{"targets":[{},{},{}]}`), 3)
	if err != nil || len(order) != 1 || order[0] != 2 {
		t.Errorf("router: got %v, %v, want [2]", order, err)
	}
	s := &fatalRecorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(s) {
				panic(v)
			}
		}()
		suite("up").Load(s, plugintest.Module)
	}()
	if want := "plugin up: start: failed: the module has no plugin of that name: \"the module contains left, middle, right\""; !strings.Contains(s.message, want) {
		t.Errorf("loading a missing plugin failed with %q, want %q", s.message, want)
	}
}

// TestMinimalPlugin runs the plugin printed in the ABI's README.md.
func TestMinimalPlugin(t *testing.T) {
	source, err := os.ReadFile("../../sdk/abi/testdata/smallest.wat")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../sdk/abi/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, append([]byte("```wat\n"), source...)) {
		t.Error("the source in README.md differs from testdata/smallest.wat")
	}
	wasm, err := os.ReadFile("../../sdk/abi/testdata/smallest.wasm")
	if err != nil {
		t.Fatal(err)
	}
	b := plugintest.Suite{Wasm: wasm}.Bind(t, plugintest.Module)
	if got := userSays("hi").Run(b, false).Response; !strings.Contains(got, `"content":"Hello from a plugin."`) {
		t.Errorf("got response %s", got)
	}
	stream := userSays("hi").Run(b, true).Response
	if !strings.Contains(stream, `"delta":{"content":"Hello from a plugin."}`) || !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Errorf("got stream %s", stream)
	}
}

func TestBuildRunsOnce(t *testing.T) {
	first := plugintest.Build(t, "proxy/plugintest/testdata/leaky")
	again := plugintest.Build(t, "./proxy/plugintest/testdata/leaky")
	if len(first) == 0 || &first[0] != &again[0] {
		t.Error("the second Build did not return the module of the first")
	}
	if !bytes.HasPrefix(first, []byte("\x00asm")) {
		t.Error("Build did not return a WebAssembly module")
	}
}

// fatalRecorder is a testing.TB that records the message of Fatalf.
type fatalRecorder struct {
	testing.TB
	message string
}

func (r *fatalRecorder) Helper() {}

func (r *fatalRecorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	panic(r)
}

func TestFatalErrors(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(tb testing.TB)
		want string
	}{
		"a folder without a program": {func(tb testing.TB) { plugintest.Build(tb, "proxy/plugintest/testdata") }, "no Go files in"},
		"no such folder":             {func(tb testing.TB) { plugintest.Build(tb, "nowhere") }, "nowhere"},
		"no vectors": {func(tb testing.TB) {
			if v, err := plugintest.Load("testdata/leaky"); len(v) != 0 || err != nil {
				tb.Fatalf("%v, %v", v, err)
			}
			if _, err := plugintest.Load("testdata/nowhere"); err != nil {
				tb.Fatalf("%v", err)
			}
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fatalRecorder{TB: t}
			func() {
				defer func() {
					if v := recover(); v != nil && v != any(s) {
						panic(v)
					}
				}()
				test.do(s)
			}()
			if !strings.Contains(s.message, test.want) {
				t.Errorf("got message %q, want one containing %q", s.message, test.want)
			}
		})
	}
}

func TestRejectsInvalidVectors(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two responses":              {map[string]string{"answer.sse": "", "answer.json": "{}"}, "two answers"},
		"unknown member":             {map[string]string{"vector.json": `{"targt":"x"}`}, "targt"},
		"field that is not a member": {map[string]string{"vector.json": `{"Request":"x"}`}, "Request"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.files["request.json"] = "{}"
			for file, text := range test.files {
				if err := os.WriteFile(dir+"/"+file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := plugintest.Load(dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one containing %q", err, test.want)
			}
		})
	}
}

func TestRejectsUnknownForm(t *testing.T) {
	b := plugintest.Suite{Package: "proxy/plugintest/testdata/leaky"}.Bind(t, plugintest.Module)
	v := userSays("hello")
	v.Form = "telepathy"
	if got := v.Run(b, false); got.Request != "" || !strings.Contains(got.Response, "unknown form telepathy") {
		t.Errorf("%+v", got)
	}
}
