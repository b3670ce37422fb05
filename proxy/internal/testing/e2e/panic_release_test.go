package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// withBudgets gives every key and every provider of a configuration bothBudgets.
func withBudgets(toml string) string {
	for _, after := range []string{`models = ["*"]` + "\n", `auth = { secret = "sk-upstream-canary" }` + "\n"} {
		toml = strings.ReplaceAll(toml, after, after+bothBudgets+"\n")
	}
	return toml
}

// wantReleased waits until requests hold nothing, and checks what the budgets of each scope have spent. What is certain
// counts in both budgets of a scope.
func wantReleased(t *testing.T, g *proxytest.Gateway, admin string, want map[string][2]int64) {
	t.Helper()
	awaitReleased(t, admin)
	spent, held := readBudgets(t, admin)
	for scope, n := range held {
		if w := want[scope]; n != 0 || spent[scope] != 2*w[0]+w[1] {
			t.Errorf("%s: %d held and %d spent, want 0, and %d certain and %d uncertain spent", scope, n, spent[scope], w[0], w[1])
		}
	}
	if n := proxytest.Scrape(t, admin).Sum("sluice_panics_total"); n != 1 {
		t.Errorf("%v panics, want 1\n%s", n, g.Log)
	}
}

// TestPanicInHedgeRace panics while two attempts race. An attempt that has not won is cancelled, and what it holds is
// settled at what its provider may bill.
func TestPanicInHedgeRace(t *testing.T) {
	const prompt = 6 * 1000
	for _, c := range []struct {
		function  string
		body      string
		after     string // delay of the hedge
		fails     bool   // the first target fails, else it stays silent
		status    string
		uncertain map[string]int64
	}{
		{"(*race).run", askM, "1h", false, "500", map[string]int64{"key k": heldWhole, "provider a": heldWhole}},
		{"(*racer).Tick", askMStream, "1h", false, "500", map[string]int64{"key k": heldStream, "provider a": heldStream}},
		{"(*racer).charge", askM, "10ms", false, "500", map[string]int64{"key k": heldWhole + prompt, "provider a": prompt, "provider b": heldWhole}},
		{"(*racer).discard", askM, "10ms", false, "200", map[string]int64{"key k": prompt, "provider a": prompt}},
		{"(*racer).fail", askM, "10ms", true, "500", map[string]int64{"key k": prompt, "provider b": prompt}},
	} {
		t.Run(c.function, func(t *testing.T) {
			t.Parallel()
			sent, hedged := make(chan struct{}), make(chan struct{})
			first := up.Script{up.ReadRequest(), up.Signal(sent), up.AwaitClose()}
			hedge := up.Script{up.ReadRequest(), up.Wait(sent), respond("second"), up.AwaitClose()}
			if c.fails {
				first = up.Script{up.ReadRequest(), up.Wait(hedged), up.Answer(500, "application/json", busyError), up.AwaitClose()}
				hedge = up.Script{up.ReadRequest(), up.Signal(hedged), up.AwaitClose()}
			}
			if c.body == askMStream {
				first = up.Script{up.ReadRequest(), up.EventStream(), up.Signal(sent), up.AwaitClose()}
			}
			a, b := up.New(t, first), up.New(t, hedge)
			toml := withBudgets(twoTargets(a.URL(), b.URL(), "max_tokens = 4096\npricing = { input = 1, output = 10 }\nhedge = { after = \""+c.after+"\", budget = 1 }"))
			var traps trap
			g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.Now, o.StateDir = traps.now, t.TempDir() })
			admin := g.Admin(t)
			client := dial(t, g)
			if c.after == "10ms" {
				traps.arm(c.function)
			}
			client.post("one", c.body)
			if c.after == "1h" {
				<-sent
				traps.arm(c.function)
			}
			if head := client.readUntil("\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 "+c.status) {
				t.Errorf("got %s", head)
			}
			if !c.fails {
				awaitEnd(t, a)
			} else {
				awaitEnd(t, b)
			}
			g.Log.Request(t, "one")
			want := map[string][2]int64{}
			for scope, n := range c.uncertain {
				want[scope] = [2]int64{0, n}
			}
			if c.status == "200" {
				const whole = 5*1000 + 2*10_000
				for _, scope := range []string{"key k", "provider b"} {
					want[scope] = [2]int64{whole, c.uncertain[scope]}
				}
			}
			wantReleased(t, g, admin, want)
		})
	}
}

