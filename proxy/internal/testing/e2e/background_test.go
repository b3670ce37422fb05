package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// backgroundProvider is a provider of the Responses API that generates responses in the background, until finish. Its
// responses belong to the credential that has made them.
type backgroundProvider struct {
	*httptest.Server
	mu   sync.Mutex
	made map[string]*backgroundJob
	seen []string      // method and target of each request
	cut  chan struct{} // a stream in progress breaks off when it is closed; nil to end it at once
}

type backgroundJob struct{ status, credential string }

func newBackgroundProvider(t *testing.T) *backgroundProvider {
	p := &backgroundProvider{made: map[string]*backgroundJob{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// object returns the response object of a job, byte for byte as clients receive it.
func (p *backgroundProvider) object(id, status string) string {
	const format = `{"id":%q, "object":"response","created_at":1,"status":%q,"background":true,"error":null,"model":"m","output":[%s],"usage":%s}`
	output, usage := "", "null"
	if status == "completed" {
		output = `{"type":"message","id":"msg_` + id + `","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]}`
		usage = `{"input_tokens":3,"output_tokens":5,"total_tokens":8}`
	}
	return fmt.Sprintf(format, id, status, output, usage)
}

// costs is what a completed response costs, in nano-dollars.
const backgroundCost = 3*1_000 + 5*10_000

func (p *backgroundProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct{ Stream bool }
	_ = json.Unmarshal(body, &asked)
	_, rest, _ := strings.Cut(r.URL.Path, "/responses")
	id, part, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.URL.RequestURI())
	if id == "" {
		id = fmt.Sprintf("resp_%d", len(p.made))
		p.made[id] = &backgroundJob{"queued", r.Header.Get("Authorization")}
	}
	job := p.made[id]
	known := job != nil && job.credential == r.Header.Get("Authorization")
	if known && part == "cancel" {
		job.status = "cancelled"
	}
	if known && r.Method == "DELETE" {
		delete(p.made, id)
	}
	status := ""
	if known {
		status = job.status
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !known:
		http.Error(w, `{"error":{"message":"Response with id '`+id+`' not found.","type":"invalid_request_error","param":null,"code":null}}`, 404)
	case r.Method == "DELETE":
		_, _ = fmt.Fprintf(w, `{"id":%q,"object":"response","deleted":true}`, id)
	case part == "input_items":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"in_`+id+`"}],"has_more":false}`)
	case asked.Stream, r.URL.Query().Get("stream") == "true":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, p.events(id, status))
		if p.cut != nil && status != "completed" {
			_ = http.NewResponseController(w).Flush()
			<-p.cut
			panic(http.ErrAbortHandler)
		}
	default:
		_, _ = io.WriteString(w, p.object(id, status))
	}
}

// events returns the stream of a response.
func (p *backgroundProvider) events(id, status string) string {
	s := fmt.Sprintf("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":%s}\n\n", p.object(id, "queued"))
	s += `event: response.output_text.delta` + "\n" + `data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_` + id + `","output_index":0,"content_index":0,"delta":"hi"}` + "\n\n"
	if status == "completed" {
		s += fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":%s}\n\n", p.object(id, status))
	}
	return s
}

// finish completes a response.
func (p *backgroundProvider) finish(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[id].status = "completed"
}

// requests returns the requests since the last call.
func (p *backgroundProvider) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

// backgroundGateway is a gateway in front of a backgroundProvider, with the keys one and two.
type backgroundGateway struct {
	*proxytest.Gateway
	t     *testing.T
	p     *backgroundProvider
	admin string
}

// backgroundConfig returns a configuration whose key one has a budget. settings are of [responses], more are other tables.
func backgroundConfig(p *backgroundProvider, settings, more string) string {
	return "[responses]\n" + settings + `
[[keys]]
name = "one"
secret = "sk-one-0123456789abcdef"
budgets = [{ usd = 1, per = "total" }]
[[keys]]
name = "two"
secret = "sk-two-0123456789abcdef"
[providers.first]
plugin = "openai"
base_url = "` + p.URL + `/v1"
auth = { secret = "sk-upstream-0123456789" }
breaker = { enabled = false }
options = { forms = ["responses"] }
[[models]]
id = "m"
max_tokens = 1000
pricing = { input = 1, output = 10 }
retry = { attempts = 1 }
targets = [{ provider = "first", model = "m" }]
` + more
}

// patient are settings with which nothing is settled by the time that has passed.
const patient = "background_poll = \"1h\"\nbackground_expiry = \"24h\""

