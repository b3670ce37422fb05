package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

func TestMain(m *testing.M) {
	// These goroutines of fasthttp end some time after their server has stopped, or never, because the date is
	// process-wide.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// fake is a Gateway with scripted results, and Metrics.
type fake struct {
	reason     atomic.Pointer[error] // result of Ready
	status     func(Page) Status
	metrics    string
	metricsErr error // returned after metrics were written
	degraded   []string
	usage      func(journal.Query) (*journal.Usage, error)
	budgets    []spend.Status
}

func (f *fake) Degraded() []string { return f.degraded }

func (f *fake) Usage(q journal.Query) (*journal.Usage, error) {
	if f.usage == nil {
		return nil, nil
	}
	return f.usage(q)
}

func (f *fake) Budgets(selected budgets.Filter) *budgets.List {
	return budgets.Describe(f.budgets, selected)
}

func (f *fake) Ready() error {
	if r := f.reason.Load(); r != nil {
		return *r
	}
	return nil
}

func (f *fake) Status(p Page) Status {
	if f.status != nil {
		return f.status(p)
	}
	return Status{Version: "v1", Ready: true, Now: time.Unix(1000, 0), Page: p}
}

func (f *fake) Write(w io.Writer, _ bool) error {
	_, err := io.WriteString(w, f.metrics)
	return errors.Join(err, f.metricsErr)
}

// serve serves a fake until the test ends.
func serve(t *testing.T, f *fake, o Options) (address string, s *Server) {
	t.Helper()
	o.Gateway, o.Metrics = f, f
	s = New(o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), s
}

// sendRaw sends the bytes of a request and reads the response.
func sendRaw(t *testing.T, address, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	response, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(newReader(response), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%v in %q", err, response)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func get(t *testing.T, address, path string) (*http.Response, string) {
	t.Helper()
	return sendRaw(t, address, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

func TestRoutes(t *testing.T) {
	address, _ := serve(t, &fake{metrics: "# TYPE x gauge\nx 1\n"}, Options{})
	const text = "text/plain; charset=utf-8"
	for _, c := range []struct {
		line        string // request line
		status      int
		contentType string
		body        string // "…" matches any body
	}{
		{"GET /healthz HTTP/1.1", 200, text, "ok\n"},
		{"GET /healthz?verbose HTTP/1.1", 200, text, "ok\n"},
		{"HEAD /healthz HTTP/1.1", 200, text, ""},
		{"GET /healthz HTTP/1.0", 200, text, "ok\n"},
		{"GET /readyz HTTP/1.1", 200, text, "ready\n"},
		{"GET /metrics HTTP/1.1", 200, "text/plain; version=0.0.4; charset=utf-8", "# TYPE x gauge\nx 1\n"},
		{"HEAD /metrics HTTP/1.1", 200, "text/plain; version=0.0.4; charset=utf-8", ""},
		{"GET /status HTTP/1.1", 200, "application/json", "…"},
		{"GET / HTTP/1.1", 200, "text/html; charset=utf-8", "…"},
		{"GET /status?page=2&size=1000 HTTP/1.1", 200, "application/json", "…"},
		{"GET /status?page=0 HTTP/1.1", 400, text, "Invalid query: want page from 1, and size from 1 to 1000.\n"},
		{"GET /status?size=1001 HTTP/1.1", 400, text, "…"},
		{"GET /status?size=x HTTP/1.1", 400, text, "…"},

		{"POST /healthz HTTP/1.1", 405, text, "Only GET and HEAD are allowed.\n"},
		{"PUT /metrics HTTP/1.1", 405, text, "…"},
		{"OPTIONS /status HTTP/1.1", 405, text, "…"},
		{"DELETE / HTTP/1.1", 405, text, "…"},
		{"POST /nothing HTTP/1.1", 404, text, "…"},

		{"GET /nothing HTTP/1.1", 404, text, "Not found.\n"},
		{"GET /healthz/ HTTP/1.1", 404, text, "…"},
		{"GET //healthz HTTP/1.1", 404, text, "…"},
		{"GET /Healthz HTTP/1.1", 404, text, "…"},
		{"GET /%68ealthz HTTP/1.1", 404, text, "…"},
		{"GET /x/../healthz HTTP/1.1", 404, text, "…"},
		{"GET /healthz;x HTTP/1.1", 404, text, "…"},
		{"GET /debug/pprof/ HTTP/1.1", 404, text, "…"},
		{"GET /v1/models HTTP/1.1", 404, text, "…"},
		{"GET /v1/chat/completions HTTP/1.1", 404, text, "…"},
		{"GET /favicon.ico HTTP/1.1", 404, text, "…"},
	} {
		t.Run(c.line, func(t *testing.T) {
			resp, body := sendRaw(t, address, c.line+"\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")
			if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != c.contentType || c.body != "…" && body != c.body {
				t.Errorf("%d %s %q", resp.StatusCode, resp.Header.Get("Content-Type"), body)
			}
			if allow := resp.Header.Get("Allow"); (allow == "GET, HEAD") != (c.status == 405) {
				t.Errorf("allow %q", allow)
			}
			if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Server") != "" {
				t.Errorf("header %v", resp.Header)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("other origins may read the response")
			}
		})
	}
}

// TestRejectsForeignHosts sends the requests of a browser after DNS rebinding.
func TestRejectsForeignHosts(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{Hosts: []string{"sluice.internal"}})
	for host, allowed := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8081": true, "10.1.2.3:8081": true, "[::1]:8081": true, "[::1]": true, "[fe80::1%25eth0]:1": true,
		"localhost": true, "LocalHost:8081": true, "localhost.:8081": true, "sluice.internal": true, "SLUICE.internal:9": true,
		"evil.example": false, "evil.example:8081": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"xlocalhost": false, "sluice.internal.evil.example": false, "1": false, "0x7f000001": false, ":8081": false,
	} {
		for path, restricted := range map[string]bool{"/": true, "/status": true, "/usage": true, "/metrics": true, "/healthz": false, "/readyz": false} {
			want := 200
			if restricted && !allowed {
				want = 421
			} else if path == "/usage" {
				want = 404 // the fake has no ledger
			}
			if resp, _ := sendRaw(t, address, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); resp.StatusCode != want {
				t.Errorf("%s with Host %q: status %d, want %d", path, host, resp.StatusCode, want)
			}
		}
	}
	if resp, _ := sendRaw(t, address, "GET /status HTTP/1.0\r\n\r\n"); resp.StatusCode != 200 {
		t.Errorf("without Host: status %d", resp.StatusCode)
	}
}

func TestReadiness(t *testing.T) {
	f := &fake{}
	address, _ := serve(t, f, Options{})
	reason := errors.New("the gateway is shutting down")
	f.reason.Store(&reason)
	resp, body := get(t, address, "/readyz")
	if resp.StatusCode != 503 || body != "not ready: the gateway is shutting down\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	if resp, _ := get(t, address, "/healthz"); resp.StatusCode != 200 {
		t.Errorf("/healthz: status %d while not ready", resp.StatusCode)
	}
	f.reason.Store(nil)
	if resp, _ := get(t, address, "/readyz"); resp.StatusCode != 200 {
		t.Errorf("/readyz: status %d after becoming ready again", resp.StatusCode)
	}
}

