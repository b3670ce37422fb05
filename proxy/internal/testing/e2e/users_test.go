package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// usersConfiguration returns a configuration whose key has users.
func usersConfiguration(url, users string) string {
	return budgetConfiguration(url, "users = { "+users+" }", "", "", "")
}

// userChat sends a request of a user in the header x-user-id; "" sends no header.
func userChat(t *testing.T, g *proxytest.Gateway, user string, maxTokens int) *proxytest.Reply {
	t.Helper()
	headers := []string{"Authorization: Bearer " + proxytest.Key}
	if user != "" {
		headers = append(headers, "x-user-id: "+user)
	}
	return g.Do(t, "POST", "/v1/chat/completions", budgetRequest(maxTokens, false), headers...)
}

// stopped returns a clock that stands still, so that no limit per minute recovers.
func stopped() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

// expect checks the status of a response and a part of its body.
func expect(t *testing.T, what string, r *proxytest.Reply, status int, part string) {
	t.Helper()
	if r.Status != status || !strings.Contains(r.Body, part) {
		t.Errorf("%s: got %d %s, want %d and %q", what, r.Status, r.Body, status, part)
	}
}

// TestUsers checks that people behind one key have limits and budgets of their own, that a restart gives nothing back, and
// that the log and the ledger name them.
func TestUsers(t *testing.T) {
	b, dir, clock := newBiller(t), t.TempDir(), stopped()
	start := func() *proxytest.Gateway {
		return proxytest.StartWith(t, usersConfiguration(b.URL, `from = "x-user-id", limits = { requests_per_minute = 4 }, budgets = [{ usd = 0.025, per = "total" }]`), func(o *proxy.Options) { o.StateDir, o.Now = dir, clock })
	}
	g := start()
	r := userChat(t, g, "ann@example.com", 1000)
	expect(t, "the first request", r, 200, "")
	if left := r.Header.Get("X-Ratelimit-Remaining-Requests"); left != "3" {
		t.Errorf("%s requests remain, want 3", left)
	}
	if line := g.Log.Request(t, r.RequestID()); line["key"] != "tests" || line["user"] != "ann@example.com" {
		t.Errorf("got log line %v", line)
	}
	expect(t, "within the budget", userChat(t, g, "ann@example.com", 1000), 200, "")
	expect(t, "beyond the budget", userChat(t, g, "ann@example.com", 1100), 429, "is left of the total budget of the user tests/ann@example.com")
	for range 4 {
		expect(t, "another user", userChat(t, g, "bob", 10), 200, "")
	}
	expect(t, "beyond the limit", userChat(t, g, "bob", 10), 429, "The user is limited to 4 requests per minute.")
	for range 6 {
		expect(t, "nobody", userChat(t, g, "", 10), 200, "")
	}
	if n := proxytest.Scrape(t, g.Admin(t)).Sum("sluice_key_rejected_total"); n != 2 {
		t.Errorf("%v rejections of the key are counted, want 2", n)
	}
	if _, text := proxytest.Get(t, g.Admin(t)+"/metrics"); strings.Contains(text, "ann@") {
		t.Error("metrics name a user")
	}
	if _, list := proxytest.Get(t, g.Admin(t)+"/budgets?scope=user&name=tests/ann@example.com"); strings.Count(list, `"scope":`) != 1 || !strings.Contains(list, `"name":"tests/ann@example.com"`) {
		t.Errorf("got budgets %s", list)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	g = start()
	expect(t, "after a restart", userChat(t, g, "ann@example.com", 1100), 429, "budget of the user")
	_, body := proxytest.Get(t, g.Admin(t)+"/usage?by=key,user")
	for _, want := range []string{
		`"key":"tests","user":"ann@example.com","requests":2,`, `"key":"tests","user":"bob","requests":4,`, `"key":"tests","user":"","requests":6,`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the ledger has no %s in %s", want, body)
		}
	}
}

