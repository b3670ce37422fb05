package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// recordsOf returns the records of requests with an ID, and checks that they contain no credential, prompt or response.
func recordsOf(t *testing.T, admin, id string) []map[string]any {
	t.Helper()
	status, body := proxytest.Get(t, admin+"/requests/"+url.PathEscape(id))
	if status == 404 {
		return nil
	}
	for _, secret := range []string{proxytest.Key, "sk-upstream-canary", "a prompt of some words", "text-canary"} {
		if strings.Contains(body, secret) {
			t.Errorf("the record contains %q: %s", secret, body)
		}
	}
	var list struct{ Requests []map[string]any }
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	d.UseNumber()
	if err := d.Decode(&list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return list.Requests
}

// attemptsOf describes the attempts in a record as TARGET[ (WHY)] STATUS CODE.
func attemptsOf(record map[string]any) (all []string) {
	tries, _ := record["tries"].([]any)
	for _, t := range tries {
		a := t.(map[string]any)
		text := func(name string) string {
			if a[name] == nil {
				return ""
			}
			return fmt.Sprint(a[name])
		}
		why := text("why")
		if why != "" {
			why = " (" + why + ")"
		}
		all = append(all, strings.Join(strings.Fields(text("provider")+why+" "+text("status")+" "+text("code")), " "))
	}
	return all
}

// usesOf describes the filters in a record as PLUGIN DECISION. Each has the digest of its module.
func usesOf(t *testing.T, record map[string]any) (all []string) {
	filters, _ := record["filters"].([]any)
	for _, f := range filters {
		use := f.(map[string]any)
		if digest, _ := use["plugin_sha256"].(string); len(digest) != 64 {
			t.Errorf("filter %v has no digest", use)
		}
		all = append(all, fmt.Sprint(use["plugin"], " ", use["decision"]))
	}
	return all
}

// respondCanary responds with a text that must not be in a record.
func respondCanary() up.Step {
	return up.Answer(200, "application/json", chatResponse("text-canary"), "X-Request-Id: up-1")
}

// TestRecords has a request for each way in which attempts and requests can end, and compares its record with its line
// in the log.
func TestRecords(t *testing.T) {
	t.Parallel()
	sse := up.EventStream()
	begin := up.Chunk("data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"text-canary\"},\"finish_reason\":null}]}\n\n")
	hedged := make(chan struct{})
	const secret = `{"model":"m","messages":[{"role":"user","content":"a prompt of some words, top secret"}]}`
	limited := up.Answer(429, "application/json", `{"error":{"message":"slow down: a prompt of some words","type":"rate_limit_error","code":"rate_limit_exceeded"}}`, "Connection: close")
	for _, c := range []struct {
		name, body, keys string
		a, b             up.Script
		status           int
		attempts         []string
		filters          []string
	}{
		{"direct", askM, "", up.Script{up.ReadRequest(), respondCanary()}, nil, 200, []string{"a 200"}, nil},
		{"direct stream", askMStream, "", up.Script{up.ReadRequest(), up.Answer(200, "text/event-stream", streamOf("text-canary"))}, nil, 200, []string{"a 200"}, nil},
		{"fallback", askM, "retry = { attempts = 1 }", up.Script{up.ReadRequest(), busy(503)}, up.Script{up.ReadRequest(), respondCanary()}, 200, []string{"a 503 overloaded", "b 200"}, nil},
		{"connection lost", askM, "retry = { attempts = 1 }", up.Script{up.ReadRequest(), up.Reset()}, up.Script{up.ReadRequest(), respondCanary()}, 200, []string{"a upstream_unreachable", "b 200"}, nil},
		{"retry", askM, `retry = { backoff = "1ms" }`, up.Script{up.ReadRequest(), busy(529)}, nil, 200, []string{"a 529 overloaded", "a (retry) 200"}, nil},
		{"hedge won", askM, `hedge = { after = "10ms", budget = 1 }`, up.Script{up.ReadRequest(), up.AwaitClose()}, up.Script{up.ReadRequest(), respondCanary()}, 200, []string{"a cancelled", "b (hedge) 200"}, nil},
		{"hedge lost", askM, `hedge = { after = "1ms", budget = 1 }`, up.Script{up.ReadRequest(), up.Wait(hedged), respondCanary()}, up.Script{up.ReadRequest(), up.Signal(hedged), up.AwaitClose()}, 200, []string{"a 200", "b (hedge) cancelled"}, nil},
		{"cut stream", askMStream, "", up.Script{up.ReadRequest(), sse, begin, up.Close()}, nil, 200, []string{"a 200 upstream_stream_truncated"}, nil},
		{"rate limit", askM, "retry = { attempts = 1 }", up.Script{up.ReadRequest(), limited}, up.Script{up.ReadRequest(), limited}, 429, []string{"a 429 rate_limit_exceeded", "b 429 rate_limit_exceeded"}, nil},
		{"rejected", `{"model":"none","messages":[{"role":"user","content":"a prompt of some words"}]}`, "", nil, nil, 404, nil, nil},
		{"filters that pass and change", secret, "", up.Script{up.ReadRequest(), respondCanary()}, nil, 200, []string{"a 200"}, []string{"secrets passed", "blocklist changed"}},
		{"filter that rejects", secret, "", nil, nil, 400, nil, []string{"blocklist rejected", "secrets not_called"}},
		{"filter that rejects the response", askM, "", up.Script{up.ReadRequest(), respondCanary()}, nil, 400, []string{"a 200 blocked_phrase"}, []string{"blocklist rejected"}},
		{"filter that fails and passes", `{"model":"m","messages":[{"role":"user","content":"! a prompt of some words"}]}`, "", up.Script{up.ReadRequest(), respondCanary()}, nil, 200, []string{"a 200"}, []string{"traps failed"}},
		{"filter that fails and refuses", `{"model":"m","messages":[{"role":"user","content":"! a prompt of some words"}]}`, "", nil, nil, 502, nil, []string{"traps failed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			traps := guestFile(t, "traps", "shared", trappingFilter()) + "[[filters]]\nplugin = \"traps\"\n"
			scripts := []up.Script{c.a}
			if c.name == "retry" {
				scripts = append(scripts, up.Script{up.ReadRequest(), respondCanary()})
			}
			a, b := up.New(t, scripts...), up.New(t, c.b)
			toml := twoTargets(a.URL(), b.URL(), c.keys)
			if c.name == "retry" {
				toml = oneTarget(a.URL(), "", c.keys)
			}
			g := proxytest.Start(t, toml+map[string]string{
				"filters that pass and change":     "[[filters]]\nplugin = \"secrets\"\n" + blocklist("mask", ""),
				"filter that fails and passes":     traps + "on_failure = \"pass\"\n",
				"filter that fails and refuses":    traps,
				"filter that rejects":              blocklist("refuse", "") + "[[filters]]\nplugin = \"secrets\"\n",
				"filter that rejects the response": "[[filters]]\nplugin = \"blocklist\"\non = [\"response\"]\noptions = { phrases = [\"text-canary\"], action = \"refuse\" }\n",
			}[c.name])
			admin := g.Admin(t)
			r := g.Chat(t, c.body)
			line := g.Log.Request(t, r.RequestID())
			records := recordsOf(t, admin, r.RequestID())
			if r.Status != c.status || len(records) != 1 {
				t.Fatalf("status %d, want %d; %d records: %s", r.Status, c.status, len(records), r.Body)
			}
			record := records[0]
			if got := attemptsOf(record); !slices.Equal(got, c.attempts) {
				t.Errorf("attempts %q, want %q", got, c.attempts)
			}
			if got := usesOf(t, record); !slices.Equal(got, c.filters) {
				t.Errorf("filters %q, want %q", got, c.filters)
			}
			if record["state"] != "ended" || c.attempts != nil && record["route"] == nil {
				t.Errorf("record %v", record)
			}
			for name, want := range line {
				if slices.Contains([]string{"level", "msg", "time"}, name) {
					continue
				}
				got := fmt.Sprint(record[name])
				if name == "cause" { // without the provider's words, and cut
					want, _, _ = strings.Cut(want, ": rate_limit_error")
					want = want[:min(len(want), 120)]
				}
				if got != want {
					t.Errorf("%s: the record has %q, and the log %q", name, got, want)
				}
			}
			for name := range maps.Keys(record) {
				if _, ok := line[name]; !ok && !slices.Contains([]string{"time", "seq", "state", "response", "admitted_ms", "route", "generation", "tries", "filters", "warnings"}, name) {
					t.Errorf("%s: the record has %v, and the log nothing", name, record[name])
				}
			}
		})
	}
}

// TestRecordByResponseID finds a request by the ID of its response in each API, streamed or not.
func TestRecordByResponseID(t *testing.T) {
	t.Parallel()
	p := up.New(t, up.Script{up.Loop(up.ReadRequest(), respondCanary())}, up.Script{up.Loop(up.ReadRequest(), respondCanary())})
	g := proxytest.Start(t, oneTarget(p.URL(), "", ""))
	admin := g.Admin(t)
	const words = "a prompt of some words"
	for _, c := range []struct{ name, path, body, id string }{
		{"chat", "/v1/chat/completions", askM, "id"},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"` + words + `"}]}`, "id"},
		{"responses", "/v1/responses", `{"model":"m","input":"` + words + `"}`, "id"},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"` + words + `"}]}]}`, "responseId"},
	} {
		r := g.Do(t, "POST", c.path, c.body)
		var response map[string]any
		if err := json.Unmarshal([]byte(r.Body), &response); err != nil || r.Status != 200 {
			t.Fatalf("%s: status %d: %s", c.name, r.Status, r.Body)
		}
		g.Log.Request(t, r.RequestID())
		id, _ := response[c.id].(string)
		if records := recordsOf(t, admin, id); id == "" || len(records) == 0 || records[0]["request"] != r.RequestID() {
			t.Errorf("%s: the response with the id %q has the records %v, want %s", c.name, id, records, r.RequestID())
		}
	}
}

