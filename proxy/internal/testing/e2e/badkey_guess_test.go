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

// TestKeyGuessingIsLimited guesses 100,000 keys over several connections from one address. Only a few guesses get 401,
// and all others 429. Requests with a valid key from the same address are not affected, and the log has only a few
// lines.
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
				_ = c.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)) // of this response, not of all
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
	// Meanwhile, requests with a valid key from the same address.
	for range 50 {
		if r := g.Chat(t, hello); r.Status != 200 {
			t.Errorf("valid key: status %d: %s", r.Status, r.Body)
		}
	}
	all.Wait()
	// 20 at once, and one more every 3 seconds.
	if n := wrong.Load(); n < 20 || n > 20+int64(time.Since(began)/(3*time.Second)) || n+tooMany.Load() != int64(guessers*each) {
		t.Errorf("%d guesses got 401 and %d got 429", n, tooMany.Load())
	}
	lines, summaries := 0, 0
	for _, line := range g.Log.Lines() {
		switch {
		case line["code"] == "invalid_api_key":
			lines++
		case line["msg"] == "invalid API keys rejected" && line["remote"] == "127.0.0.1":
			summaries++
		case line["code"] == "too_many_wrong_keys":
			t.Fatalf("the log has a line for a rate-limited guess: %v", line)
		}
	}
	if lines != int(wrong.Load()) || summaries != 5 {
		t.Errorf("the log has %d lines about wrong keys, want %d, and %d summaries, want 5", lines, wrong.Load(), summaries)
	}
	g.Log.Await(t, "msg", "invalid API keys rejected", "rejected", "10000")
	if strings.Contains(g.Log.String(), "sk-guess") {
		t.Error("the log contains a guessed key")
	}
}

// TestKeyGuessingLimitIsConfigurable changes the limit by a reload.
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
			t.Errorf("guess %d got status %d, want %d", i, got, want)
		}
	}
	r := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization: Bearer sk-guess")
	wantError(t, r, 429, "rate_limit_error", "too_many_wrong_keys", "")
	if r.Header.Get("Retry-After") == "" || r.Header.Get("Retry-After-Ms") == "" || r.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("headers %v", r.Header)
	}
	// A request without a key is not a guess.
	if r := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization:"); r.Status != 401 {
		t.Errorf("request without a key got status %d, want 401", r.Status)
	}
	if err := g.Reload(t, toml(0)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if got := guess(); got != 401 {
			t.Fatalf("guess without a limit got status %d, want 401", got)
		}
	}
}
