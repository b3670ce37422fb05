package e2e_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

func TestMain(m *testing.M) {
	selectShort()
	// fasthttp's cleaner of idle workers notices that its server has stopped when it wakes up, up to 10 s later.
	// Its clock, which the process shares, never stops.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// So do these two of its client, which is the bare proxy of the benchmarks.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))
}

// scale returns a number of clients, requests or inputs: all of them, or fewer with go test -short.
func scale(all, short int) int {
	if testing.Short() {
		return short
	}
	return all
}

// configuration is a gateway with the providers openai and anthropic at these addresses, an empty one being that of
// nobody, and the demo. Its waits are short, and no failure has consequences for the next request.
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
`, proxytest.Keys, orNobody(openai), orNobody(anthropic))
}

// orNobody is an address that nobody listens at, for a provider that a test does not use.
func orNobody(url string) string {
	if url == "" {
		return "http://127.0.0.1:1"
	}
	return url
}