// TestRecordInFlight looks at a request while its provider is silent, and after its client has gone.
func TestRecordInFlight(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	a := up.New(t, up.Script{up.ReadRequest(), up.Signal(arrived), up.AwaitClose()})
	g := proxytest.Start(t, oneTarget(a.URL(), "", ""))
	admin := g.Admin(t)
	client := dial(t, g)
	client.post("flying", askMStream)
	<-arrived
	records := recordsOf(t, admin, "flying")
	if len(records) != 1 || records[0]["state"] != "in_flight" || records[0]["key"] != "k" || records[0]["model"] != "m" || !slices.Equal(attemptsOf(records[0]), []string{"a"}) {
		t.Errorf("in flight: %v", records)
	}
	client.disconnect(true)
	g.Log.Request(t, "flying")
	records = recordsOf(t, admin, "flying")
	if len(records) != 1 || records[0]["state"] != "ended" || fmt.Sprint(records[0]["status"]) != "499" || !slices.Equal(attemptsOf(records[0]), []string{"a client_closed_request"}) {
		t.Errorf("after the client has gone: %v", records)
	}
}

// TestRecordOfShadow has a copy of a request, whose record has the ID of the request.
func TestRecordOfShadow(t *testing.T) {
	t.Parallel()
	a := up.New(t, up.Script{up.ReadRequest(), respondCanary()})
	b := up.New(t, up.Script{up.ReadRequest(), busy(529)})
	g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `shadow = [{ target = "b/m", share = 1 }]`))
	admin := g.Admin(t)
	r := g.Chat(t, askM)
	var records []map[string]any
	running := func(r map[string]any) bool { return r["state"] != "ended" } // a request that ends may be listed twice
	for deadline := time.Now().Add(proxytest.EventTimeout); len(records) < 2 || slices.ContainsFunc(records, running); records = recordsOf(t, admin, r.RequestID()) {
		if time.Now().After(deadline) {
			t.Fatalf("records %v", records)
		}
	}
	slices.SortFunc(records, func(x, y map[string]any) int {
		return strings.Compare(fmt.Sprint(x["provider"]), fmt.Sprint(y["provider"]))
	})
	if records[0]["shadow"] != nil || records[1]["shadow"] != true || records[1]["code"] != "overloaded" {
		t.Errorf("records %v", records)
	}
	if n := len(recordsOf(t, admin, r.RequestID())); n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}

