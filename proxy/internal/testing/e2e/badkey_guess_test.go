package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestKeyGuessingIsLimited has several connections from one address guess 100,000 keys. A few are answered as invalid
// keys, all others with 429; a client with a valid key is not affected; and the log has a few lines.
//
// covers: F135
func TestKeyGuessingIsLimited(t *testing.T) {
	const guessers = 4
	each := scale(25_000, 3_000)
	g := proxytest.Start(t, configuration("", ""))
	began := time.Now()
	var wrong, tooMany atomic.Int64
	var all sync.WaitGroup
	for i := range guessers {
		c := dial(t, g)
		all.Go(func() {
			w := bufio.NewWriter(c)
			for j := range each {
				fmt.Fprintf(w, "GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer sk-guess-%d-%d\r\n\r\n", i, j)
			}
			_ = w.Flush()
		})
		all.Go(func() {
			for range each {
				resp, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				switch {
				case resp.StatusCode == 401 && strings.Contains(string(body), `"invalid_api_key"`):
					wrong.Add(1)
				case resp.StatusCode == 429 && strings.Contains(string(body), `"too_many_wrong_keys"`) && resp.Header.Get("Retry-After") != "" &&
					resp.Header.Get("X-Should-Retry") == "false" && resp.Header.Get("X-Request-Id") != "":
					tooMany.Add(1)
				default:
					t.Errorf("%d %s", resp.StatusCode, body)
					return
				}
			}
		})
	}
	// A good key from the same address, all the while.
	for range 50 {
		if r := g.Chat(t, hello); r.Status != 200 {
			t.Errorf("a good key: %d %s", r.Status, r.Body)
		}
	}
	all.Wait()
	// 20 at once, and one more each 3 seconds that this took.
	if n := wrong.Load(); n < 20 || n > 20+int64(time.Since(began)/(3*time.Second)) || n+tooMany.Load() != int64(guessers*each) {
		t.Errorf("%d were answered as wrong keys, %d as too many", n, tooMany.Load())
	}
	lines, said := 0, 0
	for _, line := range g.Log.Lines() {
		switch {
		case line["code"] == "invalid_api_key":
			lines++
		case line["msg"] == "invalid API keys rejected" && line["remote"] == "127.0.0.1":
			said++
		case line["code"] == "too_many_wrong_keys":
			t.Fatalf("a line for one of many: %v", line)
		}
	}
	if lines != int(wrong.Load()) || said != 5 {
		t.Errorf("%d lines about wrong keys, and %d about all of them", lines, said)
	}
	g.Log.Await(t, "msg", "invalid API keys rejected", "refused", "10000")
	if strings.Contains(g.Log.String(), "sk-guess") {
		t.Error("the log holds a key")
	}
}

// TestKeyGuessingLimitIsConfigurable changes the limit while the gateway serves.
//
// covers: F135
func TestKeyGuessingLimitIsConfigurable(t *testing.T) {
	toml := func(n int) string {
		return strings.Replace(configuration("", ""), "[server]", fmt.Sprintf("[server]\nmax_wrong_keys = %d", n), 1)
	}
	g := proxytest.Start(t, toml(2))
	guess := func() int {
		return g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization: Bearer sk-guess").Status
	}
	for i, want := range []int{401, 401, 429} {
		if got := guess(); got != want {
			t.Errorf("guess %d: %d", i, got)
		}
	}
	r := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization: Bearer sk-guess")
	wantError(t, r, 429, "rate_limit_error", "too_many_wrong_keys", "")
	if r.Header.Get("Retry-After") == "" || r.Header.Get("Retry-After-Ms") == "" || r.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("headers %v", r.Header)
	}
	// No key is no guess.
	if r := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization:"); r.Status != 401 {
		t.Errorf("no key: %d", r.Status)
	}
	if err := g.Reload(t, toml(0)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if got := guess(); got != 401 {
			t.Fatalf("without a limit: %d", got)
		}
	}
}
