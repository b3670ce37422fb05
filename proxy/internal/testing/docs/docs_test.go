// Package docs_test generates the reference pages below docs, and checks links, names, paths and sizes in the other
// documents. `go generate` in this package writes the generated pages.
package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

//go:generate go test -count=1 -run ^TestGenerated . -update

var update = flag.Bool("update", false, "write the generated parts of the documents")

// TestMain runs the tests in the repository's root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// checkGenerated compares a file with its generated content. With -update it writes the file first.
func checkGenerated(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != want {
		t.Errorf("%s is out of date; run `go generate ./proxy/internal/testing/docs`", path)
	}
}

// TestGeneratedExample copies the example plugin into the README.
func TestGeneratedExample(t *testing.T) {
	block := regexp.MustCompile("(?s)```go\n.*?```\n")
	text := read(t, "README.md")
	if n := len(block.FindAllString(text, -1)); n != 1 {
		t.Fatalf("README.md has %d blocks of Go code, want 1", n)
	}
	example := "```go\n" + read(t, "examples/plugins/go-provider/plugin.go") + "```\n"
	checkGenerated(t, "README.md", block.ReplaceAllLiteralString(text, example))
}

// TestGeneratedPolicies copies the policies in examples/routing into docs/routing.md, which must contain all of them.
func TestGeneratedPolicies(t *testing.T) {
	block := regexp.MustCompile("(?s)<!-- (examples/routing/[a-z]+\\.toml) -->\n```toml\n.*?```\n")
	var shown []string
	text := block.ReplaceAllStringFunc(read(t, "docs/routing.md"), func(old string) string {
		file := block.FindStringSubmatch(old)[1]
		shown = append(shown, file)
		return "<!-- " + file + " -->\n```toml\n" + read(t, file) + "```\n"
	})
	files, err := filepath.Glob("examples/routing/*.toml")
	if slices.Sort(shown); err != nil || !slices.Equal(shown, files) {
		t.Errorf("docs/routing.md shows %v, want %v, %v", shown, files, err)
	}
	checkGenerated(t, "docs/routing.md", text)
}

// TestGeneratedKitExamples copies the example providers into the READMEs of their languages' kits.
func TestGeneratedKitExamples(t *testing.T) {
	for language, source := range map[string]string{"rust": "plugin.rs", "c": "plugin.c", "assemblyscript": "plugin.ts"} {
		extension := strings.TrimPrefix(filepath.Ext(source), ".")
		if language == "rust" {
			extension = "rust"
		}
		path := "sdk/" + language + "/README.md"
		block := regexp.MustCompile("(?s)```" + extension + "\n.*?```\n")
		text := read(t, path)
		if n := len(block.FindAllString(text, -1)); n != 1 {
			t.Fatalf("%s has %d blocks of code, want 1", path, n)
		}
		example := "```" + extension + "\n" + read(t, "examples/plugins/"+language+"-provider/"+source) + "```\n"
		checkGenerated(t, path, block.ReplaceAllLiteralString(text, example))
	}
}

func TestSizes(t *testing.T) {
	for path, limit := range map[string]int{"README.md": 12 << 10, "RATIONALE.md": 26 << 10} {
		if n := len(read(t, path)); n > limit {
			t.Errorf("%s has %d bytes, want at most %d: move details to docs", path, n, limit)
		}
	}
}

// pages returns the paths of all documents.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md", "examples/*/*/README.md", "sdk/abi/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 15 {
		t.Fatalf("found only %d documents, want at least 15", len(paths))
	}
	return paths
}

// TestLinks checks the targets and anchors of all relative links.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, path)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, path, anchor)
			}
		}
	}
}

