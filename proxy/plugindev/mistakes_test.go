package plugindev_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// mistaken is a plugin that makes the mistake that the prompt or the provider's response names.
const mistaken = "proxy/plugintest/testdata/mistaken"

var (
	requestMistakes = []string{
		"panic", "index", "nil map", "nil pointer", "loop", "loop in a function", "recursion", "memory", "exit", "deadlock", "sleep", "print", "log",
		"error", "refuse", "nothing", "path", "second path", "path without a slash", "path with a space", "header",
		"reserved header", "header with a line feed", "request and response", "edits and writes", "body is not JSON", "sets in nothing",
		"unknown framing", "alias",
	}
	responseMistakes = []string{
		"no done", "no finish", "text after done", "usage after done", "text after finish", "nothing", "arguments without a call",
		"arguments are not JSON", "reserved member", "large state", "not UTF-8", "unescaped", "unknown encoding", "unknown reason",
		"negative usage", "choice out of range", "line feed in the ID", "endless output", "not JSON", "status ignored",
	}
	settingMistakes = []string{"refuse", "error", "panic", "status"}

	// Mistakes of routers and filters.
	choiceMistakes = []string{"panic", "loop", "error", "index", "out of range", "twice", "nothing"}
	textMistakes   = []string{"panic", "loop", "error", "beyond", "backwards", "within é", "not UTF-8", "tag"}
)

// mistakenKinds is a router and a filter that make the mistake which their input names.
const mistakenKinds = "proxy/plugintest/testdata/mistaken-kinds"

// unstable are the parts of results that depend on the version of Go and on the place of the repository.
var unstable = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^log:   in .*\n`), ""}, // the stack, whose first functions are in the error
	{regexp.MustCompile(`(?m)^log: error: (runtime: |\[signal ).*\n`), ""},
	{regexp.MustCompile(` < wasm_pc_f_loop\w* \([^)]*\)( < .*)?`), ""},
	{regexp.MustCompile(`\((instance|request|answer|exports_wasip1|memory|host_wasip1|router)\.go:\d+\)`), "(SDK)"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "ADDRESS"},
	{regexp.MustCompile(`all \d+ units`), "all N units"},
}

// TestMistakes compares what authors see of mistakes with testdata/mistakes.txt. Each has to be reported, with its place or
// a way out.
func TestMistakes(t *testing.T) {
	files := map[string]string{plugindev.SuiteFile: `{"paths":["/say"],"headers":["x-own"]}`}
	for _, name := range requestMistakes {
		files["request: "+name+"/request.json"] = prompt(name)
	}
	for _, name := range responseMistakes {
		files["response: "+name+"/request.json"] = hello
		files["response: "+name+"/answer.json"] = fmt.Sprintf(`{"mistake":%q}`, name)
	}
	files["response: status ignored/vector.json"] = `{"status":429}`
	for _, name := range settingMistakes {
		files["options: "+name+"/request.json"] = hello
		files["options: "+name+"/vector.json"] = fmt.Sprintf(`{"settings":{"mistake":%q}}`, name)
	}
	choices, texts := map[string]string{}, map[string]string{}
	for _, name := range choiceMistakes {
		choices["router: "+name+"/targets.json"] = fmt.Sprintf(`{"summary":{"model":"m"},"targets":[{"index":0,"provider":%q,"model":"m"}]}`, name)
	}
	choices["router: options/targets.json"], choices["router: options/vector.json"] = `{"summary":{},"targets":[]}`, `{"settings":{"mistake":1}}`
	for _, name := range textMistakes {
		texts["filter: "+name+"/text.json"] = fmt.Sprintf(`{"what":"user","text":%q,"tags":["known"]}`, name)
	}
	kinds := plugintest.Build(t, mistakenKinds)
	var tested []plugindev.Tested
	for _, c := range []struct {
		files  map[string]string
		module plugindev.Module
	}{
		{files, plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, mistaken)}},
		{choices, plugindev.Module{Name: "mistaken-router", Wasm: kinds}},
		{texts, plugindev.Module{Name: "mistaken-filter", Wasm: kinds}},
	} {
		more, err := openSuite(t, folder(t, c.files)).Test(t.Context(), newHost(t), c.module, plugindev.TestOptions{Update: true})
		if err != nil {
			t.Fatal(err)
		}
		tested = append(tested, more...)
	}
	var all strings.Builder
	for _, v := range tested {
		var text strings.Builder
		for _, f := range v.Failures {
			fmt.Fprintf(&text, "%s: %s\n", f.Where, f.Text)
		}
		for _, w := range v.Warnings {
			fmt.Fprintf(&text, "warning: %s\n", w)
		}
		for _, l := range v.Log {
			fmt.Fprintf(&text, "log: %s\n", l)
		}
		if text.Len() == 0 && !slices.Contains(accepted, v.Name) {
			t.Errorf("%s is silent", v.Name)
		}
		fmt.Fprintf(&all, "-- %s --\n%s", v.Name, text.String())
	}
	got := all.String()
	for _, u := range unstable {
		got = u.re.ReplaceAllString(got, u.to)
	}
	const golden = "testdata/mistakes.txt"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text := plugindev.Diff(string(want), got); text != "" {
		t.Errorf("%s differs; -update writes it:\n%s", golden, text)
	}
}

// accepted are the vectors whose want.txt shows the result, an error of the plugin's own choice.
var accepted = []string{"request: sleep", "response: nothing"}
