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

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// What tests ask of a process that serves, and of the system about it.

// after is what stands behind name= on a line of the log.
func after(line, name string) string {
	_, rest, _ := strings.Cut(line, " "+name+"=")
	if quoted, err := strconv.QuotedPrefix(rest); err == nil {
		text, _ := strconv.Unquote(quoted)
		return text
	}
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// both waits until it serves, and returns the base URLs for clients and of health and metrics.
func (p *process) both() (clients, admin string) {
	p.t.Helper()
	clients = p.ready()
	return clients, "http://" + after(p.await(`msg="health, metrics and status"`), "address")
}

// get asks on a connection of its own, and returns status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp := do(t, "GET", url, "")
	defer resp.Body.Close()
	return resp.StatusCode, readAll(t, resp)
}

// metric reads a metric without labels, or with those that are written in its name.
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
	t.Fatalf("there is no metric %s in\n%s", name, body)
	return 0
}

// eventually asks until it is so. On a busy machine a plugin that has to be compiled takes its time.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * proxytest.Patience); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// descriptors is how many a process has open, 0 where that cannot be known.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Log(err)
		return 0
	}
	return len(open)
}

// demoConfig is a gateway with the demo, a key, and these members of [server].
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

// ask sends a chat completion and returns the answer.
func ask(t *testing.T, client *http.Client, base, key, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// whole is ask, with the answer's body.
func whole(t *testing.T, client *http.Client, base, key, body string) (int, string, error) {
	t.Helper()
	resp, err := ask(t, client, base, key, body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// newClient is a client whose connections end with the test.
func newClient(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// configured writes a configuration and returns its path.
func configured(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.toml")
	write(t, path, []byte(text))
	return path
}

// replace puts another file in the place of one, in one step.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".next", []byte(text))
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// held is a stream that has had its first word.
type held struct {
	resp *http.Response
	r    *bufio.Reader
}

// hold opens a stream of model "m", and reads up to a text.
func hold(t *testing.T, client *http.Client, base, key, until string) (held, error) {
	t.Helper()
	resp, err := ask(t, client, base, key, `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`)
	if err != nil {
		return held{}, err
	}
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return held{}, fmt.Errorf("%d %s", resp.StatusCode, body)
	}
	h := held{resp, bufio.NewReader(resp.Body)}
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

// rest reads a stream to its end.
func (h held) rest() (string, error) {
	defer h.resp.Body.Close()
	b, err := io.ReadAll(h.r)
	return string(b), err
}
