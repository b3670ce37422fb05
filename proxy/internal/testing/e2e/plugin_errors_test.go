package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// testdata/errors has a golden file for each mistake that a plugin's author can make, with the messages that the author
// sees. They must say where the mistake is and how to fix it. Run with -update to rewrite the files.

// loadMistakes are mistakes that sluice check reports.
var loadMistakes = []struct {
	name, mistake string
	file          []byte // contents of mine.wasm; nil if the file is missing
	table         string // keys of the plugin's table; "" for the file and its digest
	provider      string // additional keys of the provider
	target        string // additional keys of the target
}{
	{name: "file-missing", mistake: "The file is not where the configuration says."},
	{name: "file-empty", mistake: "The build wrote an empty file.", file: []byte{}},
	{name: "file-text", mistake: "The file is the output of a shell.", file: []byte("#!/bin/sh\necho hello\n")},
	{name: "file-page", mistake: "The download is a login page.", file: []byte("<!doctype html>\n<html>")},
	{name: "file-wat", mistake: "The module is in the text format.", file: []byte("(module)")},
	{name: "file-wat-comment", mistake: "The module is in the text format, after a comment.", file: []byte(";; a plugin\n(module)")},
	{name: "file-go", mistake: "The file is the source code.", file: []byte("package main\n")},
	{name: "file-elf", mistake: "The plugin was built for this machine.", file: []byte("\x7fELF\x02\x01\x01\x00")},
	{name: "file-mach-o", mistake: "The plugin was built for this machine, a Mac.", file: []byte("\xcf\xfa\xed\xfe\x0c\x00\x00\x01")},
	{name: "file-exe", mistake: "The plugin was built for this machine, on Windows.", file: []byte("MZ\x90\x00\x03\x00")},
	{name: "file-archive", mistake: "The plugin was built as an archive.", file: []byte("!<arch>\n")},
	{name: "file-gzip", mistake: "The module is compressed.", file: gzipped("\x00asm\x01\x00\x00\x00")},
	{name: "file-zip", mistake: "The module is in a zip file.", file: []byte("PK\x03\x04")},
	{name: "file-component", mistake: "The plugin was built as a component.", file: []byte("\x00asm\x0d\x00\x01\x00")},
	{name: "file-version", mistake: "The module is of another version of WebAssembly.", file: []byte("\x00asm\x02\x00\x00\x00")},
	{name: "file-cut", mistake: "The file is incomplete.", file: providerModule(0).Bytes()[:100]},
	{name: "sha256-missing", mistake: "The table has no digest.", file: providerModule(0).Bytes(), table: `file = "mine.wasm"`},
	{name: "sha256-missing-file", mistake: "The table has neither a digest nor a file that exists.", table: `file = "mine.wasm"`},
	{name: "sha256-wrong", mistake: "The module was built again.", file: providerModule(0).Bytes(), table: "file = \"mine.wasm\"\nsha256 = \"" + strings.Repeat("0123456789abcdef", 4) + "\""},
	{name: "sha256-short", mistake: "The digest is too short.", file: providerModule(0).Bytes(), table: "file = \"mine.wasm\"\nsha256 = \"0123\""},
	{name: "abi-major", mistake: "The plugin was written for another version of the plugin ABI.", file: providerModule(0, "sluice_abi_v2").Bytes()},
	{name: "abi-none", mistake: "A module that is not a plugin: in Go, main does not import the SDK's package, or does not call Register.", file: notPlugin().Bytes()},
	{name: "register-missing", mistake: "In Go, a package of the SDK is linked, and Register is not called, or only in main.", file: unregistered("no plugin is registered: call provider.Register or router.Register in func init; a plugin's main is not run").Bytes()},
	{name: "register-other", mistake: "The module has several plugins, and none of the table's name.", file: unregistered("the module contains alpha, beta").Bytes()},
	{name: "export-none", mistake: "The plugin exports none of a provider's or router's functions.", file: minimalModule(abi.ExportVersion).Bytes()},
	{name: "export-missing", mistake: "The plugin lacks an export.", file: withoutExport(abi.ExportConfigure).Bytes()},
	{name: "export-type", mistake: "An export has the wrong type.", file: wrongType().Bytes()},
	{name: "export-memory", mistake: "The memory is not exported.", file: noMemory().Bytes()},
	{name: "program", mistake: "The plugin is a program with a main function.", file: program().Bytes()},
	{name: "import-files", mistake: "The plugin opens files or sockets.", file: importing("wasi_snapshot_preview1", "path_open_everything").Bytes()},
	{name: "import-module", mistake: "The plugin imports from a module that does not exist.", file: importing("wasi:http/types", "fetch").Bytes()},
	{name: "import-type", mistake: "An import has the wrong type.", file: importing(abi.Module, "text").Bytes()},
	{name: "simd", mistake: "The compiler was told to use vector instructions.", file: providerModule(0).with(w.Op{0xfd, 0x0c}).Bytes()},
	{name: "threads", mistake: "The compiler was told to use atomic instructions.", file: providerModule(0).with(w.Op{0xfe, 0x03, 0x00}).Bytes()},
	{name: "memory-start", mistake: "The plugin's initial memory is larger than any plugin may have.", file: largeMemory().Bytes()},
	{name: "memory-table", mistake: "The plugin's initial memory is larger than its table allows.", file: providerModule(0).Bytes(), table: fileKeys(providerModule(0).Bytes()) + "\nmemory = \"64KiB\""},
	{name: "start-panics", mistake: "The plugin panics when it starts.", file: panicsAtStart().Bytes()},
	{name: "configure-status", mistake: "The plugin rejects its options, and says why.", file: rejectsOptions("option region is missing").Bytes()},
	{name: "configure-silent", mistake: "The plugin rejects its options, and does not say why.", file: rejectsOptions("").Bytes()},
	{name: "options-unknown", mistake: "An option is misspelled, in a provider.", file: withSchema().Bytes(), provider: `options = { retires = 3 }`},
	{name: "options-target", mistake: "An option has the wrong type, in a target.", file: withSchema().Bytes(), target: `, options = { retries = "3" }`},
	{name: "router-as-provider", mistake: "A router is used as a provider.", file: routerModule().Bytes()},
}