// anchors returns the anchors that GitHub generates for a document's headings.
func anchors(text string) (names []string) {
	dropped := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

// TestContents checks that the list of contents of a page, if it has one, names all of its sections.
func TestContents(t *testing.T) {
	section := regexp.MustCompile(`(?m)^##+ (.*)$`)
	lists := 0
	for _, page := range pages(t) {
		head, body, _ := strings.Cut(regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(read(t, page), ""), "\n## ")
		if !regexp.MustCompile(`(?m)^(- )?\[[^]]+\]\(#`).MatchString(head) {
			continue
		}
		lists++
		for _, m := range section.FindAllStringSubmatch("## "+body, -1) {
			isSubsection := strings.HasPrefix(m[0], "###")
			if link := "](#" + anchors("## " + m[1])[0] + ")"; !strings.Contains(head, link) && (!isSubsection || page == "docs/operations.md") {
				t.Errorf("%s: the contents lack %q", page, m[1])
			}
		}
	}
	if lists < 6 {
		t.Errorf("found only %d lists of contents", lists)
	}
}

// TestTasks checks that each task has a question, a configuration or command, and a link to another page.
func TestTasks(t *testing.T) {
	tasks := strings.Split(read(t, tasksPage), "\n## ")[1:]
	if len(tasks) != 15 {
		t.Errorf("found %d tasks, want 15", len(tasks))
	}
	for _, task := range tasks {
		question, text, _ := strings.Cut(task, "\n")
		if !strings.HasPrefix(question, "How do I ") || !strings.HasSuffix(question, "?") {
			t.Errorf("%q is not a question", question)
		}
		if !regexp.MustCompile("\n```(sh|toml)\n").MatchString(text) || !regexp.MustCompile(`\]\([a-z.]+[^)]*\.md[#)]`).MatchString(text) {
			t.Errorf("%s: no configuration or command, or no link to another page", question)
		}
	}
}

// TestPaths checks that the repository paths in documents exist.
func TestPaths(t *testing.T) {
	path := regexp.MustCompile("(?:[`\\s]|\\./)((?:cmd|docs|examples|plugins|proxy|sdk)/[a-zA-Z0-9_./-]+)")
	checked := 0
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/proof/") {
			continue // checked by TestProofTables
		}
		for _, m := range path.FindAllStringSubmatch(regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(read(t, page), "]"), -1) {
			name := strings.TrimRight(m[1], "./")
			if strings.HasSuffix(name, ".wasm") || strings.HasSuffix(name, ".gz") || strings.Contains(name, "...") {
				continue // build results and patterns
			}
			checked++
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if checked < 20 {
		t.Errorf("checked only %d paths, want at least 20", checked)
	}
}

// TestNames checks that the metrics, make targets, commands and flags in documents exist.
func TestNames(t *testing.T) {
	metrics := map[string]bool{}
	for _, f := range telemetry.Families() {
		metrics[f.Name] = true
	}
	makefile, cli := read(t, "Makefile"), read(t, "docs/cli.md")
	metric := regexp.MustCompile(`\bsluice_[a-z_]+[a-z]\b`)
	target := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	command := regexp.MustCompile("(?m)(?:^|`|/)sluice ([a-z]+)")
	option := regexp.MustCompile("`(?:sluice [a-z ]*)?--([a-z-]+)")
	for _, page := range pages(t) {
		text := read(t, page)
		if page == "docs/cli.md" || page == "sdk/abi/README.md" || strings.HasPrefix(page, "docs/proof") {
			continue
		}
		for _, name := range metric.FindAllString(text, -1) {
			if !metrics[name] && name != "sluice_plugin" && !strings.HasPrefix(name, "sluice_abi") {
				t.Errorf("%s: unknown metric %s", page, name)
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: unknown target `make %s`", page, m[1])
			}
		}
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(cli, "## sluice "+m[1]) {
				t.Errorf("%s: unknown command `sluice %s`", page, m[1])
			}
		}
		for _, m := range option.FindAllStringSubmatch(text, -1) {
			if m[1] != "help" && !strings.Contains(cli, "--"+m[1]) {
				t.Errorf("%s: unknown flag --%s", page, m[1])
			}
		}
	}
}
