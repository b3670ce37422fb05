//go:build linux && (amd64 || arm64) && !race

package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// guestMemory searches the memory of all guests in this process. It returns how often it contains each text, and its
// size in bytes. It consists of the private writable mappings that were not created by Go or the loader. The race
// detector creates such mappings, too.
func guestMemory(t *testing.T, texts ...string) (found map[string]int, size int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	found = map[string]int{}
	// Exclude the Go heap by its address, which differs between processes: only some kernels name its mappings.
	heap := uint64(uintptr(unsafe.Pointer(new([1 << 20]byte))))
	const near = 16 << 30
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var from, to, offset, inode uint64
		var rights, device, name string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &from, &to, &rights, &offset, &device, &inode); err != nil {
			t.Fatal(lines.Text(), err)
		}
		if f := strings.Fields(lines.Text()); len(f) > 5 {
			name = strings.Join(f[5:], " ")
		}
		if rights != "rw-p" || from+near > heap && from < heap+near || strings.HasPrefix(name, "[anon: Go") || strings.HasPrefix(name, "[stack") || strings.HasPrefix(name, "/") {
			continue
		}
		p := make([]byte, to-from)
		if _, err := memory.ReadAt(p, int64(from)); err != nil {
			continue // unmapped in the meantime
		}
		size += len(p)
		for _, text := range texts {
			found[text] += bytes.Count(p, []byte(text))
		}
		clear(p)
	}
	return found, size
}

// TestBundledPluginsHoldNoCredential sends requests through each bundled plugin to a provider that reflects everything
// it receives, and then searches the memory of all guests from outside. The search must find the client's prompt, but
// no credential.
func TestBundledPluginsHoldNoCredential(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the memory of every bundled plugin")
	}
	const prompt = "~pr0mpt-4711"
	kinds := credentialKinds(t)
	toml := quietServer + guest(t, "thief", "shared")
	models := []string{}
	add := func(plugin, credential, extra string) {
		s := upstreamtest.New(t, upstreamtest.Script{reflectRequest(401), reflectRequest(500), reflectRequest(200)})
		toml += fmt.Sprintf("[providers.%s]\nplugin = %[1]q\nbase_url = %q\nauth = %s\n%s\n", plugin, s.URL(), kinds[credential], extra)
		toml += fmt.Sprintf("[[models]]\nid = %[1]q\nmax_tokens = 1000\ntargets = [{ provider = %[1]q, model = %q }]\n", plugin, map[bool]string{true: mask(secret), false: "m"}[plugin == "thief"])
		models = append(models, plugin)
	}
	add("thief", "query", "paths = [\"/v1/chat\"]\nheaders = [\"x-found\"]")
	add("openai", "azure", "")
	add("anthropic", "header", "")
	add("gemini", "account", "")
	add("bedrock", "aws", "")
	add("cohere", "bearer", "")
	add("ollama", "prefix", "")
	g := proxytest.Start(t, toml)
	for _, model := range models {
		for range 2 {
			r := g.Chat(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, prompt))
			if r.Status < 400 || strings.Contains(r.Body, secret) {
				t.Errorf("%s: %d %s", model, r.Status, r.Body)
			}
			if !strings.Contains(r.Body, `"upstream_status":`) {
				t.Errorf("%s: the error is not the provider's: %d %s", model, r.Status, r.Body)
			}
		}
	}
	found, size := guestMemory(t, secret, prompt)
	if found[secret] > 0 {
		t.Errorf("guests' memory contains credentials %d times", found[secret])
	}
	if found[prompt] == 0 || size < 1<<20 {
		t.Errorf("the search does not find the prompt in %d bytes", size)
	}
	t.Logf("searched %d bytes and found the prompt %d times", size, found[prompt])
}
