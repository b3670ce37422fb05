package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// logAttr returns the value of name= in a text log line.
func logAttr(line, name string) string {
	_, rest, _ := strings.Cut(line, " "+name+"=")
	if quoted, err := strconv.QuotedPrefix(rest); err == nil {
		text, _ := strconv.Unquote(quoted)
		return text
	}
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// addresses waits until the gateway serves, and returns the base URLs for clients and of the admin listener.
func (p *process) addresses() (clients, admin string) {
	p.t.Helper()
	clients = p.ready()
	return clients, "http://" + logAttr(p.await(`msg="serving health, metrics and status"`), "address")
}

// get sends a request on a new connection, and returns status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp := do(t, "GET", url, "")
	defer resp.Body.Close()
	return resp.StatusCode, readAll(t, resp)
}

// metric reads the value of one series. name includes its labels, if it has any.
func metric(t *testing.T, admin, name string) float64 {
	t.Helper()
	status, body := get(t, admin+"/metrics")
	if status != 200 {
		t.Fatalf("metrics: %d %s", status, body)
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s in\n%s", name, body)
	return 0
}

// eventually polls until a condition holds.
func eventually(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", condition)
		}
	}
}

// descriptors returns the number of file descriptors that a process has open, or 0 if that is unknown.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Log(err)
		return 0
	}
	return len(open)
}

// demoConfig returns a configuration with the demo provider, a key, and additional keys of [server].
func demoConfig(server, key string) string {
	return fmt.Sprintf(`
[server]
listen = "127.0.0.1:0"
%s
[admin]
listen = "127.0.0.1:0"

[[keys]]
name   = "tests"
secret = %q

[providers.demo]
plugin = "demo"

[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`, server, key)
}

const testKey = "sk-tests-0123456789"

// post sends a chat completion request.
func post(t *testing.T, client *http.Client, base, key, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// complete sends a chat completion request and returns status and body.
func complete(t *testing.T, client *http.Client, base, key, body string) (int, string, error) {
	t.Helper()
	resp, err := post(t, client, base, key, body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// newClient returns a client whose idle connections are closed after the test.
func newClient(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// writeConfig writes a configuration and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.toml")
	write(t, path, []byte(text))
	return path
}

// replaceFile replaces a file atomically.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".next", []byte(text))
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// heldStream is a stream that has received its first event.
type heldStream struct {
	resp *http.Response
	r    *bufio.Reader
}

// openStream opens a stream of model "m" and reads until a line contains until.
func openStream(t *testing.T, client *http.Client, base, key, until string) (heldStream, error) {
	t.Helper()
	resp, err := post(t, client, base, key, `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`)
	if err != nil {
		return heldStream{}, err
	}
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return heldStream{}, fmt.Errorf("%d %s", resp.StatusCode, body)
	}
	h := heldStream{resp, bufio.NewReader(resp.Body)}
	for {
		line, err := h.r.ReadString('\n')
		if err != nil {
			return h, err
		}
		if strings.Contains(line, until) {
			return h, nil
		}
	}
}

// rest reads the stream to its end.
func (h heldStream) rest() (string, error) {
	defer h.resp.Body.Close()
	b, err := io.ReadAll(h.r)
	return string(b), err
}