func startBackground(t *testing.T, p *backgroundProvider, settings, more string) *backgroundGateway {
	t.Helper()
	g := proxytest.StartWith(t, backgroundConfig(p, settings, more), func(o *proxy.Options) { o.StateDir = t.TempDir() })
	return &backgroundGateway{g, t, p, g.Admin(t)}
}

func (g *backgroundGateway) ask(key, method, path, body string) *proxytest.Reply {
	g.t.Helper()
	return g.Do(g.t, method, path, body, "Authorization: Bearer sk-"+key+"-0123456789abcdef")
}

// create makes a response in the background, and returns its ID.
func (g *backgroundGateway) create(more string) string {
	g.t.Helper()
	r := g.ask("one", "POST", "/v1/responses", `{"model":"m","input":"x","background":true`+more+`}`)
	_, id, _ := strings.Cut(r.Body, `"id":"`)
	id, _, ok := strings.Cut(id, `"`)
	if r.Status != 200 || !ok {
		g.t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	return id
}

// accounts are amounts of the budget of key one and of the ledger, in nano-dollars.
type accounts struct {
	spent, held, uncertain, ledger int64
	requests                       int64 // in the ledger
}

func (g *backgroundGateway) accounts() (a accounts) {
	g.t.Helper()
	var list struct {
		Budgets []struct {
			Spent     json.Number `json:"spent_usd"`
			Held      json.Number `json:"held_usd"`
			Uncertain json.Number `json:"uncertain_usd"`
		}
	}
	_, body := proxytest.Get(g.t, g.admin+"/budgets?scope=key&name=one&format=json")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Budgets) != 1 {
		g.t.Fatal(err, body)
	}
	var usage struct {
		Total struct {
			Requests int64
			Cost     json.Number `json:"cost_usd"`
		}
	}
	_, text := proxytest.Get(g.t, g.admin+"/usage")
	if err := json.Unmarshal([]byte(text), &usage); err != nil {
		g.t.Fatal(err, text)
	}
	b := list.Budgets[0]
	amount := func(n json.Number) int64 {
		if n == "" {
			return 0
		}
		return nano(g.t, n)
	}
	return accounts{amount(b.Spent), amount(b.Held), amount(b.Uncertain), amount(usage.Total.Cost), usage.Total.Requests}
}

// wantAccounts checks the accounts.
func (g *backgroundGateway) wantAccounts(what string, want accounts) {
	g.t.Helper()
	if got := g.accounts(); got != want {
		g.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// wantHeld checks that a response is held and not yet accounted, and returns what it holds.
func (g *backgroundGateway) wantHeld() int64 {
	g.t.Helper()
	a := g.accounts()
	if a.held < 1000*10_000 || a != (accounts{held: a.held}) {
		g.t.Fatalf("while the response is generated: %+v", a)
	}
	return a.held
}

// settledExactly are the accounts after a completed response.
var settledExactly = accounts{spent: backgroundCost, ledger: backgroundCost, requests: 1}

// settledAt are the accounts after a response with an unknown outcome.
func settledAt(held int64) accounts {
	return accounts{spent: held, uncertain: held, ledger: held, requests: 1}
}

// wantStored checks the response to a request about a stored response.
func (g *backgroundGateway) wantStored(method, path, want string) {
	g.t.Helper()
	if r := g.ask("one", method, path, ""); r.Status != 200 || r.Body != want || r.Header.Get("X-Gateway-Provider") != "first" {
		g.t.Errorf("%s %s: status %d: %s, want %s", method, path, r.Status, r.Body, want)
	}
}

// TestBackgroundResponseIsSettledByARead has a client poll a response until it is complete.
//
// covers: P1.3 P2.25
func TestBackgroundResponseIsSettledByARead(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, patient, "")
	id := g.create("")
	g.wantHeld()
	g.wantStored("GET", "/v1/responses/"+id, p.object(id, "queued"))
	g.wantHeld()
	p.finish(id)
	g.wantStored("GET", "/v1/responses/"+id, p.object(id, "completed"))
	g.wantAccounts("after the read", settledExactly)
	g.wantStored("GET", "/openai/v1/responses/"+id, p.object(id, "completed"))
	g.wantStored("DELETE", "/v1/responses/"+id, `{"id":"`+id+`","object":"response","deleted":true}`)
	g.wantAccounts("after all", settledExactly)
	want := []string{"POST /v1/responses", "GET /v1/responses/" + id, "GET /v1/responses/" + id, "GET /v1/responses/" + id, "DELETE /v1/responses/" + id}
	if got := p.requests(); !slices.Equal(got, want) {
		t.Errorf("the provider received %q, want %q", got, want)
	}
	m := proxytest.Scrape(t, g.admin)
	if got := m.Sum("sluice_key_tokens_total", "key", "one"); got != 8 {
		t.Errorf("%v tokens of the key in metrics, want 8", got)
	}
}

// TestStoredResponseBelongsToItsKey asks for a response with another key, and for one that nobody has made. Both get the
// same response, and the provider no request.
//
// covers: P1.3 P9.3
func TestStoredResponseBelongsToItsKey(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, patient, "")
	id := g.create("")
	p.requests()
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}, {"GET", "?stream=true"}} {
		for _, other := range []string{id, "resp_nothing", "%2e%2e", "a%3Fb"} {
			r := g.ask("two", c[0], "/v1/responses/"+other+c[1], "")
			if want := "Response with id '" + other + "' not found."; r.Status != 404 || !strings.Contains(r.Body, want) || r.Header.Get("X-Gateway-Provider") != "" {
				t.Errorf("%s %s%s: status %d: %s", c[0], other, c[1], r.Status, r.Body)
			}
		}
	}
	if got := p.requests(); len(got) != 0 {
		t.Errorf("the provider received %q", got)
	}
}

