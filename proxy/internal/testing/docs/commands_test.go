package docs_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// noCompiler is the exit code of a script that lacks the compiler of a plugin. The page is skipped, or fails if $COMPILERS
// is "required".
const noCompiler = 77

// commandTimeout bounds the commands of one document.
const commandTimeout = 4 * time.Minute

// notRun are the commands of documents that do nothing in TestCommands, each with the reason.
var notRun = map[string]string{
	"make":       "takes minutes; TestNames checks the targets. `make run` starts a gateway",
	"docker":     "needs a container engine",
	"kubectl":    "needs a cluster",
	"systemctl":  "needs systemd",
	"journalctl": "needs systemd",
	"nginx":      "needs a certificate; TestNginx checks the configuration",
}

// nodeClients are clients from npm, with arguments for a single request. They run in `make test-node`, which installs
// them in the folder NODE_CLIENTS, and do nothing without it.
var nodeClients = map[string]string{
	"claude": `env -u ANTHROPIC_API_KEY timeout 100 claude "$@" -p Hello`,
	"codex":  `command codex exec --skip-git-repo-check "$@" Hello`,
	"gemini": `command gemini --skip-trust "$@" -p Hello`,
}

// nodeEnv keeps clients from npm from waiting for anything but the gateway.
var nodeEnv = []string{"HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}

// A program is how a fragment of a program or a file of a client runs: a shell script in which %s is the block.
type program struct {
	lacks  func() string // what is missing on this machine, "" for nothing
	script string
}

// programs are fragments of programs by their language.
var programs = map[string]program{
	"go": {func() string { return "" }, `cat >$HOME/main.go <<'END'
package main

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	ctx := context.Background()
%s
	if err != nil {
		panic(err)
	}
	println(completion.Choices[0].Message.Content)
}
END
echo '{"Replace":{"'$REPOSITORY'/examples/clients/snippet/main.go":"'$HOME'/main.go"}}' >$HOME/overlay.json
(cd $REPOSITORY && go run -overlay $HOME/overlay.json ./examples/clients/snippet)
`},
	"python": {lacksPython, "python3 - <<'END'\nfrom openai import OpenAI\n%s\nEND\n"},
	"js":     {lacksNode, "(cd $NODE_CLIENTS && node --input-type=module - <<'END'\nimport OpenAI from \"openai\";\n%s\nEND\n)\n"},
}

// clientFiles are files of clients by a text that only they contain.
var clientFiles = map[string]program{
	"model_provider": {lacksNode, "mkdir -p $HOME/.codex && cat >$HOME/.codex/config.toml <<'END'\n%s\nEND\n"},
	"selectedType":   {lacksNode, "mkdir -p $HOME/.gemini && cat >$HOME/.gemini/settings.json <<'END'\n%s\nEND\n"},
	"@ai-sdk/openai-compatible": {lacksOpencode, "mkdir -p $HOME/opencode && cd $HOME/opencode && cat >opencode.json <<'END'\n%s\nEND\n" +
		"echo '{}' >$HOME/models.json; OPENCODE_MODELS_PATH=$HOME/models.json $NODE_CLIENTS/" + opencode + " run Hello\n"},
}

func lacksNode() string {
	if os.Getenv("NODE_CLIENTS") == "" {
		return "NODE_CLIENTS is not set: `make test-node` runs it"
	}
	return ""
}

const opencode = "node_modules/opencode-linux-x64-baseline/bin/opencode"

func lacksOpencode() string {
	if reason := lacksNode(); reason != "" {
		return reason
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("NODE_CLIENTS"), opencode)); err != nil {
		return "opencode is installed on Linux on x86-64 only"
	}
	return ""
}

func lacksPython() string {
	if err := exec.Command("python3", "-c", "import openai").Run(); err != nil {
		return "the package openai is not installed: only its syntax is checked"
	}
	return ""
}

// findProgram returns how a block runs, if it is a program or a file of a client.
func findProgram(b *block) (program, bool) {
	if b.language == "toml" || b.language == "json" {
		for text, p := range clientFiles {
			if strings.Contains(b.text, text) {
				return p, true
			}
		}
	}
	p, isProgram := programs[b.language]
	return p, isProgram
}

