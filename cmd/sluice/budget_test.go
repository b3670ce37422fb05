package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// budgetRow is a line of `sluice budget --format json`.
type budgetRow struct {
	Limit  float64 `json:"limit_usd"`
	Raised float64 `json:"raised_usd"`
	Spent  float64 `json:"spent_usd"`
	Left   float64 `json:"left_usd"`
}

// TestBudgetCommand raises and resets an exhausted budget, while the gateway serves and after it was killed.
func TestBudgetCommand(t *testing.T) {
	sluice := buildSluice(t, true)
	// A request costs 0.01 dollars, so a second one does not fit into a budget of 0.015.
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":1000,"total_tokens":1000}}`)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	text := fmt.Sprintf(journalConfig, filepath.Join(dir, "state"), upstream.URL)
	write(t, filepath.Join(dir, "gateway.toml"), []byte(strings.Replace(text, `usd = 1000, per = "month"`, `usd = 0.015, per = "total"`, 1)))
	client := newClient(t)
	command := func(args ...string) string {
		t.Helper()
		r := run(t, sluice, dir, nil, append([]string{"budget"}, args...))
		if r.exit != 0 || r.stderr != "" {
			t.Fatalf("sluice budget %v: %+v", args, r)
		}
		return r.stdout
	}
	request := func(base string, want int) {
		t.Helper()
		status, body, err := complete(t, client, base, "sk-journal-0123456789", `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"x"}]}`)
		if err != nil || status != want {
			t.Errorf("%d %s %v, want %d", status, body, err, want)
		}
	}
	rows := func(args ...string) budgetRow {
		t.Helper()
		var list struct{ Budgets []budgetRow }
		if err := json.Unmarshal([]byte(command(append(args, "--format", "json")...)), &list); err != nil || len(list.Budgets) != 1 {
			t.Fatal(err, list)
		}
		return list.Budgets[0]
	}

	p := start(t, dir, nil, "serve", "--quiet")
	base, admin := p.addresses()
	request(base, 200)
	request(base, 429)
	if got := command("raise", "key", "a", "--per", "total", "--usd", "0.01", "--reason", "release week"); got != "budget per total of key a raised by 0.01 USD: 0.015 of 0.025 USD are left\n" {
		t.Errorf("%q", got)
	}
	request(base, 200)
	request(base, 429)
	if got := rows("--admin", admin); got != (budgetRow{0.025, 0.01, 0.02, 0.005}) {
		t.Errorf("%+v", got)
	}
	p.signal(syscall.SIGKILL)
	p.wait()

	// 0.02 of 0.015 + 0.01 dollars are spent. The reset raises the budget by another 0.01, because 0.01 of the 0.02 are
	// covered by the first raise, so that the configured 0.015 are left.
	if got := command("reset", "key", "a", "--per", "total", "--reason", "a new start"); !strings.HasPrefix(got, "no gateway is running: the change is made when one starts with ") {
		t.Errorf("%q", got)
	}
	if got := rows("key", "a"); got != (budgetRow{0.025, 0.01, 0.02, 0.005}) {
		t.Errorf("from the journal: %+v", got)
	}
	p = start(t, dir, nil, "serve", "--quiet")
	base, admin = p.addresses()
	eventually(t, "the budget is reset", func() bool { return rows("--admin", admin) == budgetRow{0.035, 0.02, 0.02, 0.015} })
	request(base, 200)
	request(base, 429)
	lines := strings.Split(command("history", "--format", "csv"), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], ",key,a,total,0.01,release week,") || !strings.Contains(lines[2], ",key,a,total,0.01,a new start,") {
		t.Errorf("%q", lines)
	}
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit code %d", exit)
	}
	logged := strings.Join(p.seen, "\n")
	if strings.Count(logged, `msg="budget changed" key=a per=total credit_usd=0.01 reason="a new start"`) != 1 {
		t.Errorf("want one log line for the reset:\n%s", logged)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "state", "budget-changes")); err != nil || len(entries) != 1 || !strings.HasSuffix(entries[0].Name(), ".receipt") {
		t.Errorf("%v %v: want only the receipt of the reset, for which no command waited", entries, err)
	}
}

// TestBudgetRelease gives back what a budget has booked for a request that timed out, and for one in flight when the
// gateway was killed.
func TestBudgetRelease(t *testing.T) {
	sluice := buildSluice(t, true)
	arrived, hang := make(chan struct{}, 2), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-hang
	}))
	defer upstream.Close()
	defer close(hang)
	dir := t.TempDir()
	config := func(timeout string) {
		text := strings.Replace(fmt.Sprintf(journalConfig, filepath.Join(dir, "state"), upstream.URL), `usd = 1000, per = "month"`, `usd = 0.05, per = "total"`, 1)
		write(t, filepath.Join(dir, "gateway.toml"), []byte(strings.Replace(text, "auth          =", "timeout       = { first_byte = \""+timeout+"\" }\nauth          =", 1)))
	}
	client := newClient(t)
	request := func(base string) (int, string, error) {
		return complete(t, client, base, "sk-journal-0123456789", `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"x"}]}`)
	}
	command := func(args ...string) string {
		t.Helper()
		r := run(t, sluice, dir, nil, args)
		if r.exit != 0 || r.stderr != "" {
			t.Fatalf("sluice %v: %+v", args, r)
		}
		return r.stdout
	}
	const each = "0.010081002" // 1000 tokens of the response, and 81 of the prompt

	config("50ms")
	p := start(t, dir, nil, "serve", "--quiet")
	base, _ := p.addresses()
	if status, body, err := request(base); status != 504 {
		t.Fatalf("%d %s %v", status, body, err)
	}
	<-arrived
	p.signal(syscall.SIGTERM)
	p.wait()
	config("1m")
	p = start(t, dir, nil, "serve", "--quiet")
	base, _ = p.addresses()
	go func() { _, _, _ = request(base) }()
	<-arrived
	p.signal(syscall.SIGKILL)
	p.wait()

	p = start(t, dir, nil, "serve", "--quiet")
	_, admin := p.addresses()
	if got := command("budget", "--admin", admin, "--format", "csv"); !strings.Contains(got, "key,a,total,,,0.05,0,0.020162004,0.020162004,0,0.029837996,\n") {
		t.Errorf("twice %s: got %s", each, got)
	}
	release := []string{"budget", "release", "--uncertain", "key", "a", "--per", "total", "--reason", "not billed"}
	if got := command(release...); got != "budget per total of key a has 0.020162004 USD back that were booked for unknown outcomes: 0.05 of 0.070162004 USD are left\n" {
		t.Errorf("release: %q", got)
	}
	if got := command(release...); got != "nothing to release: the budget per total of key a has booked nothing for unknown outcomes\n" {
		t.Errorf("second release: %q", got)
	}
	if got := command("usage", "--by", "", "--format", "csv"); !strings.HasSuffix(got, ",0.020162004,0.020162004\n") {
		t.Errorf("ledger: %s", got)
	}
	p.signal(syscall.SIGKILL)
	p.wait()
	if got := command("budget", "--format", "csv"); !strings.Contains(got, ",0.070162004,0.020162004,0.020162004,0,0,0.05,\n") {
		t.Errorf("from the journal: %s", got)
	}
	if r := run(t, sluice, dir, nil, []string{"budget", "release", "key", "a", "--per", "total", "--reason", "x"}); r.exit != 2 || !strings.Contains(r.stderr, "set --uncertain") {
		t.Errorf("without --uncertain: %+v", r)
	}
}
