package admin

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// ended adds requests that have ended.
func ended(c *telemetry.Recent, ids ...string) {
	for _, id := range ids {
		c.End(&telemetry.Record{RequestID: id, Began: time.Now(), Ended: time.Now(), Status: 200, Key: "k"})
	}
}

// requestList is a response of /requests, or an event of its stream.
type requestList struct {
	Requests []struct{ Request, State string }
	Next     uint64
	Lost     int
}

func parseRequests(t *testing.T, body string) (p requestList, ids string) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, r := range p.Requests {
		ids += r.Request + " "
	}
	return p, strings.TrimSpace(ids)
}

func TestRequestsPages(t *testing.T) {
	c := telemetry.NewRecent(10)
	address, _ := serve(t, &fake{}, Options{Recent: c})
	ended(c, "a", "b", "c")
	c.Start(&telemetry.Record{RequestID: "flying", Began: time.Now()})
	query, want := "limit=2", []string{"flying c", "b a", ""}
	for _, w := range want {
		resp, body := get(t, address, "/requests?"+query)
		p, ids := parseRequests(t, body)
		if resp.StatusCode != http.StatusOK || ids != w {
			t.Errorf("%s: status %d, requests %q; want %q", query, resp.StatusCode, ids, w)
		}
		query = fmt.Sprintf("limit=2&before=%d", p.Next)
	}
}

func TestRequestByID(t *testing.T) {
	c := telemetry.NewRecent(10)
	address, _ := serve(t, &fake{}, Options{Recent: c})
	ended(c, "a", "b/c?d", "a", "stream")
	for path, want := range map[string]string{
		"/requests/a": "a a", "/requests/b%2Fc%3Fd": "b/c?d", "/requests?id=stream": "stream", "/requests/none": "", "/requests/": "",
	} {
		resp, body := get(t, address, path)
		if want == "" {
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: status %d, want 404", path, resp.StatusCode)
			}
			continue
		}
		if _, ids := parseRequests(t, body); ids != want {
			t.Errorf("%s: got %q, want %q", path, ids, want)
		}
	}
}

func TestInvalidRequestsQuery(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{Recent: telemetry.NewRecent(1)})
	for _, q := range []string{"limit=0", "limit=1001", "status=abc", "status=9xx", "state=gone", "failed=x", "since=monday", "before=-1", "colour=red"} {
		if resp, body := get(t, address, "/requests?"+q); resp.StatusCode != http.StatusBadRequest || !strings.HasPrefix(body, "Invalid query: ") {
			t.Errorf("%s: status %d: %s", q, resp.StatusCode, body)
		}
	}
	for _, q := range []string{"status=5xx", "status=429", "since=15m", "since=2026-11-01T00:00:00Z", "failed=true&key=k&model=m&target=p/t&code=c&state=ended"} {
		if resp, body := get(t, address, "/requests?"+q); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", q, resp.StatusCode, body)
		}
	}
}

// TestTokenGuardsEveryPath requests every path with and without the token.
func TestTokenGuardsEveryPath(t *testing.T) {
	for _, metricsToken := range []bool{false, true} {
		tokenGuardsEveryPath(t, metricsToken)
	}
}

func tokenGuardsEveryPath(t *testing.T, metricsToken bool) {
	t.Helper()
	c := telemetry.NewRecent(4)
	ended(c, "a")
	address, _ := serve(t, &fake{}, Options{Recent: c, Token: "tr0ub4dor", MetricsToken: metricsToken})
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("any:"+password))
	}
	paths := []string{"/requests/a"}
	for path := range routes {
		if path != requestPath && path != "/requests/stream" {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		for _, given := range []string{"", "Bearer wrong", "Bearer ", "Bearer", "Basic tr0ub4dor", basic("wrong"), basic(""), "tr0ub4dor", "Bearer tr0ub4dor", basic("tr0ub4dor")} {
			request := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
			if given != "" {
				request += "Authorization: " + given + "\r\n"
			}
			resp, body := sendRaw(t, address, request+"\r\n")
			open := path == "/healthz" || path == "/readyz" || path == "/metrics" && !metricsToken
			allowed := open || given == "Bearer tr0ub4dor" || given == basic("tr0ub4dor")
			if denied := resp.StatusCode == http.StatusUnauthorized; denied == allowed {
				t.Errorf("%s with %q: status %d", path, given, resp.StatusCode)
			}
			if !allowed && resp.Header.Get("www-authenticate") == "" || strings.Contains(body, "tr0ub4dor") {
				t.Errorf("%s with %q: %s", path, given, body)
			}
		}
	}
	if resp, _ := get(t, address, "/requests/stream"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("stream: status %d, want 401", resp.StatusCode)
	}
}