// TestPanicAfterRequestWasSent panics while the provider has a request: it may bill it.
func TestPanicAfterRequestWasSent(t *testing.T) {
	const arrived = 6*1000 + 2*10_000 // the prompt and two texts
	for name, c := range map[string]struct {
		body               string
		script             []up.Step
		certain, uncertain int64
	}{
		"document":           {askM, nil, 0, heldWhole},
		"stream":             {askMStream, nil, 0, heldStream},
		"after a first text": {askMStream, []up.Step{up.EventStream(), up.Chunk(text("Hal"), text("lo"))}, arrived, heldStream + 2*10_000 - arrived},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := up.New(t, append(append(up.Script{up.ReadRequest()}, c.script...), up.AwaitClose()))
			var traps trap
			g := proxytest.StartWith(t, withBudgets(unknownConfig(a.URL(), "", "")), func(o *proxy.Options) { o.Now, o.StateDir = traps.now, t.TempDir() })
			admin := g.Admin(t)
			traps.arm("(*completion).Tick")
			client := dial(t, g)
			client.post("one", c.body)
			client.readUntil(`"code":"internal_error"}}`)
			g.Log.Request(t, "one")
			wantReleased(t, g, admin, map[string][2]int64{"key k": {c.certain, c.uncertain}})
			if got, want := readMoney(t, admin), booked(c.certain, c.uncertain); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestPanicWhileSettling panics when a request is accounted: the first time, or so late that there is no second one.
func TestPanicWhileSettling(t *testing.T) {
	const whole = 5*1000 + 2*10_000
	for _, c := range []struct {
		function, body     string
		answer             up.Step
		certain, uncertain int64
	}{
		{"(*completion).settle", askM, respond("one"), whole, 0},
		{"(*completion).settle", askMStream, respondStream("one"), 6*1000 + 1*10_000, 0},
		{"(*completion).finish", askM, up.Reset(), 0, heldWhole},
	} {
		t.Run(c.function, func(t *testing.T) {
			t.Parallel()
			a := up.New(t, up.Script{up.ReadRequest(), c.answer, up.AwaitClose()})
			var traps trap
			g := proxytest.StartWith(t, withBudgets(unknownConfig(a.URL(), "", "")), func(o *proxy.Options) { o.Now, o.StateDir = traps.now, t.TempDir() })
			admin := g.Admin(t)
			traps.arm(c.function)
			client := dial(t, g)
			client.post("one", c.body)
			if err := client.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			client.readUntil("\r\n\r\n")
			proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
				return m.Sum("sluice_panics_total") == 1 && m.Sum("sluice_client_connections") == 0
			})
			wantReleased(t, g, admin, map[string][2]int64{"key k": {c.certain, c.uncertain}})
		})
	}
}

// TestPanicInShadowCopy panics in each step of a copy. The client's response is not affected.
func TestPanicInShadowCopy(t *testing.T) {
	const whole = 5*1000 + 2*10_000
	for _, c := range []struct {
		function           string
		answer             []up.Step
		certain, uncertain int64
		copies             float64
	}{
		{"(*mirror).copy", nil, 0, 0, 0},
		{"(*shadowCopy).Tick", nil, 0, heldWhole, 1},
		{"(*shadowCopy).end", []up.Step{respond("copied")}, whole, 0, 1},
	} {
		t.Run(c.function, func(t *testing.T) {
			t.Parallel()
			live := up.New(t, up.Script{up.ReadRequest(), respond("live"), up.AwaitClose()})
			copies := up.New(t, append(append(up.Script{up.ReadRequest()}, c.answer...), up.AwaitClose()))
			model := strings.Replace(strings.Replace(shadowedModel("m", 1, "copies/m"), "output = 2", "output = 10", 1), "[[models]]", "[[models]]\nmax_tokens = 4096", 1)
			toml := withBudgets(openAI("live", live.URL()) + openAI("copies", copies.URL()) + fmt.Sprintf("[[keys]]\nname = \"k\"\nsecret = %q\nmodels = [\"*\"]\n", proxytest.Key) + model)
			var traps trap
			g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.Now, o.StateDir = traps.now, t.TempDir() })
			admin := g.Admin(t)
			traps.arm(c.function)
			if r := g.Chat(t, askM); r.Status != 200 || !strings.Contains(r.Body, "live") {
				t.Errorf("got %d %s", r.Status, r.Body)
			}
			awaitCopies(t, admin, "m", c.copies)
			proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_panics_total") == 1 })
			wantReleased(t, g, admin, map[string][2]int64{"key k": {whole, 0}, "provider live": {whole, 0}, "provider copies": {c.certain, c.uncertain}})
		})
	}
}
