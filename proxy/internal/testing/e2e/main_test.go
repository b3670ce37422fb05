package e2e_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

func TestMain(m *testing.M) {
	selectShort()
	// fasthttp's cleaner of idle workers notices only when it wakes up, up to 10 s later, that its server has stopped.
	// The clock that all its servers share never stops.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// Neither do these two of its client, which the bare proxy of the benchmarks uses.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))
}

// scale returns the number of clients, requests or inputs that a test uses: all, or short with go test -short.
func scale(all, short int) int {
	if testing.Short() {
		return short
	}
	return all
}

// configuration returns the configuration of a gateway with the demo provider and the providers openai and anthropic at
// these URLs. If a URL is empty, the provider is unreachable. Timeouts are short, and the circuit breakers are
// disabled.
func configuration(openai, anthropic string) string {
	return fmt.Sprintf(`
[server]
heartbeat = "40ms"
max_body  = "1MiB"
%s
[[keys]]
name   = "narrow"
secret = "sk-narrow-0123456789"
models = ["demo*"]

[[keys]]
name    = "expired"
secret  = "sk-expired-0123456789"
models  = ["*"]
expires = 2020-01-01

[[keys]]
name     = "disabled"
secret   = "sk-disabled-0123456789"
models   = ["*"]
disabled = true

[providers.demo]
plugin = "demo"

[providers.openai]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-openai-canary" }
timeout  = { connect = "2s", first_byte = "3s", idle = "3s", total = "30s" }
breaker  = { enabled = false }

[providers.anthropic]
plugin   = "anthropic"
base_url = %q
auth     = { secret = "sk-upstream-anthropic-canary" }
timeout  = { connect = "2s", first_byte = "3s", idle = "3s", total = "30s" }
breaker  = { enabled = false }

[[models]]
id           = "demo"
display_name = "Demo"
owned_by     = "sluice"
created      = 2026-01-01
pricing      = { input = 0.25, output = 1 }
max_tokens   = 8192
thinking     = true
targets      = [{ provider = "demo", model = "demo" }]

[[models]]
id           = "gpt"
display_name = "GPT"
owned_by     = "openai"
created      = 2026-01-01
pricing      = { input = 2.5, output = 10 }
max_tokens   = 4096
targets      = [{ provider = "openai", model = "gpt-upstream" }]
retry        = { attempts = 1 }

[[models]]
id           = "claude"
display_name = "Claude"
owned_by     = "anthropic"
created      = 2026-01-01
pricing      = { input = 3, output = 15 }
max_tokens   = 64000
thinking     = true
targets      = [{ provider = "anthropic", model = "claude-upstream" }]
retry        = { attempts = 1 }

[[models]]
id           = "vendor/model-with/slashes"
display_name = "Slashes"
owned_by     = "sluice"
created      = 2026-01-01
pricing      = { input = 0, output = 0 }
targets      = [{ provider = "demo", model = "demo" }]

[[models]]
id           = "both"
display_name = "Both"
owned_by     = "sluice"
created      = 2026-01-01
pricing      = { input = 0, output = 0 }
targets      = [
  { provider = "openai", model = "gpt-upstream", priority = 1 },
  { provider = "anthropic", model = "claude-upstream", priority = 2 },
  { provider = "demo", model = "demo", fallback = true },
]

[router]
plugin   = "router"
strategy = "priority"
`, proxytest.Keys, orUnreachable(openai), orUnreachable(anthropic))
}

// orUnreachable returns the URL, or the URL of a closed port if it is empty, for a provider that a test does not use.
func orUnreachable(url string) string {
	if url == "" {
		return "http://127.0.0.1:1"
	}
	return url
}