// callMistakes are mistakes that the first request reveals.
var callMistakes = []struct {
	name, mistake string
	file          []byte
	upstream      []string // events of the provider's response
	provider      string   // keys of the provider; "" for the default paths and headers
	filters       bool     // whether the module is a filter for requests to another provider
}{
	{name: "body-not-json", mistake: "The plugin writes a body of its own that is not JSON.", file: requestMistake(`{"model": "m", "messages": [}`, func(m *translator) w.Op {
		return w.Code(w.I32Const(1100), w.I32Const(8), m.call("request_path"), w.Drop, m.data(), m.call("request_write"), w.I32Const(0))
	})},
	{name: "filter-trap", mistake: "A filter traps.", filters: true, file: filterMistake("", func(m *translator) w.Op { return w.Unreachable })},
	{name: "filter-tag", mistake: "A filter sets a tag that its table does not list, and returns the result of tag.", filters: true, file: filterMistake("pii", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("tag"))
	})},
	{name: "filter-replace", mistake: "A filter replaces more text than there is, and returns the result of replace.", filters: true, file: filterMistake("***", func(m *translator) w.Op {
		return w.Code(w.I32Const(0), w.I32Const(10_000), m.data(), m.call("replace"))
	})},
	{name: "filter-hold", mistake: "A filter holds back more text than it may, and returns the result of hold.", filters: true, file: filterMistake("", func(m *translator) w.Op {
		return w.Code(w.I32Const(2000), m.call("hold"))
	})},
	{name: "path-rejected", mistake: "The path of the request is not in the provider's paths.", file: requestMistake("/v2/chat", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("request_path"))
	})},
	{name: "path-rejected-ignored", mistake: "The plugin ignores the result of request_path.", file: requestMistake("/v1/chat?key=1&x=%zz", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("request_path"), w.Drop, w.I32Const(0))
	})},
	{name: "path-repeats-prompt", mistake: "The path contains the client's prompt, which must not be logged.", file: requestMistake("/v2/"+canary, func(m *translator) w.Op {
		return w.Code(m.data(), m.call("request_path"))
	})},
	{name: "path-relative", mistake: "The path has no leading slash.", file: requestMistake("v1/chat", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("request_path"))
	})},
	{name: "path-missing", mistake: "The plugin forgets the path.", file: requestMistake("", func(m *translator) w.Op { return w.I32Const(0) })},
	{name: "header-rejected", mistake: "The header is not in the provider's headers.", file: requestMistake("x-version", func(m *translator) w.Op {
		return w.Code(m.data(), m.data(), m.call("request_header"))
	})},
	{name: "header-reserved", mistake: "The plugin sets the header of the credential.", file: requestMistake("Authorization", func(m *translator) w.Op {
		return w.Code(m.data(), m.data(), m.call("request_header"))
	})},
	{name: "header-invalid", mistake: "The name of a header has a space in it.", file: requestMistake("x version", func(m *translator) w.Op {
		return w.Code(m.data(), m.data(), m.call("request_header"))
	})},
	{name: "request-and-response", mistake: "The plugin both builds a request and responds itself.", file: requestMistake("/v1/chat", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("request_path"), w.I32Const(0), w.I32Const(0), m.data(), m.call("text"))
	})},
	{name: "response-without-done", mistake: "The plugin responds without an upstream request, and does not call done.", file: requestMistake("Hello", func(m *translator) w.Op {
		return w.Code(w.I32Const(0), w.I32Const(0), m.data(), m.call("text"), w.I32Const(0))
	})},
	{name: "status", mistake: "The plugin fails, and logs why.", file: requestMistake("member messages/0/content has no text", func(m *translator) w.Op {
		return w.Code(w.I32Const(3), m.data(), m.call("log"), w.I32Const(1))
	})},
	{name: "status-silent", mistake: "The plugin fails, and does not say why.", file: requestMistake("", func(m *translator) w.Op { return w.I32Const(1) })},
	{name: "panic-go", mistake: "A plugin in Go panics.", file: requestMistake("panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.(*mine).message(0x1c0a000, {0x1, 0x2})\n\t/home/me/mine/plugin.go:42 +0x2c\nmain.(*mine).Request(...)\n", func(m *translator) w.Op {
		return w.Code(m.writeStderr(), w.I32Const(2), m.call("proc_exit"), w.I32Const(0))
	})},
	{name: "panic-rust", mistake: "A plugin in Rust panics.", file: requestMistake("thread '<unnamed>' panicked at src/lib.rs:42:13:\nindex out of bounds: the len is 3 but the index is 3\n", func(m *translator) w.Op {
		return w.Code(m.writeStderr(), w.Unreachable)
	})},
	{name: "panic-rust-old", mistake: "A plugin in Rust panics, compiled by 1.63.", file: requestMistake("thread '<unnamed>' panicked at 'index out of bounds: the len is 3 but the index is 3', src/lib.rs:42:13\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n", func(m *translator) w.Op {
		return w.Code(m.writeStderr(), w.Unreachable)
	})},
	{name: "panic-c", mistake: "An assertion of a plugin in C fails.", file: requestMistake("Assertion failed: n < 3 (plugin.c: message: 42)\n", func(m *translator) w.Op {
		return w.Code(m.writeStderr(), w.Unreachable)
	})},
	{name: "panic-c-abort", mistake: "A plugin in C calls abort.", file: requestMistake("", func(m *translator) w.Op { return w.Unreachable })},
	{name: "panic-assemblyscript", mistake: "A plugin in AssemblyScript throws an error.", file: requestMistake("\x24\x00\x00\x00I\x00n\x00d\x00e\x00x\x00 \x00o\x00u\x00t\x00 \x00o\x00f\x00 \x00r\x00a\x00n\x00g\x00e\x00\x12\x00\x00\x00p\x00l\x00u\x00g\x00i\x00n\x00.\x00t\x00s\x00", func(m *translator) w.Op {
		return w.Code(w.I32Const(4), w.I32Const(4+36+4), w.I32Const(42), w.I32Const(13), m.call("abort"), w.I32Const(0))
	})},
	{name: "address-load", mistake: "The plugin reads outside of its memory.", file: requestMistake("", func(m *translator) w.Op {
		return w.Code(w.I32Const(-4), w.I32Load)
	})},
	{name: "address-import", mistake: "The plugin passes a string that is not in its memory.", file: requestMistake("", func(m *translator) w.Op {
		return w.Code(w.I32Const(-4), w.I32Const(100), m.call("request_path"))
	})},
	{name: "divide-by-zero", mistake: "The plugin divides by zero.", file: requestMistake("", func(m *translator) w.Op {
		return w.Code(w.I32Const(1), w.I32Const(0), w.I32DivS)
	})},
	{name: "out-of-fuel", mistake: "The plugin loops forever.", file: requestMistake("", func(m *translator) w.Op {
		return w.Code(w.Loop(w.Void, w.Br(0)), w.I32Const(0))
	})},
	{name: "recursion", mistake: "The plugin calls itself forever.", file: requestMistake("", func(m *translator) w.Op {
		return w.Code(w.Call(m.translateIndex), w.I32Const(1), w.I32Add)
	})},
	{name: "memory-limit", mistake: "The plugin needs more memory than it may have.", file: requestMistake("memory allocation of 200000000 bytes failed\n", func(m *translator) w.Op {
		return w.Code(w.I32Const(4000), w.MemoryGrow, w.Drop, m.writeStderr(), w.Unreachable)
	})},
	{name: "output-limit", mistake: "The plugin writes far more than its input.", file: requestMistake("lorem ipsum", func(m *translator) w.Op {
		return w.Code(w.Loop(w.Void, w.I32Const(0), w.I32Const(60000), m.call("request_write"), w.Br(0)), w.I32Const(0))
	})},
	{name: "import-not-now", mistake: "The plugin uses an import in a call in which it is not available.", file: requestMistake("gpt", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("model"), w.I32Const(0))
	})},
	{name: "import-unknown", mistake: "The plugin uses an import that this version of the plugin ABI does not have.", file: requestMistake("https://api.example.com/v1/chat", func(m *translator) w.Op {
		return w.Code(m.data(), m.call("request_url"), w.I32Const(0))
	})},
	{name: "number-unknown", mistake: "The plugin passes a number that is not defined.", file: requestMistake("", func(m *translator) w.Op {
		return w.Code(w.I32Const(7), m.call("done"), w.I32Const(0))
	})},
	{name: "text-not-utf8", mistake: "The plugin passes a string that is not UTF-8.", file: requestMistake("\xff\xfe", func(m *translator) w.Op {
		return w.Code(m.data(), m.data(), m.call("tool_alias"))
	})},
	{name: "event-trap", mistake: "The plugin traps in provider_event.", upstream: []string{"{}"}, file: eventMistake("", func(m *translator) w.Op { return w.Unreachable })},
	{name: "event-without-done", mistake: "The plugin does not mark the response as complete.", upstream: []string{"{}"}, file: eventMistake("{}", func(m *translator) w.Op {
		call := w.Code(w.I32Const(0), w.I32Const(1), m.data(), m.data(), m.call("tool_call"))
		return w.Code(call, call, w.I32Const(0))
	})},
	{name: "event-nothing", mistake: "The plugin produces nothing from the provider's response.", upstream: []string{"{}"}, file: eventMistake("", func(m *translator) w.Op { return w.I32Const(0) })},
}

