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

// Guest is a plugin in two files with the same code and different digests, so that reloads replace the plugin.
type Guest struct {
	files   [2]string
	digests [2]string
	journal string // folder of the gateway's journal
}

// NewGuest writes the files of a module into a folder.
func NewGuest(dir string, wasm []byte) (g Guest, err error) {
	g.journal = filepath.Join(dir, "journal")
	for i := range g.files {
		if i > 0 {
			// A custom section changes the digest.
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

// Configuration returns the n-th configuration of a run. They differ in the guest's file and in one model. Wrong keys
// are not limited, because requests above that limit are not logged.
func (r *Run) Configuration(g Guest, n int) string {
	url, i := r.Provider.URL(), n&1
	provider := func(name, plugin, base, more string) string {
		return fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\ntimeout = { connect = \"2s\", first_byte = %q, idle = %q, total = \"5m\" }\n%s\n[[models]]\nid = %[1]q\npricing = { input = 1, output = 10 }\ntargets = [{ provider = %[1]q, model = \"m\" }]\n",
			name, plugin, base, firstByteTimeout, idleTimeout, more)
	}
	return fmt.Sprintf("[server]\nmax_wrong_keys = 0\nheartbeat = \"500ms\"\nwrite_timeout = %q\nread_timeout = \"10s\"\nshutdown_timeout = \"20s\"\n[[keys]]\nname = \"soak\"\nsecret = %q\n", writeTimeout, clientKey) +
		fmt.Sprintf("[store]\njournal = %q\n[telemetry]\notlp = %q\ntraces = { sample = 1, per_second = 1000000 }\n", g.journal, r.collector.URL) +
		fmt.Sprintf("[plugins.guest]\nfile = %q\nsha256 = %q\n", g.files[i], g.digests[i]) +
		provider(modelOpenAI, "openai", url+"/openai", "list_models = { every = \"1s\" }") +
		provider(modelAnthropic, "anthropic", url+"/anthropic", "auth = { secret = \"sk-soak-provider-0123456789\" }") +
		provider(modelGuest, "guest", url+"/guest", "paths = [\"/v1/chat\"]\nheaders = [\"x-allowed\"]") +
		provider(modelRefused, "openai", "http://127.0.0.1:1", "") +
		"[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n" +
		"[[models]]\nid = \"either\"\npricing = { input = 1, output = 10 }\ntargets = [{ provider = \"openai\", model = \"e\" }, { provider = \"anthropic\", model = \"e\", fallback = true }]\n" +
		fmt.Sprintf("[[models]]\nid = %q\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n", markerModel(n))
}

// invalidConfiguration returns a configuration that must be rejected.
func invalidConfiguration(n int) string {
	return []string{
		"[server]\nheartbeat = \n",
		"[server]\nheart_beat = \"1s\"\n",
		"[server]\n[providers.x]\nplugin = \"openai\"\nbase_url = \"${SOAK_IS_NOT_SET}\"\n",
		"[server]\n[providers.x]\nplugin = \"guest\"\n[plugins.guest]\nfile = \"nowhere.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n",
	}[n%4]
}

// Messages of the log lines about reloads.
const (
	msgReloaded     = "configuration reloaded"
	msgReloadFailed = "reload failed; keeping the previous configuration"
)

// reloads counts reloads.
type reloads struct {
	lines             chan *binarytest.Line // log lines about reloads
	succeeded, failed atomic.Int64
}

func (s *reloads) recordLine(l *binarytest.Line) {
	if l.Message == msgReloaded {
		s.succeeded.Add(1)
	}
	select {
	case s.lines <- l:
	default:
	}
}

// invalidConfigRate is the number of configurations of which one is invalid.
const invalidConfigRate = 7

// ReloadRepeatedly replaces the configuration every second until stop is closed. Every other time it sends SIGHUP;
// otherwise the gateway must notice the change of the file. Some configurations are invalid.
func (r *Run) ReloadRepeatedly(tb testing.TB, g *binarytest.Gateway, guest Guest, stop <-chan struct{}) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		case <-second.C:
			r.reload(tb, g, guest, n, n%2 == 0)
		}
	}
}

// reload writes the n-th configuration and waits for the log line of the reload.
func (r *Run) reload(tb testing.TB, g *binarytest.Gateway, guest Guest, n int, signal bool) {
	toml, want, marker := r.Configuration(guest, n), msgReloaded, markerModel(n)
	if n%invalidConfigRate == 0 {
		toml, want, marker = invalidConfiguration(n/invalidConfigRate), msgReloadFailed, ""
		r.reloads.failed.Add(1)
	}
	for len(r.reloads.lines) > 0 {
		<-r.reloads.lines
	}
	g.WriteConfig(tb, toml)
	if signal {
		g.Signal(tb, syscall.SIGHUP)
	}
	timeout := time.NewTimer(tolerance)
	defer timeout.Stop()
	for {
		select {
		case l := <-r.reloads.lines:
			if l.Message == want && strings.Contains(l.Text, marker) {
				return
			}
		case <-timeout.C:
			r.Violation("no log line %q for configuration %d (signal %t)", want, n, signal)
			return
		}
	}
}

// Settle reloads a last time, which closes the idle connections of the previous configuration.
func (r *Run) Settle(tb testing.TB, g *binarytest.Gateway, guest Guest) {
	r.reload(tb, g, guest, -1, true)
}

// Reloads returns the numbers of successful and failed reloads.
func (r *Run) Reloads() (succeeded, failed int64) {
	return r.reloads.succeeded.Load(), r.reloads.failed.Load()
}

// markerModel returns the ID of a model that only the n-th configuration has.
func markerModel(n int) string { return fmt.Sprintf("only-in-%d", n) }