// TestStoredResponseQuery checks which parameters of a query reach the provider, and that the list of input items does.
func TestStoredResponseQuery(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, patient, "")
	id := g.create("")
	p.requests()
	g.wantStored("GET", "/openai/responses/"+id+"/input_items?api-version=v1&limit=2&after=a%26b&order=asc&key=sk-secret", `{"object":"list","data":[{"id":"in_`+id+`"}],"has_more":false}`)
	g.wantStored("GET", "/v1/responses/"+id+"?include[]=a&include[]=b&stream=false&x=y", p.object(id, "queued"))
	want := []string{"GET /v1/responses/" + id + "/input_items?limit=2&order=asc&after=a%26b", "GET /v1/responses/" + id + "?include%5B%5D=a&include%5B%5D=b"}
	if got := p.requests(); !slices.Equal(got, want) {
		t.Errorf("the provider received %q, want %q", got, want)
	}
}

// TestBackgroundResponseIsSettledByAPoll has the gateway find out by itself how a response has ended.
func TestBackgroundResponseIsSettledByAPoll(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, "background_poll = \"10ms\"", "")
	p.finish(g.create(""))
	eventually(t, "the response is settled", func() bool { return g.accounts() == settledExactly })
	if got := p.requests(); len(got) < 2 || !strings.HasPrefix(got[1], "GET /v1/responses/resp_") {
		t.Errorf("the provider received %q", got)
	}
}

// TestBackgroundResponseIsSettledByItsExpiry has a response that does not end: it is booked at what it holds.
func TestBackgroundResponseIsSettledByItsExpiry(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, "background_poll = \"1h\"\nbackground_expiry = \"10ms\"", "")
	g.create("")
	eventually(t, "the response is settled", func() bool { a := g.accounts(); return a.held == 0 && a.requests == 1 })
	a := g.accounts()
	if a.spent < 1000*10_000 || a != settledAt(a.spent) {
		t.Errorf("%+v", a)
	}
}

// TestBackgroundResponseIsDeletedOrCancelled ends a response early, whose usage then remains unknown, and one that is
// complete.
func TestBackgroundResponseIsDeletedOrCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		complete     bool
		method, path string
	}{
		"cancelled":               {false, "POST", "/cancel"},
		"deleted":                 {false, "DELETE", ""},
		"deleted when it is done": {true, "DELETE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newBackgroundProvider(t)
			g := startBackground(t, p, patient, "")
			id := g.create("")
			want := settledAt(g.wantHeld())
			if c.complete {
				p.finish(id)
				want = settledExactly
			}
			if r := g.ask("one", c.method, "/v1/responses/"+id+c.path, ""); r.Status != 200 {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			g.wantAccounts("afterwards", want)
		})
	}
}