// TestPluginCallErrors sends a request to the model of each mistake.
func TestPluginCallErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the gateway's binary")
	}
	dir := t.TempDir()
	var config strings.Builder
	config.WriteString("[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"\"\n[[keys]]\nname = \"me\"\nsecret = \"sk-me-0123456789\"\n")
	for _, m := range callMistakes {
		if err := os.WriteFile(filepath.Join(dir, m.name+".wasm"), m.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if m.provider == "" {
			m.provider = "paths = [\"/v1/chat\", \"/v1/models/*\"]\nheaders = [\"x-beta\"]"
		}
		upstream := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
		if m.upstream != nil {
			script := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream()}
			for _, e := range m.upstream {
				script = append(script, upstreamtest.Chunk("data: "+e+"\n\n"))
			}
			upstream = upstreamtest.New(t, append(script, upstreamtest.LastChunk()))
		}
		if m.filters {
			fmt.Fprintf(&config, "[plugins.%[1]s]\nfile = \"%[1]s.wasm\"\nsha256 = \"%[2]x\"\n[[filters]]\nplugin = %[1]q\nmodels = [%[1]q]\n[[models]]\nid = %[1]q\ntargets = [{ provider = \"event-trap\", model = \"m\" }]\n",
				m.name, sha256.Sum256(m.file))
			continue
		}
		fmt.Fprintf(&config, "[plugins.%[1]s]\nfile = \"%[1]s.wasm\"\nsha256 = \"%[2]x\"\n[providers.%[1]s]\nplugin = %[1]q\nbase_url = %[3]q\n%[4]s\n[[models]]\nid = %[1]q\ntargets = [{ provider = %[1]q, model = \"m\" }]\n",
			m.name, sha256.Sum256(m.file), upstream.URL(), m.provider)
	}
	if err := os.WriteFile(filepath.Join(dir, "gateway.toml"), []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	g := serveBinary(t, dir, "serve", "--quiet", "--watch=false", "--cache", "")
	client := &http.Client{Transport: &http.Transport{}, Timeout: proxytest.EventTimeout}
	defer client.CloseIdleConnections()
	for _, m := range callMistakes {
		t.Run(m.name, func(t *testing.T) {
			status, answer, err := post(client, &proxytest.Gateway{URL: g.url}, "sk-me-0123456789", canaryRequest(m.name, false))
			if err != nil {
				t.Fatal(err)
			}
			log := g.until("path=/v1/chat/completions")
			for i, line := range log {
				log[i] = sizes.ReplaceAllString(volatileAttributes.ReplaceAllString(line, ""), "${1}N")
			}
			read := strings.Join(log, "\n")
			if strings.Contains(read, canary) {
				t.Errorf("the log contains the client's prompt: %s", read)
			}
			goldenError(t, m.name, fmt.Sprintf("# %s\n\n$ sluice serve\n%s\n\nThe client receives %d:\n%s\n", m.mistake, read, status, strings.TrimSpace(regexp.MustCompile(`"req_\w+"`).ReplaceAllString(answer, `"REQUEST"`))))
		})
	}
}