// stage is the start of the shell script with the commands of a document. Commands that serve run in the background and
// replace an earlier one of the same kind. --watch, --debug and --follow, which wait, are left out.
const stage = `
set -eE -o pipefail
declare -A pids
stop() { [ -z "${pids[$1]}" ] || { kill "${pids[$1]}" && wait "${pids[$1]}" || true; pids[$1]=; }; }
trap 'code=$?; for kind in "${!pids[@]}"; do stop $kind; done; exit $code' EXIT
# background KIND READY COMMAND…: starts a command and waits until it prints a line with READY.
background() {
  local kind=$1 ready=$2 line; shift 2
  stop $kind
  mkfifo $kind.$BLOCK.fifo
  "$@" >$kind.$BLOCK.fifo 2>&1 & pids[$kind]=$!
  exec {log}<$kind.$BLOCK.fifo; rm $kind.$BLOCK.fifo
  while read -r line <&$log; do
    echo "$line"
    case "$line" in *"$ready"*) cat <&$log >>$kind.log & return; esac
  done
  wait ${pids[$kind]}
}
sluice() {
  local args=() arg
  for arg; do case "$arg" in --watch|--debug|--follow) ;; *) args+=("$arg");; esac; done
  set -- "${args[@]}"
  case "$1 $2" in
  serve*) background gateway msg=listening command sluice "$@" --listen $GATEWAY;;
  'plugin upstream') background upstream 'Serving http://' command sluice "$@" --listen $UPSTREAM;;
  'plugin record')
    background gateway msg=listening command sluice "$@" --listen $GATEWAY
    for i in 1 2 3 4 5 6 7 8 9 10; do chat mine; done
    wait ${pids[gateway]}; pids[gateway]=; sluice serve;;
  'plugin build') command sluice "$@" 2>build.log || { cat build.log; grep -q 'is not installed' build.log && exit $NO_COMPILER; false; };;
  'plugin push'|'plugin inspect'|'plugin pull') ;; # needs a registry; TestPluginFromRegistry has one
  'bundle push'|'bundle rollout'|'bundle inspect'|'bundle diff'|'bundle pull') ;; # as above; TestBundle has one
  'bundle sign') printf '[[teams]]\nname = "research"\n' >signed.toml; command sluice bundle sign signed.toml "${@:4}";;
  'requests --id') chat demo -H "x-request-id: $3"; command sluice "$@";;
  top*) command sluice "$@" --once;;
  *) command sluice "$@";;
  esac
}
chat() { curl http://$GATEWAY/v1/chat/completions -H 'Authorization: Bearer sk-local' -H 'Content-Type: application/json' -d '{"model":"'$1'","messages":[{"role":"user","content":"Hello"}]}' "${@:2}"; }
curl() { command curl -sS --fail-with-body --max-time 60 "$@"; }
make() { case "$1" in run) sluice serve;; esac; }
sudo() { "$@"; }
minisign() { :; } # TestMinisign runs it
pidof() { echo ${pids[gateway]}; }
`

// TestCommands runs the commands of each document, in order, in one shell. The documents below examples/plugins run
// them in their folder, all others in the folder of a new plugin in Go with the configuration of fixture, in front of
// which a gateway and the provider's API are running. Addresses and system folders are replaced by those of the test.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts gateways and compiles plugins")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	pages, scripts, notRunPrograms := []string{}, map[string][]*block{}, map[string][]string{}
	for _, b := range collectBlocks(t) {
		p, isProgram := findProgram(b)
		if isProgram && isExample(t, b.text) {
			continue // has tests of its own
		}
		if isProgram && p.lacks() != "" {
			notRunPrograms[b.page] = append(notRunPrograms[b.page], b.name()+": "+p.lacks())
			continue
		}
		if isProgram || b.language == "sh" || b.language == "console" {
			if scripts[b.page] == nil {
				pages = append(pages, b.page)
			}
			scripts[b.page] = append(scripts[b.page], b)
		}
	}
	s := newStage(t)
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			for _, reason := range notRunPrograms[page] {
				t.Logf("not run: %s", reason)
			}
			out, err := s.run(t, page, scripts[page])
			if err != nil {
				lines := strings.Split(out, "\n")
				t.Fatalf("%v, after\n%s", err, strings.Join(lines[max(0, len(lines)-25):], "\n"))
			}
			for _, b := range scripts[page] {
				if b.language == "console" {
					checkOutput(t, b, out)
				}
			}
		})
	}
	t.Run("mistakes", func(t *testing.T) {
		for _, text := range []string{
			"sluice no-such-command\n", "no-such-command\n", "sluice serve --no-such-flag\n", "curl http://127.0.0.1:8080/v1/no-such-path\n",
			"sluice check --config no-such-file.toml\necho done\n", "sluice plugin test no-such-folder | cat\n",
		} {
			if out, err := s.run(t, "README.md", []*block{{page: "README.md", language: "sh", text: text}}); err == nil {
				t.Errorf("%s succeeds:\n%s", text, out)
			}
		}
		for _, b := range []*block{
			{language: "go", text: "completion, err := client.Chat.Completions.Create(ctx)\n"},
			{language: "go", text: strings.Replace(goSnippet(t), "sk-local", "sk-wrong", 1)},
			{language: "js", text: "const client = new OpenAI({ baseURL: \"http://127.0.0.1:8080/v1\", apiKey: \"sk-wrong\" });\nawait client.models.list();\n"},
			{language: "python", text: "client = OpenAI(base_url=\"http://127.0.0.1:8080/v1\", api_key=\"sk-wrong\")\nclient.models.list()\n"},
		} {
			b.page = "README.md"
			if p, _ := findProgram(b); p.lacks() == "" {
				if out, err := s.run(t, b.page, []*block{b}); err == nil {
					t.Errorf("%s succeeds:\n%s", b.text, out)
				}
			}
		}
	})
}

