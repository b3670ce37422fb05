package soaktest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
)

const (
	clientKey    = "sk-soak-0123456789abcdef"
	writeTimeout = 6 * time.Second
)

// Guest is a plugin in two files that do the same and differ in their digest, so that a reload brings another plugin.
type Guest struct {
	files   [2]string
	digests [2]string
}

// NewGuest writes the files of a module into a folder.
func NewGuest(dir string, wasm []byte) (g Guest, err error) {
	for i := range g.files {
		if i > 0 {
			// A section of a name that nobody knows.
			name := fmt.Sprintf("soak %d", i)
			wasm = append(append(wasm[:len(wasm):len(wasm)], 0, byte(1+len(name)), byte(len(name))), name...)
		}
		g.files[i] = filepath.Join(dir, fmt.Sprintf("guest-%d.wasm", i))
		g.digests[i] = fmt.Sprintf("%x", sha256.Sum256(wasm))
		if err := os.WriteFile(g.files[i], wasm, 0o600); err != nil {
			return g, err
		}
	}
	return g, nil
}

// Configuration is the n-th configuration of a run; they differ in the guest, and in a model that comes and goes. Wrong keys
// are not limited, since those beyond the limit have no line in the log.
func (r *Run) Configuration(g Guest, n int) string {
	url, i := r.Provider.URL(), n&1
	provider := func(name, plugin, base, more string) string {
		return fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\ntimeout = { connect = \"2s\", first_byte = %q, idle = %q, total = \"5m\" }\n%s\n[[models]]\nid = %[1]q\ntargets = [{ provider = %[1]q, model = \"m\" }]\n",
			name, plugin, base, firstByte, idle, more)
	}
	return fmt.Sprintf("[server]\nmax_wrong_keys = 0\nheartbeat = \"500ms\"\nwrite_timeout = %q\nread_timeout = \"10s\"\nshutdown_timeout = \"20s\"\n[[keys]]\nname = \"soak\"\nsecret = %q\n", writeTimeout, clientKey) +
		fmt.Sprintf("[plugins.guest]\nfile = %q\nsha256 = %q\n", g.files[i], g.digests[i]) +
		provider(modelOpenAI, "openai", url+"/openai", "list_models = { every = \"1s\" }") +
		provider(modelAnthropic, "anthropic", url+"/anthropic", "auth = { secret = \"sk-soak-provider-0123456789\" }") +
		provider(modelGuest, "guest", url+"/guest", "paths = [\"/v1/chat\"]\nheaders = [\"x-allowed\"]") +
		provider(modelRefused, "openai", "http://127.0.0.1:1", "") +
		"[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n" +
		"[[models]]\nid = \"either\"\ntargets = [{ provider = \"openai\", model = \"e\" }, { provider = \"anthropic\", model = \"e\", fallback = true }]\n" +
		fmt.Sprintf("[[models]]\nid = %q\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n", modelOf(n))
}

// brokenConfiguration is one that must not be served: the old one stays.
func brokenConfiguration(n int) string {
	return []string{
		"[server]\nheartbeat = \n",
		"[server]\nheart_beat = \"1s\"\n",
		"[server]\n[providers.x]\nplugin = \"openai\"\nbase_url = \"${SOAK_IS_NOT_SET}\"\n",
		"[server]\n[providers.x]\nplugin = \"guest\"\n[plugins.guest]\nfile = \"nowhere.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n",
	}[n%4]
}

// The lines of the log that say what became of a configuration.
const (
	reloaded = "configuration reloaded"
	refused  = "reload failed; keeping the previous configuration"
)

// swaps counts configurations.
type swaps struct {
	lines           chan *binarytest.Line
	taken, notTaken atomic.Int64
}

func (s *swaps) line(l *binarytest.Line) {
	if l.Message == reloaded {
		s.taken.Add(1)
	}
	select {
	case s.lines <- l:
	default:
	}
}

// brokenRate is how many configurations share one that is broken.
const brokenRate = 7

// Swap puts one configuration in the place of the other, once a second, until stop is closed: every other one with a
// signal, the others to be noticed. Now and then one is broken.
func (r *Run) Swap(tb testing.TB, g *binarytest.Gateway, guest Guest, stop <-chan struct{}) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		case <-second.C:
			r.swap(tb, g, guest, n, n%2 == 0)
		}
	}
}

// swap puts the n-th configuration in place and waits for what the gateway says to it.
func (r *Run) swap(tb testing.TB, g *binarytest.Gateway, guest Guest, n int, signal bool) {
	toml, want, mark := r.Configuration(guest, n), reloaded, modelOf(n)
	if n%brokenRate == 0 {
		toml, want, mark = brokenConfiguration(n/brokenRate), refused, ""
		r.swaps.notTaken.Add(1)
	}
	for len(r.swaps.lines) > 0 {
		<-r.swaps.lines
	}
	g.WriteConfig(tb, toml)
	if signal {
		g.Signal(tb, syscall.SIGHUP)
	}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for {
		select {
		case l := <-r.swaps.lines:
			if l.Message == want && strings.Contains(l.Text, mark) {
				return
			}
		case <-timeout.C:
			r.Broken("configuration %d is not taken note of (signal %t)", n, signal)
			return
		}
	}
}

// Settle puts a last configuration in place: what idle connections the one before had are closed with it.
func (r *Run) Settle(tb testing.TB, g *binarytest.Gateway, guest Guest) {
	r.swap(tb, g, guest, -1, true)
}

// Swaps is how many configurations were taken over, and how many refused.
func (r *Run) Swaps() (taken, refused int64) { return r.swaps.taken.Load(), r.swaps.notTaken.Load() }

// modelOf is a model that only the n-th configuration has.
func modelOf(n int) string { return fmt.Sprintf("only-in-%d", n) }
