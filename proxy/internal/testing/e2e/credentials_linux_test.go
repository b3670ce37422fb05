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

// guestMemory returns how often each text stands in the memories of the guests of this process, and how many bytes those
// are. They are the private mappings that can be written to and that neither Go nor the loader made. The race detector
// makes such ones, too.
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
	// The heap grows from one place, which is another in each process; kernels that can name it are few.
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
			continue // another thread has unmapped it
		}
		size += len(p)
		for _, text := range texts {
			found[text] += bytes.Count(p, []byte(text))
		}
		clear(p)
	}
	return found, size
}

// TestBundledPluginsHoldNoCredential has each plugin that ships talk to a provider that reflects everything it
// receives, then searches the memories of all guests from outside. The client's words, and what a plugin keeps on
// purpose, are there, which shows that the search works.
func TestBundledPluginsHoldNoCredential(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the memory of every bundled plugin")
	}
	const said = "~pr0mpt-4711"
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
			r := g.Chat(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, said))
			if r.Status < 400 || strings.Contains(r.Body, secret) {
				t.Errorf("%s: %d %s", model, r.Status, r.Body)
			}
			if !strings.Contains(r.Body, `"upstream_status":`) {
				t.Errorf("%s: the provider did not answer: %d %s", model, r.Status, r.Body)
			}
		}
	}
	found, size := guestMemory(t, secret, said)
	if found[secret] > 0 {
		t.Errorf("credentials were found %d times", found[secret])
	}
	if found[said] == 0 || size < 1<<20 {
		t.Errorf("the search found nothing in %d bytes", size)
	}
	t.Logf("%d bytes searched, the prompt was found %d times", size, found[said])
}