// isExample reports whether a block is a copy of a file of examples.
func isExample(t *testing.T, text string) bool {
	t.Helper()
	return slices.Contains(exampleFiles(t), text)
}

// goSnippet returns the fragment of a program in docs/clients.md.
func goSnippet(t *testing.T) string {
	t.Helper()
	for _, b := range collectBlocks(t) {
		if b.page == "docs/clients.md" && b.language == "go" {
			return b.text
		}
	}
	t.Fatal("docs/clients.md has no program in Go")
	return ""
}

// commandStage has what the commands of documents need.
type commandStage struct {
	bin, cache, project, tree string // folders: of the binary, of compiled plugins, of a new plugin, of the examples
	root                      string // of the repository
	provider                  string // URL of a provider that lists no models
}

func newStage(t *testing.T) *commandStage {
	t.Helper()
	binary, err := buildtest.Sluice(buildtest.SluiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := buildtest.CacheDir("compiled")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
	}))
	t.Cleanup(provider.Close)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s := &commandStage{root: root, provider: provider.URL, bin: filepath.Dir(binary), cache: cache, project: filepath.Join(dir, "mine"), tree: filepath.Join(dir, "tree")}
	for _, name := range []string{"examples", "sdk", "proxy/internal/testing/docs/testdata"} {
		if err := os.CopyFS(filepath.Join(s.tree, name), os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		s.write(t, filepath.Join(s.tree, name), read(t, name))
	}
	for _, args := range [][]string{{"new", "mine", "--language", "go"}, {"new", "my-router", "--language", "go", "--kind", "router", "--dir", "mine/my-router"}, {"build", "mine"}} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"plugin"}, args...)...)
		cmd.Dir = dir
		if err := runCommand(cmd); err != nil {
			t.Fatalf("sluice plugin %v: %v", args, err)
		}
	}
	for to, from := range map[string]string{
		"old.wasm": "plugin.wasm", "new.wasm": "plugin.wasm", "mine.wasm": "plugin.wasm",
		"answer.sse": "testdata/vectors/text/answer.sse",
	} {
		s.write(t, filepath.Join(s.project, to), read(t, filepath.Join(s.project, from)))
	}
	s.write(t, filepath.Join(s.project, "request.json"), `{"model":"auto","messages":[{"role":"user","content":"Hello"}]}`)
	s.write(t, filepath.Join(s.project, "gateway.toml"), fixture(t))
	s.write(t, filepath.Join(s.project, "config.yaml"), read(t, "cmd/sluice/testdata/import/litellm/load_balancer.yaml"))
	s.write(t, filepath.Join(s.project, "config.json"), read(t, "cmd/sluice/testdata/import/bifrost/withpostgres.json"))
	s.write(t, filepath.Join(s.project, "sluice.env"), "DEVELOPERS_DIGEST="+digest+"\nSUPPORT_BOT_DIGEST="+strings.Repeat("23", 32)+"\nOPENAI_API_KEY=sk-o\nANTHROPIC_API_KEY=sk-a\n")
	return s
}

func (s *commandStage) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freeAddresses returns addresses of this machine that were free a moment ago.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		addresses = append(addresses, ln.Addr().String())
	}
	return addresses
}