// TestBackgroundStream has a stream that breaks off while the provider generates the response. The client resumes it, and
// the end of the stream settles the response.
func TestBackgroundStream(t *testing.T) {
	p := newBackgroundProvider(t)
	p.cut = make(chan struct{})
	close(p.cut)
	g := startBackground(t, p, patient, "")
	r := g.ask("one", "POST", "/v1/responses", `{"model":"m","input":"x","background":true,"stream":true}`)
	if r.Status != 200 || !strings.Contains(r.Body, "response.created") || strings.Contains(r.Body, "response.completed") {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	g.wantHeld()
	if r := g.ask("one", "GET", "/v1/responses/resp_0?stream=true", ""); r.Err == nil || r.Body != p.events("resp_0", "queued") {
		t.Errorf("a stream that breaks off: %v, %q", r.Err, r.Body)
	}
	g.wantHeld()
	p.finish("resp_0")
	p.requests()
	r = g.ask("one", "GET", "/v1/responses/resp_0?stream=true&starting_after=0", "")
	if want := p.events("resp_0", "completed"); r.Status != 200 || r.Err != nil || r.Body != want || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("status %d, %v: %q, want %q", r.Status, r.Err, r.Body, want)
	}
	g.wantAccounts("after the stream", settledExactly)
	if got := p.requests()[0]; got != "GET /v1/responses/resp_0?stream=true&starting_after=0" {
		t.Errorf("the provider received %q", got)
	}
}

// TestBackgroundStreamBreaksAtOnce has a stream break off after the event that announces the response. The client knows
// the response's ID nevertheless, and no other target generates it a second time.
func TestBackgroundStreamBreaksAtOnce(t *testing.T) {
	p := newBackgroundProvider(t)
	announcement, _, _ := strings.Cut(p.events("resp_1", "queued"), "\n\n")
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" {
			serve.ServeHTTP(w, r)
			return
		}
		p.mu.Lock()
		p.made["resp_1"] = &backgroundJob{"queued", "Bearer sk-upstream-0123456789"}
		p.seen = append(p.seen, "POST")
		p.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, announcement+"\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	g := startBackground(t, p, patient, "")
	if err := g.Reload(t, strings.Replace(backgroundConfig(p, patient, ""), `targets = [`, `targets = [{ provider = "first", model = "m" }, `, 1)); err != nil {
		t.Fatal(err)
	}
	r := g.ask("one", "POST", "/v1/responses", `{"model":"m","input":"x","background":true,"stream":true}`)
	if r.Status != 200 || !strings.HasPrefix(r.Body, announcement) || strings.Contains(r.Body, "response.completed") {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	g.wantHeld()
	if got := p.requests(); len(got) != 1 {
		t.Errorf("the provider received %q", got)
	}
	p.finish("resp_1")
	g.wantStored("GET", "/v1/responses/resp_1", p.object("resp_1", "completed"))
	g.wantAccounts("after the read", settledExactly)
}

// TestBackgroundStreamIsAccountedOnce has a stream in the background that the client receives to its end.
func TestBackgroundStreamIsAccountedOnce(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, patient, "")
	p.mu.Lock()
	p.made["resp_1"] = &backgroundJob{"completed", "Bearer sk-upstream-0123456789"} // the provider responds with it
	p.mu.Unlock()
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, p.events("resp_1", "completed"))
	})
	if r := g.ask("one", "POST", "/v1/responses", `{"model":"m","input":"x","background":true,"stream":true}`); r.Status != 200 || r.Err != nil {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	g.wantAccounts("after the stream", settledExactly)
}

// TestBackgroundResponseOfTwoGateways has the second of two gateways read what the first one has made, and settles.
func TestBackgroundResponseOfTwoGateways(t *testing.T) {
	redis, p := redistest.Start(t, redistest.Options{}), newBackgroundProvider(t)
	shared := fmt.Sprintf("[store]\nurl = %q\ntimeout = \"10s\"\n", redis.URL())
	first, second := startBackground(t, p, "background_poll = \"10ms\"", shared), startBackground(t, p, patient, shared)
	for _, g := range []*backgroundGateway{first, second} {
		eventually(t, "the store grants a share", func() bool {
			return g.ask("one", "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"resp_x"}`).Status != 503
		})
	}
	id := first.create("")
	second.wantStored("GET", "/v1/responses/"+id, p.object(id, "queued"))
	if r := second.ask("two", "GET", "/v1/responses/"+id, ""); r.Status != 404 {
		t.Errorf("another key: status %d: %s", r.Status, r.Body)
	}
	p.finish(id)
	second.wantStored("GET", "/v1/responses/"+id, p.object(id, "completed"))
	eventually(t, "the first gateway has settled the response", func() bool {
		return first.accounts().ledger == backgroundCost
	})
	eventually(t, "the second gateway counts what the first one has spent", func() bool { return second.accounts().spent >= backgroundCost })
	if a := second.accounts(); a.ledger != 0 {
		t.Errorf("the second gateway accounts the response, too: %+v", a)
	}
}

// TestBackgroundResponsesThatAreRefused covers requests whose response could not be read back.
//
// covers: P2.25
func TestBackgroundResponsesThatAreRefused(t *testing.T) {
	const filter = "[[filters]]\nplugin = \"secrets\"\non = [\"response\"]\n"
	for name, c := range map[string]struct{ more, settings, param string }{
		"not stored":         {`,"store":false`, "", "background"},
		"filtered responses": {"", filter, "background"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newBackgroundProvider(t)
			g := startBackground(t, p, patient, c.settings)
			r := g.ask("one", "POST", "/v1/responses", `{"model":"m","input":"x","background":true`+c.more+`}`)
			wantError(t, r, 400, "invalid_request_error", "unsupported_parameter", c.param)
			if got := p.requests(); len(got) != 0 {
				t.Errorf("the provider received %q", got)
			}
			g.wantAccounts("afterwards", accounts{requests: 1})
		})
	}
}

