package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestKeyRotationUnderLoad rotates a key as docs/operations.md says, while 8 clients use it: no request fails, and the
// key's budget counts what both secrets have spent.
func TestKeyRotationUnderLoad(t *testing.T) {
	b := newBiller(t)
	const before, after = "sk-before-0123456789", "sk-after-0123456789"
	digest := func(secret string) string {
		return fmt.Sprintf("%q", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(secret))))
	}
	toml := func(line string) string {
		text := budgetConfiguration(b.URL, `budgets = [{ usd = 1, per = "total" }]`, "", "", "")
		return strings.Replace(text, fmt.Sprintf("secret = %q", proxytest.Key), line, 1)
	}
	g := proxytest.Start(t, toml("digest = "+digest(before)))
	var secret atomic.Pointer[string]
	use := func(s string) { secret.Store(&s) }
	use(before)
	var stop atomic.Bool
	var served atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for !stop.Load() {
				if r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(10, false), "Authorization: Bearer "+*secret.Load()); r.Status != 200 {
					t.Errorf("%d %s", r.Status, r.Body)
					return
				}
				served.Add(1)
			}
		})
	}
	await := func() {
		from := served.Load()
		eventually(t, "requests are served", func() bool { return served.Load() > from+40 || t.Failed() })
	}
	reload := func(line string) {
		if err := g.Reload(t, toml(line)); err != nil {
			t.Error(err)
		}
	}
	await()
	reload("digests = [" + digest(before) + ", " + digest(after) + "]")
	await()
	use(after)
	await() // requests with the old secret have ended
	reload("digest = " + digest(after))
	await()
	stop.Store(true)
	all.Wait()
	if r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(10, false), "Authorization: Bearer "+before); r.Status != 401 {
		t.Errorf("the old secret after the rotation: %d %s", r.Status, r.Body)
	}
	if spent := budgetSpent(t, g); spent != b.billed.Load() {
		t.Errorf("the key has spent %d of its budget, want %d", spent, b.billed.Load())
	}
}

// budgetSpent returns what is spent of the only budget, in nano-dollars.
func budgetSpent(t *testing.T, g *proxytest.Gateway) int64 {
	t.Helper()
	return int64(proxytest.Scrape(t, g.Admin(t)).Sum("sluice_budget_spent_usd")*1e9 + 0.5)
}
