package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

// A block is a fenced block of a document.
type block struct {
	page, language, text string
	line                 int // of the first line of text
}

func (b *block) name() string { return b.page + ":" + strconv.Itoa(b.line) }

// collectBlocks returns the fenced blocks of all documents that people read, in order.
func collectBlocks(t *testing.T) (blocks []*block) {
	t.Helper()
	kits, err := filepath.Glob("sdk/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, page := range append(pages(t), kits...) {
		if seen[page] {
			continue
		}
		seen[page] = true
		var open *block
		indent, line := "", 0
		for text := range strings.Lines(read(t, page)) {
			line++
			fence := strings.TrimLeft(text, " ")
			switch language, isFence := strings.CutPrefix(strings.TrimSpace(fence), "```"); {
			case isFence && open == nil:
				open, indent = &block{page: page, language: language, line: line + 1}, text[:len(text)-len(fence)]
			case isFence:
				blocks, open = append(blocks, open), nil
			case open != nil:
				open.text += strings.TrimPrefix(text, indent)
			}
		}
		if open != nil {
			t.Errorf("%s: the block is not closed", open.name())
		}
	}
	return blocks
}

// blockChecks has a check for each language of a block, which returns what is wrong with it. nil means that other tests
// have the block.
var blockChecks = map[string]func(t *testing.T, text string) error{
	"json": checkJSON,
	"toml": checkTOML,
	"js": func(t *testing.T, text string) error {
		return interpret(t, text, "node", "--input-type=module", "--check", "-")
	},
	"python": func(t *testing.T, text string) error {
		return interpret(t, text, "python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())")
	},
	"yaml":       checkYAML,
	"dockerfile": checkDockerfile,
	"go":         nil, // TestCommands
	"wat":        nil, // TestMinimalPlugin in proxy/plugintest
	"sh":         nil, // TestCommands
	"console":    nil, // TestCommands
	"text":       nil, // output, logs and diagrams
}

// exampleFiles returns the texts of the files in examples.
func exampleFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"examples/*/*", "examples/*/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() < 64<<10 {
				files = append(files, read(t, path))
			}
		}
	}
	return files
}