// TestUserNames checks where a request may name its user, and which names are refused.
func TestUserNames(t *testing.T) {
	b := newBiller(t)
	body := func(member string) string {
		return `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"Hello"}]` + member + "}"
	}
	for name, c := range map[string]struct {
		users, path, body string
		headers           []string
		status            int
		code              string
		user              string
	}{
		"user":                       {`from = "body", required = true`, "/v1/chat/completions", body(`,"user":"ann"`), nil, 200, "", "ann"},
		"safety_identifier":          {`from = "body", required = true`, "/v1/chat/completions", body(`,"safety_identifier":"a\u006en"`), nil, 200, "", "ann"},
		"metadata.user_id":           {`from = "body", required = true`, "/v1/messages", body(`,"metadata":{"user_id":"ann"}`), nil, 200, "", "ann"},
		"of a response":              {`from = "body", required = true`, "/v1/responses", `{"model":"m","max_output_tokens":10,"input":"Hello","user":"ann"}`, nil, 200, "", "ann"},
		"missing":                    {`from = "body", required = true`, "/v1/chat/completions", body(""), nil, 400, "missing_user", ""},
		"empty":                      {`from = "body", required = true`, "/v1/chat/completions", body(`,"user":""`), nil, 400, "missing_user", ""},
		"a header instead of a body": {`from = "body", required = true`, "/v1/chat/completions", body(""), []string{"x-user-id: ann"}, 400, "missing_user", ""},
		"in a header":                {`from = "X-User-ID", required = true`, "/v1/chat/completions", body(`,"user":"other"`), []string{"x-user-id: ann"}, 200, "", "ann"},
		"no header":                  {`from = "x-user-id", required = true`, "/v1/chat/completions", body(`,"user":"ann"`), nil, 400, "missing_user", ""},
		"an empty header":            {`from = "x-user-id", required = true`, "/v1/chat/completions", body(""), []string{"x-user-id:  "}, 400, "missing_user", ""},
		"too long":                   {`from = "x-user-id"`, "/v1/chat/completions", body(""), []string{"x-user-id: " + strings.Repeat("a", 257)}, 400, "invalid_user", ""},
		"a control character":        {`from = "body"`, "/v1/chat/completions", body(`,"user":"a\nb"`), nil, 400, "invalid_user", ""},
		"a pseudonym":                {`from = "body", pseudonym = true`, "/v1/chat/completions", body(`,"user":"ann"`), nil, 200, "", "p-"},
	} {
		t.Run(name, func(t *testing.T) {
			g := proxytest.Start(t, "[router]\nsalt = \"seasoning\"\n"+usersConfiguration(b.URL, c.users))
			r := g.Do(t, "POST", c.path, c.body, append([]string{"Authorization: Bearer " + proxytest.Key}, c.headers...)...)
			expect(t, "the response", r, c.status, c.code)
			line := g.Log.Request(t, r.RequestID())
			if user := line["user"]; user != c.user && (c.user != "p-" || !strings.HasPrefix(user, "p-") || len(user) != 22) {
				t.Errorf("the log names user %q, want %q", user, c.user)
			}
			if strings.Contains(r.Body, "ann") && c.status != 200 {
				t.Errorf("the error repeats a name: %s", r.Body)
			}
		})
	}
}

// TestUsersBeyondMax checks that users beyond the number that are counted separately share the limits of one.
func TestUsersBeyondMax(t *testing.T) {
	b := newBiller(t)
	g := proxytest.StartWith(t, usersConfiguration(b.URL, `from = "x-user-id", max = 3, limits = { requests_per_minute = 2 }`), func(o *proxy.Options) { o.StateDir, o.Now = t.TempDir(), stopped() })
	for n := range 3 {
		expect(t, "a user", userChat(t, g, fmt.Sprint("user-", n), 10), 200, "")
	}
	for n := range 2 {
		r := userChat(t, g, fmt.Sprint("late-", n), 10)
		expect(t, "a further user", r, 200, "")
		if line := g.Log.Request(t, r.RequestID()); line["user"] != "other" {
			t.Errorf("got log line %v", line)
		}
	}
	expect(t, "one too many", userChat(t, g, "late-3", 10), 429, "The user is limited to 2 requests per minute.")
	expect(t, "a user counted separately", userChat(t, g, "user-1", 10), 200, "")
}

// TestExplainUser checks that an explanation names the user, and needs one where requests do.
func TestExplainUser(t *testing.T) {
	b := newBiller(t)
	g := proxytest.Start(t, usersConfiguration(b.URL, `from = "x-user-id", required = true`))
	r := proxy.ExplainRequest{Model: "m", Key: "tests"}
	if _, err := g.Server.Explain(t.Context(), &r); err == nil || !strings.Contains(err.Error(), "missing_user") {
		t.Errorf("without a user: %v", err)
	}
	r.Headers = map[string]string{"x-user-id": "ann"}
	if got, err := g.Server.Explain(t.Context(), &r); err != nil || !strings.Contains(string(got.Text), "user      ann\n") || !strings.Contains(string(got.JSON), `"user":"ann"`) {
		t.Errorf("got %s, %v", got.Text, err)
	}
}