// TestRecordOfTrap has a plugin that crashes, and checks that the attempt says so and which version of the plugin it was.
func TestRecordOfTrap(t *testing.T) {
	t.Parallel()
	table := guest(t, "hostile", "key")
	a := up.New(t)
	g := proxytest.Start(t, quietServer+table+hostileProvider("p", a.URL(), "panic"))
	admin := g.Admin(t)
	r := g.Chat(t, canaryRequest("p/panic", false))
	g.Log.Request(t, r.RequestID())
	records := recordsOf(t, admin, r.RequestID())
	if r.Status != 502 || len(records) != 1 || !slices.Equal(attemptsOf(records[0]), []string{"p plugin_crashed"}) || records[0]["code"] != "plugin_crashed" {
		t.Fatalf("status %d, records %v", r.Status, records)
	}
	attempt := records[0]["tries"].([]any)[0].(map[string]any)
	if digest := fmt.Sprint(attempt["plugin_sha256"]); attempt["plugin"] != "hostile" || !strings.Contains(table, digest) || attempt["fuel"] == nil {
		t.Errorf("attempt %v, want the plugin of %s", attempt, table)
	}
}

// TestNoRecords keeps no requests.
func TestNoRecords(t *testing.T) {
	t.Parallel()
	a := up.New(t, up.Script{up.ReadRequest(), respondCanary()})
	g := proxytest.Start(t, "[admin]\nrequests = 0\n"+oneTarget(a.URL(), "", ""))
	admin := g.Admin(t)
	r := g.Chat(t, askM)
	g.Log.Request(t, r.RequestID())
	if status, body := proxytest.Get(t, admin+"/requests"); status != 404 || !strings.Contains(body, "requests in [admin] is 0") {
		t.Errorf("status %d: %s", status, body)
	}
}
