package loadtest_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

var (
	held   = flag.Int("held", 500, "number of concurrently open streams, and of sockets up to 5000")
	large  = flag.Int("large", 100, "number of concurrently open streams with prompts of 100 KB")
	silent = flag.Duration("silent", 2*time.Second, "how long the CPU time of silent streams is measured")
	phase  = flag.Duration("phase", time.Second, "how long each measurement under load lasts")
)

func TestMain(m *testing.M) {
	loadtest.RunRole()
	flag.Parse()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const key = "sk-loadtest-0123456789"

// gatewayConfig returns the configuration of a gateway with one OpenAI provider. server is added to [server].
func gatewayConfig(url, server string) string {
	return fmt.Sprintf(`[server]
%s
[[keys]]
name   = "load"
secret = %q
[providers.openai]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-loadtest-provider-0123456789" }
timeout  = { idle = "1h", total = "2h" }
[[models]]
id      = "m"
targets = [{ provider = "openai", model = "m" }]
`, server, key, url)
}

// chatRequest returns a chat completions request.
func chatRequest(prompt string, stream bool) *loadtest.Request {
	return &loadtest.Request{Key: key, Body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%t}`, prompt, stream)}
}

// printf prints measurements immediately, with or without -v, so that a test of several minutes shows progress.
func printf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func usage(t *testing.T, pid int) binarytest.Usage {
	t.Helper()
	u, err := binarytest.ReadUsage(pid)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// maxIdleConns is the maximum number of idle connections to a provider that a gateway keeps open.
const maxIdleConns = 64

// expectReleased waits until the gateway has no more descriptors than before, except for idle connections to the
// provider.
func expectReleased(t *testing.T, g *binarytest.Gateway, before binarytest.Usage) {
	t.Helper()
	last := binarytest.Usage{}
	released := binarytest.Await(func() bool {
		last = usage(t, g.PID)
		return last.Descriptors <= before.Descriptors+maxIdleConns
	})
	if !released {
		t.Errorf("%d descriptors are open, with %d before the load", last.Descriptors, before.Descriptors)
	}
}
