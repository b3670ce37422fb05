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
	held   = flag.Int("held", 500, "streams held open at once")
	large  = flag.Int("large", 100, "streams held open at once whose prompts have 100 KB")
	silent = flag.Duration("silent", 2*time.Second, "how long held streams are silent while the processor time is measured")
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

// gateway is the configuration of a gateway in front of one provider of the convention. more goes into [server].
func gateway(url, more string) string {
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
`, more, key, url)
}

// ask is a request for a completion.
func ask(prompt string, stream bool) *loadtest.Request {
	return &loadtest.Request{Key: key, Body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%t}`, prompt, stream)}
}

// say prints a figure at once: with -v as without, a test of minutes must not be silent.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func usage(t *testing.T, pid int) binarytest.Usage {
	t.Helper()
	u, err := binarytest.ReadUsage(pid)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// keeps is how many idle connections to a provider a gateway keeps.
const keeps = 64

// expectCalm waits until the gateway has no more descriptors than before, but for the connections that it keeps.
func expectCalm(t *testing.T, g *binarytest.Gateway, before binarytest.Usage) {
	t.Helper()
	last := binarytest.Usage{}
	calm := binarytest.Await(func() bool {
		last = usage(t, g.PID)
		return last.Descriptors <= before.Descriptors+keeps
	})
	if !calm {
		t.Errorf("%d descriptors are open, %d were before", last.Descriptors, before.Descriptors)
	}
}