// volatileAttributes matches the attributes of a log line that differ between requests, or do not help a plugin's
// author.
var volatileAttributes = regexp.MustCompile(`time=\S+ |(?: (?:request|fuel|remote|bytes|duration_ms|first_byte_ms|plugin_fuel|peer|client|key|method|path|bytes_in|bytes_out|upstream_request|generation|attempts|stream|complete|user_agent|target|model|\w*_ms|\w*tokens)=(?:"[^"]*"|\S*))`)

// sizes matches numbers that depend on the length of the request's summary.
var sizes = regexp.MustCompile(`(: all |request_write: more than |the limit for an input of )\d+`)

// served is a gateway in a separate process.
type served struct {
	t     *testing.T
	url   string
	lines chan string
}

// serveBinary starts the gateway in a directory and waits until it listens. The process is killed when the test ends.
func serveBinary(t *testing.T, dir string, args ...string) *served {
	t.Helper()
	cmd := exec.Command(proxytest.Binary(t, proxytest.BinaryOptions{Bare: true}), args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, lines: make(chan string, 10_000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.lines)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	started := s.until("msg=listening")
	for field := range strings.FieldsSeq(started[len(started)-1]) {
		if address, ok := strings.CutPrefix(field, "address="); ok {
			s.url = "http://" + address
		}
	}
	return s
}

// until waits for a line of the log that contains a text, and returns the lines up to and including it.
func (s *served) until(text string) (lines []string) {
	s.t.Helper()
	timeout := time.NewTimer(proxytest.EventTimeout)
	defer timeout.Stop()
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the gateway exited; its log is\n%s", strings.Join(lines, "\n"))
			}
			if lines = append(lines, line); strings.Contains(line, text) {
				return lines
			}
		case <-timeout.C:
			s.t.Fatalf("the log has no line with %q:\n%s", text, strings.Join(lines, "\n"))
		}
	}
}