// run runs the commands of blocks and returns what they print, each block after a line with its name.
func (s *commandStage) run(t *testing.T, page string, blocks []*block) (output string, err error) {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, "mine")
	inTree := strings.HasPrefix(page, "examples/plugins/") || strings.HasPrefix(page, "examples/routing/")
	if inTree {
		dir = filepath.Join(s.tree, filepath.Dir(page))
	} else if err := os.CopyFS(dir, os.DirFS(s.project)); err != nil {
		t.Fatal(err)
	}
	free := freeAddresses(t, 4)
	replace := strings.NewReplacer("127.0.0.1:8080", free[0], "127.0.0.1:8081", free[1],
		// Several gateways are the same one.
		"10.0.0.1:8081", free[1], "10.0.0.2:8081", free[1], "gateways.internal:8081", free[1],
		"127.0.0.1:9090", free[2], "127.0.0.1:9000", free[3],
		"/etc/sluice", dir, "/var/cache/sluice", s.cache, "/usr/local/bin/", filepath.Join(home, "bin")+"/", "/etc/systemd/system/", filepath.Join(home, "units")+"/",
		"install bin/sluice", "install "+filepath.Join(s.bin, "sluice"), "$PWD/bin:", s.bin+":",
		" examples/deploy/", " "+filepath.Join(s.tree, "examples/deploy")+"/", "examples/routing/", filepath.Join(s.tree, "examples/routing")+"/")
	for _, name := range []string{"bin", "units"} {
		if err := os.Mkdir(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var script strings.Builder
	for name := range notRun {
		script.WriteString(name + "() { :; }\n")
	}
	clients := os.Getenv("NODE_CLIENTS")
	for name, command := range nodeClients {
		if clients == "" {
			command = ":"
		}
		fmt.Fprintf(&script, "%s() { %s </dev/null; }\n", name, command)
	}
	fmt.Fprintf(&script, "NO_COMPILER=%d\n%s", noCompiler, stage)
	if !inTree {
		script.WriteString("BLOCK=start\nsluice plugin upstream\nsluice serve\n")
	}
	for i, b := range blocks {
		text := b.text
		if b.language == "console" {
			text, _ = splitConsole(text)
		} else if p, isProgram := findProgram(b); isProgram {
			text = fmt.Sprintf(p.script, text)
		}
		fmt.Fprintf(&script, "BLOCK=%d; cd %s\necho '-- %s --'\n%s", i, dir, b.name(), replace.Replace(text))
	}
	module, err := os.ReadFile(filepath.Join(s.project, "plugin.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + s.bin + ":" + filepath.Join(clients, "node_modules/.bin") + ":" + os.Getenv("PATH"), "NODE_CLIENTS=" + clients, "REPOSITORY=" + s.root, "HOME=" + home, "SLUICE_CACHE=" + s.cache, "TMPDIR=" + home,
		"GATEWAY=" + free[0], "UPSTREAM=" + free[2], "SLUICE_LISTEN=" + free[0], "SLUICE_ADMIN=" + free[1], "UPSTREAM_URL=http://" + free[2],
		fmt.Sprintf("MINE_DIGEST=%x", sha256.Sum256(module)), "OPENAI_API_KEY=sk-o", "ANTHROPIC_API_KEY=sk-a", "AZURE_API_KEY=sk-z",
		"OPENAI_BASE_URL=" + s.provider + "/v1", "ANTHROPIC_BASE_URL=" + s.provider, "AZURE_URL=" + s.provider + "/v1",
		"GATEWAY_KEY=sk-local", "ROUTING_SALT=pepper",
	}
	if clients != "" {
		cmd.Env = append(cmd.Env, nodeEnv...)
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS"} {
		if value, err := exec.CommandContext(ctx, "go", "env", name).Output(); err == nil {
			cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == noCompiler && os.Getenv("COMPILERS") != "required" {
		t.Skip("a compiler is not installed")
	}
	return string(out), err
}

// checkOutput compares the output that a block shows with that of its commands.
func checkOutput(t *testing.T, b *block, output string) {
	t.Helper()
	_, got, _ := strings.Cut(output, "-- "+b.name()+" --\n")
	got, _, _ = strings.Cut(got, "\n-- ")
	if _, want := splitConsole(b.text); comparable(got) != comparable(want) {
		t.Errorf("%s shows\n%s\nthe output is\n%s", b.name(), want, got)
	}
}

// splitConsole separates the commands, after a prompt, from their output.
func splitConsole(text string) (commands, output string) {
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands += command
		} else {
			output += line
		}
	}
	return commands, output
}

// comparable removes what differs between runs: hashes and the width of columns.
func comparable(output string) string {
	output = regexp.MustCompile(`\b[0-9a-f]{16}\b`).ReplaceAllString(output, "HASH")
	return strings.Join(strings.Fields(output), " ")
}