// TestStoredResponsesAreNotReadPastFilters adds a filter after a response was made.
func TestStoredResponsesAreNotReadPastFilters(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, patient, "")
	id := g.create("")
	p.finish(id)
	if err := g.Reload(t, backgroundConfig(p, patient, "[[filters]]\nplugin = \"secrets\"\non = [\"response\"]\n")); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "/input_items", "?stream=true"} {
		r := g.ask("one", "GET", "/v1/responses/"+id+suffix, "")
		wantError(t, r, 400, "invalid_request_error", "unsupported_parameter", "")
	}
	if r := g.ask("one", "DELETE", "/v1/responses/"+id, ""); r.Status != 200 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	g.wantAccounts("afterwards", settledExactly)
}

// TestReadsOfStoredResponsesAreLimited has a key that may send two requests a minute.
func TestReadsOfStoredResponsesAreLimited(t *testing.T) {
	p := newBackgroundProvider(t)
	config := strings.Replace(backgroundConfig(p, patient, ""), "per = \"total\" }]", "per = \"total\" }]\nlimits = { requests_per_minute = 2 }", 1)
	now := time.Now() // the clock stands still, so that the limit gives nothing back
	g := &backgroundGateway{Gateway: proxytest.StartWith(t, config, func(o *proxy.Options) { o.Now = func() time.Time { return now } }), t: t, p: p}
	id := g.create("")
	g.wantStored("GET", "/v1/responses/"+id, p.object(id, "queued"))
	if r := g.ask("one", "GET", "/v1/responses/"+id, ""); r.Status != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
}

// TestReadsOfStoredResponsesAreLimitedByUser has a key whose users may each send two requests a minute.
func TestReadsOfStoredResponsesAreLimitedByUser(t *testing.T) {
	p := newBackgroundProvider(t)
	config := strings.Replace(backgroundConfig(p, patient, ""), "per = \"total\" }]", "per = \"total\" }]\nusers = { from = \"x-user-id\", limits = { requests_per_minute = 2 } }", 1)
	g := &backgroundGateway{Gateway: proxytest.StartWith(t, config, func(o *proxy.Options) { o.Now = stopped() }), t: t, p: p}
	id := g.create("")
	read := func(user string) *proxytest.Reply {
		return g.Do(t, "GET", "/v1/responses/"+id, "", "Authorization: Bearer sk-one-0123456789abcdef", "x-user-id: "+user)
	}
	for _, user := range []string{"ann", "ann", "bob"} {
		r := read(user)
		expect(t, user, r, 200, id)
		if line := g.Log.Request(t, r.RequestID()); line["user"] != user {
			t.Errorf("logged as %v", line)
		}
	}
	expect(t, "ann beyond the limit", read("ann"), 429, "The user is limited to 2 requests per minute.")
	expect(t, "bob", read("bob"), 200, id)
	expect(t, "nobody", g.ask("one", "GET", "/v1/responses/"+id, ""), 200, id)
}

// TestStoredResponseErrors has the provider fail.
func TestStoredResponseErrors(t *testing.T) {
	p := newBackgroundProvider(t)
	g := startBackground(t, p, patient, "")
	id := g.create("")
	for status, want := range map[int]int{401: 502, 404: 404, 429: 429, 500: 502, 503: 503} {
		p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"the key sk-upstream-0123456789 fails","type":"server_error"}}`)
		})
		if r := g.ask("one", "GET", "/v1/responses/"+id, ""); r.Status != want || strings.Contains(r.Body, "sk-upstream") {
			t.Errorf("%d of the provider: status %d, want %d: %s", status, r.Status, want, r.Body)
		}
	}
	g.wantHeld()
}