// TestRequestsBeyondLoopback serves on all addresses of the machine.
func TestRequestsBeyondLoopback(t *testing.T) {
	for token, want := range map[string]int{"": http.StatusForbidden, "secret": http.StatusOK} {
		c := telemetry.NewRecent(4)
		ended(c, "a")
		address, s := serve(t, &fake{}, Options{Recent: c, Token: token})
		ln, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		before := s.showsRequests()
		go func() { served <- s.Serve(ln) }()
		t.Cleanup(func() {
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		port := ln.Addr().(*net.TCPAddr).Port
		for _, at := range []string{fmt.Sprintf("127.0.0.1:%d", port), address} {
			for _, path := range []string{"/requests", "/requests/a"} {
				resp, body := sendRaw(t, at, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n")
				if resp.StatusCode != want || !before {
					t.Errorf("token %q: %s: status %d, want %d: %s", token, path, resp.StatusCode, want, body)
				}
			}
		}
		_, page := sendRaw(t, address, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		if shown := strings.Contains(page, "Recent requests"); shown != (want == http.StatusOK) {
			t.Errorf("token %q: the page shows requests: %t", token, shown)
		}
		s.Close()
	}
}

// openStream opens a stream of requests.
func openStream(t *testing.T, address, query, header string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "GET /requests/stream%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", query, header)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("content-type") != "text/event-stream" || resp.Header.Get("cache-control") != "no-store" {
		t.Fatalf("%v: %+v", err, resp)
	}
	return conn, bufio.NewReader(resp.Body)
}

// readEvent reads an event of a stream.
func readEvent(t *testing.T, r *bufio.Reader) (id string, p requestList, ids string) {
	t.Helper()
	data := ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSuffix(line, "\n")
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			data += v + "\n"
		}
		if line == "" && data != "" {
			p, ids = parseRequests(t, data)
			return id, p, ids
		}
	}
}

func TestRequestStream(t *testing.T) {
	c := telemetry.NewRecent(1000)
	address, _ := serve(t, &fake{}, Options{Recent: c})
	ended(c, "before")
	_, r := openStream(t, address, "?key=k", "")
	ended(c, "a", "b")
	c.End(&telemetry.Record{RequestID: "of another key", Key: "other"})
	id, p, ids := readEvent(t, r)
	for id != "4" { // the requests may have been divided into several events
		next, more, further := readEvent(t, r)
		id, ids, p.Lost = next, ids+" "+further, p.Lost+more.Lost
	}
	if ids != "a b" || p.Lost != 0 {
		t.Errorf("got %q, %d lost", ids, p.Lost)
	}
	for range 500 {
		ended(c, "many")
	}
	lost, rows := 0, 0
	for lost+rows < 500 {
		_, p, _ = readEvent(t, r)
		lost, rows = lost+p.Lost, rows+len(p.Requests)
		if len(p.Requests) > streamRows {
			t.Errorf("%d requests in an event", len(p.Requests))
		}
	}
	if lost+rows != 500 {
		t.Errorf("%d requests and %d lost, want 500", rows, lost)
	}
	_, r = openStream(t, address, "", "Last-Event-ID: 502\r\n")
	if _, p, _ := readEvent(t, r); len(p.Requests) != 2 {
		t.Errorf("after the event 502: %d requests, want 2", len(p.Requests))
	}
}

// TestCloseEndsStreams closes the server while clients neither read nor close their streams.
func TestCloseEndsStreams(t *testing.T) {
	address, s := serve(t, &fake{}, Options{Recent: telemetry.NewRecent(4)})
	_, r := openStream(t, address, "", "")
	openStream(t, address, "", "")
	s.Close()
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
}

func TestTooManyStreams(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{Recent: telemetry.NewRecent(4)})
	for range maxStreams {
		openStream(t, address, "", "")
	}
	if resp, _ := get(t, address, "/requests/stream"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", resp.StatusCode)
	}
}

// FuzzRequestsQuery parses queries of foreign bytes: what is accepted must be within the limits.
func FuzzRequestsQuery(f *testing.F) {
	for _, seed := range []string{"limit=1", "status=5xx&since=15m", "before=18446744073709551615", "failed=%00", "state=ended&id=%zz", "since=2026-11-01T00:00:00Z"} {
		f.Add(seed)
	}
	c := telemetry.NewRecent(4)
	ended(c, "a", "b")
	f.Fuzz(func(t *testing.T, query string) {
		var args fasthttp.Args
		args.Parse(query)
		q, err := requestQuery(&args)
		if err != nil {
			return
		}
		if n := len(c.Select(&q)); q.Limit < 1 || q.Limit > maxRequests || n > q.Limit || n > 2 {
			t.Errorf("%q: limit %d, %d requests", query, q.Limit, n)
		}
	})
}