// TestBlocks checks each fenced block of the documents.
func TestBlocks(t *testing.T) {
	files := exampleFiles(t)
	blocks := collectBlocks(t)
	if len(blocks) < 100 {
		t.Errorf("found only %d blocks", len(blocks))
	}
	for _, b := range blocks {
		check, known := blockChecks[b.language]
		if b.page == tasksPage && b.language == "toml" {
			check = func(t *testing.T, text string) error {
				if isCodex(text) {
					return nil
				}
				return loadConfig(t, map[string]string{"gateway.toml": withDigests(text)})
			}
		}
		switch {
		case slices.Contains(files, b.text): // generated from a file of examples, which has tests
		case !known:
			t.Errorf("%s: no check for blocks of language %q", b.name(), b.language)
		case check != nil:
			t.Run(b.name(), func(t *testing.T) {
				if err := check(t, b.text); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestBlockChecksRejectMistakes has a broken block for each check.
func TestBlockChecksRejectMistakes(t *testing.T) {
	for language, text := range map[string]string{
		"json":       `{"model": "demo",}`,
		"toml":       "[server]\nlisten_address = \":8080\"\n",
		"js":         "const client = new OpenAI({ baseURL: );\n",
		"python":     "client = OpenAI(base_url=)\n",
		"yaml":       "kind: [StatefulSet\n",
		"dockerfile": "COPI gateway.toml /etc/sluice/\n",
	} {
		t.Run(language, func(t *testing.T) {
			if blockChecks[language](t, text) == nil {
				t.Error("no error")
			}
		})
	}
}

func checkJSON(_ *testing.T, text string) error {
	var value any
	return json.Unmarshal([]byte(text), &value)
}

// fragments are the tables of single keys that a document shows without their table.
var fragments = map[string]string{
	"budgets": "[providers.mine]\n",
	"pricing": "[[models]]\nid = \"gpt-5.4\"\n",
	"shadow":  "[[models]]\nid = \"gpt-5.4\"\n",
	"canary":  "[[models]]\nid = \"gpt-5.4\"\n",
}

// fixture returns the configuration that the snippets refer to: the shipped one, and what they name besides.
func fixture(t *testing.T) string {
	t.Helper()
	return read(t, "gateway.toml") + read(t, "proxy/internal/testing/docs/testdata/fixture.toml")
}

// isCodex reports whether a block configures Codex, which TestCommands runs with it.
func isCodex(text string) bool { return strings.Contains(text, "model_provider") }

// checkTOML merges a block into the configuration of fixture.
func checkTOML(t *testing.T, text string) error {
	if isCodex(text) {
		return nil
	}
	files := map[string]string{
		"base.toml":   fixture(t) + "\n[pricing]\nfile = \"prices.toml\"\n",
		"prices.toml": "[[openai]]\nequals = [\"gpt-5.4\"]\npricing = { input = 1, output = 1 }\n",
	}
	if key := regexp.MustCompile(`^(\w+) +=`).FindStringSubmatch(text); key != nil {
		text = fragments[key[1]] + text
	}
	if strings.HasPrefix(text, "# prices.toml") {
		files["prices.toml"], text = text, ""
	}
	if strings.Contains(text, "client_ca") {
		pair, root := certtest.Valid(t), certtest.NewAuthority(t, "clients")
		files["cert.pem"], files["key.pem"] = string(pair.Cert), string(pair.Key)
		files["clients.pem"], files["revoked.pem"] = string(root.PEM()), string(root.Revoke(nil))
	}
	files["gateway.toml"] = "include = [\"base.toml\"]\n" + withDigests(text)
	return loadConfig(t, files)
}

// withDigests replaces the digests that documents leave out, each by another one.
func withDigests(toml string) string {
	n := 0
	return regexp.MustCompile(`"(oci://[^"…]*)?(sha256:)?…"`).ReplaceAllStringFunc(toml, func(text string) string {
		n++
		return strings.Replace(text, "…", digest[n:]+digest[:n], 1)
	})
}

// tasksPage has complete configurations, instead of additions to that of fixture.
const tasksPage = "docs/how-do-i.md"

// loadConfig loads gateway.toml of the files, and returns an error or a warning about it.
func loadConfig(t *testing.T, files map[string]string) error {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "gateway.toml"), config.Options{
		Bundled: plugins.Names(), Env: documentEnv,
		OptionsSchema: func(_ *config.Config, p *config.Plugin) []byte {
			schema, _ := os.ReadFile("plugins/" + p.Name + "/options.json")
			return schema
		},
	})
	if err == nil && len(cfg.Warnings) > 0 {
		err = cfg.Warnings[0]
	}
	return err
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// documentEnv has every variable that a document refers to, apart from those for which the shipped configuration has a
// usable default.
func documentEnv(name string) (string, bool) {
	switch {
	case strings.HasSuffix(name, "_DIGEST"):
		return digest, true
	case strings.HasPrefix(name, "SLUICE_") || strings.HasSuffix(name, "_URL") || name == "AWS_REGION":
		return "", false
	}
	return "sk-" + name + "-0123456789abcdef", true
}

func runCommand(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// interpret passes a block to a command that checks its syntax.
func interpret(t *testing.T, text, command string, args ...string) error {
	t.Helper()
	if testing.Short() {
		t.Skip("runs " + command)
	}
	if _, err := exec.LookPath(command); err != nil {
		t.Skip(command + " is not installed")
	}
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Stdin = strings.NewReader(text)
	return runCommand(cmd)
}

// checkYAML decodes a block with Python, if it has a decoder.
func checkYAML(t *testing.T, text string) error {
	t.Helper()
	if !testing.Short() && exec.CommandContext(t.Context(), "python3", "-c", "import yaml").Run() != nil {
		t.Skip("python3 has no decoder of YAML")
	}
	return interpret(t, text, "python3", "-c", "import sys, yaml; assert all(isinstance(d, dict) for d in yaml.safe_load_all(sys.stdin))")
}

// checkDockerfile checks the instructions only: an image needs a container engine.
func checkDockerfile(_ *testing.T, text string) error {
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^(FROM|COPY|USER|RUN) `).MatchString(line) {
			return fmt.Errorf("unknown instruction: %s", line)
		}
	}
	return nil
}