// TestPluginLoadErrors runs sluice check on each mistake.
func TestPluginLoadErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("runs fifty processes")
	}
	binary := proxytest.Binary(t, proxytest.BinaryOptions{Bare: true})
	for _, m := range loadMistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if m.file != nil {
				if err := os.WriteFile(filepath.Join(dir, "mine.wasm"), m.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			table := m.table
			if table == "" {
				table = fileKeys(m.file)
			}
			if m.provider != "" {
				m.provider += "\n"
			}
			text := "[plugins.mine]\n" + table + "\n\n[providers.mine]\nplugin = \"mine\"\nbase_url = \"http://127.0.0.1:8000\"\npaths = [\"/v1/chat\"]\n" +
				m.provider + "\n[[models]]\nid = \"mine\"\ntargets = [{ provider = \"mine\", model = \"m\"" + m.target + " }]\n"
			if err := os.WriteFile(filepath.Join(dir, "gateway.toml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), binary, "check", "--cache", "")
			cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
				t.Fatalf("exit code %d: %s", cmd.ProcessState.ExitCode(), &stderr)
			}
			digest := fmt.Sprintf("%x", sha256.Sum256(m.file))
			read := strings.ReplaceAll(regexp.MustCompile(`(?m)^Compil.*\n`).ReplaceAllString(stderr.String(), ""), digest, "DIGEST")
			goldenError(t, m.name, "# "+m.mistake+"\n\n"+strings.ReplaceAll(text, digest, "DIGEST")+"\n$ sluice check\n"+read)
		})
	}
}

// goldenError compares the messages that a plugin's author sees with the golden file of the mistake.
func goldenError(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "errors", name+".txt")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPluginErrorFilesAreUsed finds golden files without a mistake.
func TestPluginErrorFilesAreUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		known := false
		for _, m := range loadMistakes {
			known = known || m.name == name
		}
		for _, m := range callMistakes {
			known = known || m.name == name
		}
		if !known {
			t.Errorf("no mistake is named like %s", f)
		}
	}
}
