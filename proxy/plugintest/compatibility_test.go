package plugintest_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// oldModule reads a module in sdk/abi/testdata, which was built for an earlier minor version of the ABI.
func oldModule(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("../../sdk/abi/testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// A module built for any earlier minor version of the ABI must produce the same bytes on the current host as a module
// built from source now.
//
// covers: C77
func TestOldModulesKeepWorking(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the modules of every earlier version")
	}
	modules, err := filepath.Glob("../../sdk/abi/testdata/minor*/*.wasm.gz")
	if err != nil || len(modules) < 23 {
		t.Fatalf("got modules %v, error %v, want at least 23", modules, err)
	}
	for _, path := range modules {
		path, _ = filepath.Rel("../../sdk/abi/testdata", path)
		t.Run(filepath.ToSlash(path), func(t *testing.T) {
			wasm := oldModule(t, path)
			switch name, _, _ := strings.Cut(filepath.Base(path), "."); name {
			case "kit":
				testOldKit(t, wasm, oldVectors(t, filepath.Dir(path)))
				if filepath.Dir(path) >= "minor3" {
					oldKit(wasm, "../../sdk/internal/kit/testdata/vectors3").Test(t)
				}
			case "router-by-length", "go-router":
				testOldRouter(t, wasm)
			case "go-filter":
				filter := plugintest.Suite{Wasm: wasm}
				filter.TestFilter(t, `{"words":["secret"]}`, map[string]string{"A secret, secre": "A ***, secre"})
			case "pair":
				testOldPair(t, wasm)
			default:
				t.Fatal("no test for this module")
			}
		})
	}
}

// oldVectors returns the folder of the kit's vectors for a minor version. The SDKs of minor versions 0 and 1 worded one
// message differently.
func oldVectors(t *testing.T, version string) string {
	t.Helper()
	const vectors = "../../sdk/internal/kit/testdata/vectors"
	if version != "minor0" && version != "minor1" {
		return vectors
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(vectors)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"answer/broken-json/want.txt", "answer/broken-whole/want.txt"} {
		want, err := os.ReadFile(filepath.Join(vectors, name))
		if err != nil {
			t.Fatal(err)
		}
		old := bytes.ReplaceAll(want, []byte("The provider's response is not valid JSON."), []byte("The provider's answer is not valid JSON."))
		if bytes.Equal(old, want) {
			t.Fatalf("%s does not contain the message", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func oldKit(wasm []byte, vectors string) plugintest.Suite {
	return plugintest.Suite{
		Wasm: wasm,
		Dir:  vectors,
		Use:  plugintest.Use{Paths: []string{"/kit", "/models"}, Headers: []string{"x-kit"}},
	}
}

func testOldKit(t *testing.T, wasm []byte, vectors string) {
	suite := oldKit(wasm, vectors)
	suite.Test(t)
	p := suite.Load(t, plugintest.Module)
	b, err := p.Bind("")
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.List("c1")
	if err != nil || list.Path != "/models?after=c1" || len(list.Headers) != 1 || list.Headers[0].Name != "x-kit" {
		t.Errorf("list request: %+v, %v", list, err)
	}
	models, next, err := b.Models(200, nil, `{"models":[["m1","Name","o",1700000000,4096,true,0.5,2]],"next":"p2"}`)
	want := `{"id":"m1","display_name":"Name","owned_by":"o","created":1700000000,"max_tokens":4096,"thinking":true,"pricing":{"input":0.5,"output":2}}`
	if err != nil || next != "p2" || models != want {
		t.Errorf("models: %s, %q, %v", models, next, err)
	}
	if _, err = p.Bind(`{"refuse":true}`); err == nil || !strings.Contains(err.Error(), "the settings are refused") {
		t.Errorf("got error %v, want the plugin to reject the settings", err)
	}
}

func testOldRouter(t *testing.T, wasm []byte) {
	suite := plugintest.Suite{Wasm: wasm, Use: plugintest.Use{Settings: `{"long":1000}`}}
	b := suite.Bind(t, plugintest.Module)
	for size, want := range map[int]string{999: "[1 2 0] short", 1000: "[2 1 0] long"} {
		input := fmt.Appendf(nil, `{"summary":{"body":%d},"targets":[{"healthy":false},{"healthy":true},{"healthy":true}]}`, size)
		order, why, err := b.Choose(input, 3)
		if got := fmt.Sprint(order, " ", why); err != nil || got != want {
			t.Errorf("request of %d bytes: got %s, %v, want %s", size, got, err, want)
		}
	}
}

// testOldPair tests the module of the providers left and right and the router middle.
func testOldPair(t *testing.T, wasm []byte) {
	for name, want := range map[string]string{"left": `"left heard hello"`, "right": `"right heard hello"`} {
		b := plugintest.Suite{Wasm: wasm, Plugin: name}.Bind(t, plugintest.Module)
		if got := userSays("hello").Run(b, false).Response; !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	b := plugintest.Suite{Wasm: wasm, Plugin: "middle"}.Bind(t, plugintest.Module)
	if order, _, err := b.Choose([]byte(`{"targets":[{},{},{}]}`), 3); err != nil || fmt.Sprint(order) != "[2]" {
		t.Errorf("middle: got %v, %v, want [2]", order, err)
	}
}
