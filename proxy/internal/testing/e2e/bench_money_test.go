package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// BenchmarkBudgets compares the CPU time of requests, client and provider included, between gateways that account for
// nothing, for the budget of another key, for all requests in the ledger, for the key's own budget in memory, and for
// that budget in a journal. The gateways take turns, and each metric is the median over all rounds of the ratio to the
// named baseline, so that a busy machine has little influence. A ratio of 1.01 is one percent more.
func BenchmarkBudgets(b *testing.B) {
	provider := serveBench(b, fixedResponse("application/json", `{"id":"c","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"`+
		strings.Repeat("An answer of some words. ", 20)+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":120,"total_tokens":170}}`))
	const other = "[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\nbudgets = [{ usd = 1, per = \"day\" }]\n"
	const budget = `budgets = [{ usd = 1_000_000, per = "day" }]`
	kinds := []struct {
		name, key, more string
		state           bool
		baseline        int // index of the gateway to compare with
	}{
		{"nothing", "", "", false, 0}, {"nothing-again", "", "", false, 0}, {"budget-of-another-key", "", other, true, 0},
		{"ledger", "", "[store]\njournal = %q\n", true, 0}, {"budget-in-memory", budget, "", false, 0}, {"budget", budget, "", true, 4},
	}
	const rounds, perRound = 60, 100
	do := make([]func(), len(kinds))
	for i, k := range kinds {
		more := k.more
		if strings.Contains(more, "%q") {
			more = fmt.Sprintf(more, b.TempDir())
		}
		g := proxytest.StartWith(b, budgetConfiguration("http://"+provider, k.key, "", "", "")+more, func(o *proxy.Options) {
			if k.state {
				o.StateDir = b.TempDir()
			}
		})
		conn, err := net.Dial("tcp", g.Addr)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		r, body := bufio.NewReaderSize(conn, 64<<10), budgetRequest(100, false)
		request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", proxytest.Key, len(body), body)
		response := new(fasthttp.Response)
		do[i] = func() {
			if _, err := conn.Write(request); err != nil {
				b.Fatal(err)
			}
			if err := response.Read(r); err != nil || response.StatusCode() != 200 {
				b.Fatalf("%v: %d %s", err, response.StatusCode(), response.Body())
			}
		}
	}
	for b.Loop() {
		ratios := make([][]float64, len(kinds))
		for round := range rounds + 1 {
			took := make([]float64, len(kinds))
			for n := range kinds {
				i := (n + round) % len(kinds)
				began := cpu()
				for range perRound {
					do[i]()
				}
				took[i] = float64(cpu() - began)
			}
			if round == 0 {
				continue // warm-up
			}
			for i := range kinds {
				ratios[i] = append(ratios[i], took[i]/took[kinds[i].baseline])
			}
		}
		for i, k := range kinds[1:] {
			slices.Sort(ratios[i+1])
			b.ReportMetric(ratios[i+1][rounds/2], k.name+"/"+kinds[k.baseline].name)
		}
	}
}