func TestReadyButDegraded(t *testing.T) {
	address, _ := serve(t, &fake{degraded: []string{"journal: no space left on device"}}, Options{})
	if resp, body := get(t, address, "/readyz"); resp.StatusCode != 200 || body != "ready\njournal: no space left on device\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestUsage(t *testing.T) {
	f := &fake{}
	address, _ := serve(t, f, Options{})
	if resp, _ := get(t, address, "/usage"); resp.StatusCode != 404 {
		t.Errorf("without a ledger: %d", resp.StatusCode)
	}
	var got journal.Query
	f.usage = func(q journal.Query) (*journal.Usage, error) {
		got = q
		switch q.Since {
		case "never":
			_, err := journal.ReadUsage("", time.UTC, q)
			return nil, err
		case "2000-01-01":
			return nil, errors.New("input/output error at a path")
		}
		return &journal.Usage{By: q.By, Rows: []journal.Row{{Values: []string{"a", "m"}, Sums: journal.Sums{Requests: 2, Cost: 3}}}, Total: journal.Sums{Requests: 2, Cost: 3}}, nil
	}
	for query, want := range map[string]struct {
		status                int
		contentType, contains string
	}{
		"since=2026-11-01&until=2026-11-30&by=key,model": {200, "application/json", `{"key":"a","model":"m","requests":2,`},
		"by=key,model&format=csv":                        {200, "text/csv; charset=utf-8", "\na,m,2,"},
		"by=key,model&format=table":                      {200, "text/plain; charset=utf-8", "0.000000003"},
		"by=key,model&format=xml":                        {400, "text/plain; charset=utf-8", `Invalid query: invalid format "xml": want table, csv, json.`},
		"by=colour":                                      {400, "text/plain; charset=utf-8", `Invalid query: invalid column "colour"`},
		"since=never":                                    {400, "text/plain; charset=utf-8", "want YYYY-MM-DD"},
		"since=2000-01-01":                               {500, "text/plain; charset=utf-8", "Reading the ledger failed."},
	} {
		resp, body := get(t, address, "/usage?"+query)
		if resp.StatusCode != want.status || resp.Header.Get("Content-Type") != want.contentType || !strings.Contains(body, want.contains) {
			t.Errorf("%s: %d %s %q", query, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if strings.HasPrefix(query, "since=2026") && (got.Since != "2026-11-01" || got.Until != "2026-11-30" || len(got.By) != 2) {
			t.Errorf("%s: the gateway got the query %+v", query, got)
		}
	}
}

func TestBudgets(t *testing.T) {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	address, _ := serve(t, &fake{budgets: []spend.Status{
		{Scope: spend.Scope{Kind: spend.Key, Name: "a"}, Per: config.PerMonth, Start: start, End: start.AddDate(0, 1, 0), Limit: 150e9, Raised: 50e9, Spent: 20e9, Uncertain: 2e9, Held: 5e8},
		{Scope: spend.Scope{Kind: spend.Team, Name: "r\td"}, Per: config.PerTotal, Limit: 1e9, Spent: 2e9},
	}}, Options{})
	const (
		header = "scope,name,per,window_start,window_end,limit_usd,raised_usd,spent_usd,uncertain_usd,held_usd,left_usd,shared\n"
		key    = "key,a,month,2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,150,50,20,2,0.5,129.5,\n"
		team   = "team,r\td,total,,,1,0,2,0,0,0,\n"
	)
	for query, want := range map[string]struct {
		status            int
		contentType, body string
	}{
		"format=csv":                    {200, "text/csv; charset=utf-8", header + key + team},
		"format=csv&scope=key":          {200, "text/csv; charset=utf-8", header + key},
		"format=csv&scope=key&name=b":   {200, "text/csv; charset=utf-8", header},
		"scope=team":                    {200, "application/json", "{\"budgets\":[\n{\"scope\":\"team\",\"name\":\"r\\td\",\"per\":\"total\",\"window_start\":null,\"window_end\":null,\"limit_usd\":1,\"raised_usd\":0,\"spent_usd\":2,\"uncertain_usd\":0,\"held_usd\":0,\"left_usd\":0,\"shared\":null}\n]}\n"},
		"format=table&scope=team":       {200, "text/plain; charset=utf-8", "scope  name  per    window_start  window_end  limit_usd  raised_usd  spent_usd  uncertain_usd  held_usd  left_usd  shared\nteam   r d   total  -             -           1          0           2          0              0         0         -\n"},
		"format=xml":                    {400, "text/plain; charset=utf-8", "Invalid query: invalid format \"xml\": want table, json, csv.\n"},
		"scope=other&format=csv&name=a": {400, "text/plain; charset=utf-8", "Invalid query: invalid scope \"other\": want key, team, model or provider.\n"},
	} {
		resp, body := get(t, address, "/budgets?"+query)
		if resp.StatusCode != want.status || resp.Header.Get("Content-Type") != want.contentType || body != want.body {
			t.Errorf("%s: %d %s %q", query, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
}

// TestStoreIsDescribed checks how each state of the store of shared limits is shown to operators.
func TestStoreIsDescribed(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	limits := []spend.Limit{
		{Limits: config.Limits{WhenDown: config.DownLocal}, Budgets: []config.Budget{{WhenDown: config.DownShare}, {WhenDown: config.DownDeny}, {}}},
		{Limits: config.Limits{WhenDown: config.DownLocal}}, {},
	}
	for _, c := range []struct {
		state      spend.State
		json, text string
	}{
		{spend.State{Since: since}, `"store":{"state":"up","since":"2026-11-22T12:00:00Z","limits":{"shared":2},"budgets":{"shared":2},`, ""},
		{
			spend.State{Since: since, Down: true}, `"store":{"state":"down","since":"2026-11-22T12:00:00Z","error":"refused","limits":{"local":2},"budgets":{"deny":1,"share":1},`,
			"store: down since 2026-11-22T12:00:00Z: refused; limits: 2 local; budgets: 1 deny, 1 share",
		},
		{
			spend.State{Since: since, Lost: true}, `"store":{"state":"lost","since":"2026-11-22T12:00:00Z","limits":{"local":2},"budgets":{"deny":1,"share":1},`,
			"store: new or without its data since 2026-11-22T12:00:00Z: waiting for all gateways to report; limits: 2 local; budgets: 1 deny, 1 share",
		},
	} {
		store := DescribeStore(c.state, limits)
		if store.State == StoreDown {
			store.Error = "refused"
		}
		address, _ := serve(t, &fake{status: func(p Page) Status { return Status{Page: p, Store: store} }}, Options{})
		_, body := get(t, address, "/status")
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(body)); err != nil || !strings.Contains(compact.String(), c.json) {
			t.Errorf("status document %s, %v; want it to contain %s", body, err, c.json)
		}
		_, page := get(t, address, "/")
		if !strings.Contains(page, ">store "+store.State+"<") || strings.Contains(page, "The store of shared limits") != (c.text != "") {
			t.Errorf("status page while the store is %s: %s", store.State, page)
		}
		if got := store.String(); c.text != "" && got != c.text {
			t.Errorf("got  %s\nwant %s", got, c.text)
		}
	}
	if text := ModeText(nil); text != "none shared" {
		t.Error(text)
	}
}

// TestPanicsAndFailures checks that a failure in one response is reported without its message, and that others are
// served.
func TestPanicsAndFailures(t *testing.T) {
	var log bytes.Buffer
	f := &fake{metricsErr: errors.New("collector failed"), status: func(Page) Status { panic("sk-canary") }}
	s := New(Options{Gateway: f, Metrics: f, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	for _, path := range []string{"/status", "/", "/metrics"} {
		resp, body := get(t, ln.Addr().String(), path)
		if resp.StatusCode != 500 || strings.Contains(body, "canary") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
	f.metrics = "x 1\n"
	if resp, body := get(t, ln.Addr().String(), "/metrics"); resp.StatusCode != 200 || body != "x 1\n" {
		t.Errorf("metrics that were collected are lost: %d %q", resp.StatusCode, body)
	}
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Contains(got, "canary") || !strings.Contains(got, "msg=panic") || !strings.Contains(got, "collector failed") {
		t.Errorf("log:\n%s", got)
	}
}

// TestCloseEndsConnections closes a server with three open connections: a new one, one in the middle of a request, and
// an idle one.
func TestCloseEndsConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("Close takes a second")
	}
	f := &fake{}
	s := New(Options{Gateway: f, Metrics: f})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	var conns []net.Conn
	for _, sent := range []string{"", "GET /hea", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if _, err := conns[2].Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for i, c := range conns {
		// Without Close, the server would end it after readTimeout.
		_ = c.SetReadDeadline(time.Now().Add(readTimeout / 2))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("connection %d is still open: %v", i, err)
		}
	}
	late, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(late); err != nil {
		t.Errorf("served after Close: %v", err)
	}
	if _, err := net.Dial("tcp", late.Addr().String()); err == nil {
		t.Error("the listener of a closed server is open")
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestRejectsLargeRequests accepts any response but 200, and none, because the connection may be reset before the
// response was read.
func TestRejectsLargeRequests(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{})
	for name, request := range map[string]string{
		"body of 2000 bytes": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000),
		"body to explain":    "POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n{}" + strings.Repeat(" ", 9000000-2),
		"head of 9000 bytes": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request)
		response, _ := io.ReadAll(c)
		c.Close()
		if strings.Contains(string(response), " 200 ") {
			t.Errorf("%s: accepted: %q", name, response)
		}
	}
}
