package proxytest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Key is the secret of the client key in Keys, which may use every model.
const Key = "sk-proxytest-0123456789"

// Keys is the part of a configuration that defines Key.
const Keys = `
[[keys]]
name   = "tests"
secret = "` + Key + `"
models = ["*"]
`

// Reply is a response of the gateway, read to its end.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Err    error // error of reading the body
}

// RequestID returns the request's ID.
func (r *Reply) RequestID() string { return r.Header.Get("X-Request-Id") }

// Chat sends a chat completion with Key and reads the response.
func (g *Gateway) Chat(tb testing.TB, body string) *Reply {
	tb.Helper()
	return g.Do(tb, "POST", "/v1/chat/completions", body)
}

// Do sends a request with Key and reads the response. A header is "Name: value" and replaces a default one; "Name:"
// removes it.
func (g *Gateway) Do(tb testing.TB, method, path, body string, headers ...string) *Reply {
	tb.Helper()
	var payload io.Reader
	if body != "" {
		payload = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, g.URL+path, payload)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+Key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	t := &http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: g.TLS}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: b.String(), Err: err}
}
