package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestUsageOfTwoGateways serves requests of two teams in the last week and in this one, and compares the usage of the last
// week with what the providers of both gateways have served in it.
func TestUsageOfTwoGateways(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways, and waits for the disk")
	}
	t.Setenv("SLUICE_ADMIN_TOKEN", "")
	const week = 7 * 24 * time.Hour
	var later atomic.Int64 // how much the clock is ahead
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	type sums struct {
		Team, Gateway string
		Requests      int64
		Prompt        int64   `json:"prompt_tokens"`
		Completion    int64   `json:"completion_tokens"`
		Cost          float64 `json:"cost_usd"`
	}
	served := make(map[string]sums) // by team and gateway, in the last week
	var flags, names []string
	var gateways []*proxytest.Gateway
	keys := map[string]string{"red": proxytest.Key, "blue": "sk-blue-0123456789abcdef"}
	for range 2 {
		p := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", secondAnswer))})
		dir := t.TempDir()
		toml := fmt.Sprintf("[store]\njournal = %q\n[[teams]]\nname = \"red\"\n[[teams]]\nname = \"blue\"\n[[keys]]\nname = \"b\"\nteam = \"blue\"\nsecret = %q\nmodels = [\"*\"]\n", dir, keys["blue"]) +
			strings.Replace(fallbackConfig(p.URL(), p.URL()), "name   = \"team-a\"", "name   = \"r\"\nteam   = \"red\"", 1)
		g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir, o.Now = dir, now })
		admin := g.Admin(t)
		flags, names, gateways = append(flags, "--admin", admin), append(names, strings.TrimPrefix(admin, "http://")), append(gateways, g)
	}
	serve := func(n int, team string, requests int64) {
		t.Helper()
		for range requests {
			if r := gateways[n].Do(t, "POST", "/v1/chat/completions", promptCanary, "Authorization: Bearer "+keys[team]); r.Status != 200 {
				t.Fatalf("status %d: %s", r.Status, r.Body)
			}
		}
	}
	serve(0, "red", 3)
	serve(0, "blue", 1)
	serve(1, "red", 2)
	served["red"] = sums{Requests: 5}
	served["blue"] = sums{Requests: 1}
	served["red "+names[0]], served["blue "+names[0]], served["red "+names[1]] = sums{Requests: 3}, sums{Requests: 1}, sums{Requests: 2}
	later.Store(int64(week))
	serve(0, "red", 4)
	serve(1, "blue", 7)
	for _, by := range []string{"team", "team,gateway"} {
		stdout, stderr, err := command(t.Context(), append([]string{"usage", "--by", by, "--period", "last-week", "--format", "json"}, flags...)...)
		var list struct {
			Rows  []sums
			Total sums
		}
		if err != nil || stderr != "" || json.Unmarshal([]byte(stdout), &list) != nil {
			t.Fatalf("%v %s: %s", err, stderr, stdout)
		}
		if want := map[string]int{"team": 2, "team,gateway": 3}[by]; len(list.Rows) != want || list.Total.Requests != 6 || list.Total.Prompt != 6000 || list.Total.Completion != 1200 {
			t.Errorf("by %s: want %d rows, 6 requests, 6000 and 1200 tokens: %s", by, want, stdout)
		}
		for _, r := range list.Rows {
			want := served[strings.TrimSpace(r.Team+" "+r.Gateway)].Requests
			if r.Requests != want || r.Prompt != 1000*want || r.Completion != 200*want || fmt.Sprintf("%.6f", r.Cost) != fmt.Sprintf("%.6f", 0.003*float64(want)) {
				t.Errorf("by %s: %+v, want %d requests", by, r, want)
			}
		}
	}
	if _, _, err := command(t.Context(), append([]string{"usage", "--admin", "http://127.0.0.1:1"}, flags...)...); err == nil || !strings.Contains(err.Error(), "no response from http://127.0.0.1:1") {
		t.Errorf("a gateway is down: %v", err)
	}
	if _, _, err := command(t.Context(), append([]string{"usage", "--period", "last-year"}, flags...)...); err == nil || !strings.Contains(err.Error(), "invalid period") {
		t.Errorf("invalid period: %v", err)
	}
}

// TestBudgetsOfTwoGateways adds up the budgets of two gateways that have spent different amounts.
func TestBudgetsOfTwoGateways(t *testing.T) {
	t.Setenv("SLUICE_ADMIN_TOKEN", "")
	p := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", secondAnswer))}, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", secondAnswer))})
	toml := strings.Replace(fallbackConfig(p.URL(), p.URL()), "name   = \"team-a\"", "name = \"team-a\"\nbudgets = [{ usd = 10, per = \"total\" }]", 1)
	args := []string{"budget", "key", "team-a", "--format", "csv"}
	var names []string
	for requests := range 2 {
		dir := t.TempDir()
		g := proxytest.StartWith(t, fmt.Sprintf("[store]\njournal = %q\n", dir)+toml, func(o *proxy.Options) { o.StateDir = dir })
		admin := g.Admin(t)
		args, names = append(args, "--admin", admin), append(names, strings.TrimPrefix(admin, "http://"))
		for range requests + 1 {
			if r := g.Chat(t, promptCanary); r.Status != 200 { // 1000 and 200 tokens cost 0.003
				t.Fatalf("status %d: %s", r.Status, r.Body)
			}
		}
	}
	run := func(more ...string) string {
		t.Helper()
		stdout, stderr, err := command(t.Context(), append(more, args...)...)
		if err != nil || stderr != "" {
			t.Fatalf("%v %s", err, stderr)
		}
		_, rows, _ := strings.Cut(stdout, "\n")
		return rows
	}
	if got := run(); got != "key,team-a,total,,,20,0,0.009,0,0,19.991,\n" {
		t.Errorf("added up: %s", got)
	}
	args = append(args, "--gateway")
	for n, row := range []string{"key,team-a,total,,,10,0,0.003,0,0,9.997,,", "key,team-a,total,,,10,0,0.006,0,0,9.994,,"} {
		if got := run(); strings.Count(got, "\n") != 2 || !strings.Contains(got, row+names[n]+"\n") {
			t.Errorf("by gateway: want %s%s in\n%s", row, names[n], got)
		}
	}
	if _, _, err := command(t.Context(), append(args, "--admin", "http://127.0.0.1:1")...); err == nil || !strings.Contains(err.Error(), "no response from http://127.0.0.1:1") {
		t.Errorf("a gateway is down: %v", err)
	}
	if _, _, err := command(t.Context(), "budget", "--gateway"); err == nil || !strings.Contains(err.Error(), "set --admin") {
		t.Errorf("--gateway without --admin: %v", err)
	}
}
