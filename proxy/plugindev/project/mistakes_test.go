//go:build languages

package project_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

var updateMistakes = flag.Bool("update", false, "write the golden files of mistakes")

// Mistakes that the providers in testdata/mistakes make. Package plugindev tests those of plugins in Go.
var (
	requestMistakes = []string{
		"panic", "assertion", "index", "loop", "recursion", "memory", "refuse", "nothing", "path", "path in a check", "second path",
		"reserved header", "header", "header with a line feed", "edits and writes", "body is not JSON", "value is not JSON", "sets in nothing",
		"unknown framing", "import of another call", "request and response", "log",
	}
	responseMistakes = []string{
		"panic", "nothing", "endless output", "text after finish", "arguments without a call", "arguments are not JSON", "reserved member",
		"large state", "not UTF-8", "unescaped", "unknown encoding", "unknown reason", "negative usage", "choice out of range", "no finish",
		"no done", "text after done", "usage after done", "status ignored",
	}
	settingMistakes = []string{"error", "panic"}
)

// unstable are the parts of results that depend on the compiler: which functions it has inlined, and the fuel of a call.
var unstable = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^log:   in .*\n`), ""}, // the stack, whose first functions are in the error
	{regexp.MustCompile(`(?m), in [^ ].*$`), ", in FUNCTIONS"},
	{regexp.MustCompile(`all \d+ units`), "all N units"},
}

// TestKitMistakes compares what authors see of mistakes in each language with a golden file. Each has to be reported, with
// its place or a way out, and without blaming another plugin.
func TestKitMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	for language, more := range map[string]struct{ requests, accepted []string }{
		// C reads address 0 without a trap: a bad pointer corrupts only the plugin's own memory.
		"c":              {[]string{"error", "error without a message", "null pointer", "string outside of the memory"}, []string{"request: null pointer"}},
		"rust":           {[]string{"error", "error without a message", "unwrap"}, nil},
		"assemblyscript": {[]string{"null"}, nil},
	} {
		t.Run(language, func(t *testing.T) {
			p := newProject(t, project.Template{Name: "mine", Language: language, Kind: "provider", Version: "v1"})
			source := map[string]string{"rust": "plugin.rs", "c": "plugin.c", "assemblyscript": "plugin.ts"}[language]
			write(t, filepath.Join(p.Dir, source), read(t, "testdata/mistakes", source))
			module := plugindev.Module{Name: "tested", Wasm: []byte(read(t, build(t, p).Path))}
			vectors := t.TempDir()
			file := func(name, text string) { write(t, filepath.Join(vectors, name), text) }
			request := func(text string) string {
				return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)
			}
			file(plugindev.SuiteFile, `{"paths":["/say"],"headers":["x-own"]}`)
			for _, name := range slices.Concat(requestMistakes, more.requests) {
				file("request: "+name+"/request.json", request(name))
			}
			for _, name := range responseMistakes {
				file("response: "+name+"/request.json", request("hello"))
				file("response: "+name+"/answer.json", fmt.Sprintf(`{"mistake":%q}`, name))
			}
			file("response: status ignored/vector.json", `{"status":429}`)
			for _, name := range settingMistakes {
				file("options: "+name+"/request.json", request("hello"))
				file("options: "+name+"/vector.json", fmt.Sprintf(`{"settings":{"mistake":%q}}`, name))
			}
			suite, err := plugindev.OpenSuite(vectors)
			if err != nil {
				t.Fatal(err)
			}
			tested, err := suite.Test(t.Context(), newHost(t), module, plugindev.TestOptions{Update: true})
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, v := range tested {
				fmt.Fprintf(&all, "-- %s --\n", v.Name)
				for _, f := range v.Failures {
					fmt.Fprintf(&all, "%s: %s\n", f.Where, f.Text)
				}
				for _, w := range v.Warnings {
					fmt.Fprintf(&all, "warning: %s\n", w)
				}
				for _, l := range v.Log {
					fmt.Fprintf(&all, "log: %s\n", l)
				}
				if silent := len(v.Failures)+len(v.Warnings)+len(v.Log) == 0; silent != slices.Contains(more.accepted, v.Name) {
					t.Errorf("%s: silent: %t", v.Name, silent)
				}
			}
			got := all.String()
			for _, u := range unstable {
				got = u.re.ReplaceAllString(got, u.to)
			}
			golden := "testdata/mistakes/" + language + ".txt"
			if *updateMistakes {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if text := plugindev.Diff(read(t, golden), got); text != "" {
				t.Errorf("%s differs; -update writes it:\n%s", golden, text)
			}
		})
	}
}
