package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// accounts is a provider that accepts some credentials, and rate-limits others.
type accounts struct {
	mu       sync.Mutex
	statuses map[string]int // by credential; unknown ones are rejected
	used     map[string]int // number of requests, by credential
}

func (a *accounts) set(key string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[key] = status
}

func (a *accounts) count(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used[key]
}

func (a *accounts) respond(c *upstreamtest.Conn) error {
	if err := upstreamtest.ReadRequest()(c); err != nil {
		return err
	}
	key := strings.TrimPrefix(c.Last().Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	status := a.statuses[key]
	a.used[key]++
	a.mu.Unlock()
	switch status {
	case 200:
		return upstreamtest.Answer(200, "application/json", `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)(c)
	case 429:
		return upstreamtest.Answer(429, "application/json", `{"error":{"message":"slow down","type":"rate_limit","code":null}}`, "Retry-After: 60")(c)
	}
	return upstreamtest.Answer(401, "application/json", `{"error":{"message":"wrong key `+key+`","type":"invalid_request_error","code":"invalid_api_key"}}`)(c)
}

// secretVolume creates a volume in which replace updates a file as Kubernetes does, by atomically replacing a symbolic
// link to a folder with a link to another folder.
func secretVolume(t *testing.T) (file string, replace func(text string)) {
	t.Helper()
	dir, n := t.TempDir(), 0
	replace = func(text string) {
		t.Helper()
		n++
		folder := fmt.Sprintf("..%d", n)
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, folder, "key"), []byte(text))
		if err := os.Symlink(folder, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("..data", "key"), filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "key"), replace
}

// TestCredentialRotation replaces a provider's credential under load: in the usual order, in the reverse order, and
// while the configuration has an error. The new credential is used within a second, and no request fails.
func TestCredentialRotation(t *testing.T) {
	provider := &accounts{statuses: map[string]int{"sk-one-0123": 200}, used: map[string]int{}}
	up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(provider.respond)})
	file, replace := secretVolume(t)
	replace("sk-one-0123\n")
	config := demoConfig("", testKey) + fmt.Sprintf(`
[providers.up]
plugin   = "openai"
base_url = %q
auth     = { secret = { file = %q } }
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, up.URL(), file)
	path := writeConfig(t, config)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	base := p.ready()

	var failed, done atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 2 {
		client := newClient(t)
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, body, err := complete(t, client, base, testKey, `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)
				if done.Add(1); status != 200 || err != nil {
					if failed.Add(1) == 1 {
						t.Errorf("%d %v %s", status, err, body)
					}
				}
			}
		})
	}
	go func() {
		for range p.lines { // discard the log
		}
	}()
	awaitUse := func(key string) time.Duration {
		t.Helper()
		began, before := time.Now(), provider.count(key)
		eventually(t, key+" is used", func() bool { return provider.count(key) > before })
		return time.Since(began)
	}
	awaitUse("sk-one-0123")
	// inFlightDone waits until the requests in flight have ended, as an operator does before revoking the previous
	// credential.
	inFlightDone := func() {
		t.Helper()
		n := done.Load()
		eventually(t, "requests are done", func() bool { return done.Load() >= n+20 })
	}

	provider.set("sk-two-0123", 200)
	replace("sk-two-0123\n")
	if d := awaitUse("sk-two-0123"); d > time.Second && !testing.Short() {
		t.Errorf("a new credential was used after %v", d)
	}
	provider.set("sk-one-0123", 401)

	// The new credential is not valid yet.
	replace("sk-three-0123\n")
	awaitUse("sk-three-0123")
	awaitUse("sk-two-0123")
	provider.set("sk-three-0123", 200)
	inFlightDone()
	provider.set("sk-two-0123", 401)
	awaitUse("sk-three-0123")

	// With an error in the configuration.
	replaceFile(t, path, config+"\nnonsense = 1\n")
	provider.set("sk-four-0123", 200)
	replace("sk-four-0123\n")
	awaitUse("sk-four-0123")

	// A file without a valid credential changes nothing.
	replace("\n")
	replaceFile(t, path, config+"\nnonsense = 2\n")
	for n := done.Load(); done.Load() < n+50; {
		awaitUse("sk-four-0123")
	}
	close(stop)
	clients.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed", n, done.Load())
	}
}

// TestSeveralCredentials checks that each client key has a preferred account, and that the next one is used while the
// preferred one is rate-limited or rejected.
func TestSeveralCredentials(t *testing.T) {
	t.Parallel()
	provider := &accounts{statuses: map[string]int{"sk-a-0123": 200, "sk-b-0123": 200, "sk-c-0123": 200}, used: map[string]int{}}
	up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(provider.respond)})
	var keys strings.Builder
	for i := range 12 {
		fmt.Fprintf(&keys, "[[keys]]\nname = \"client-%d\"\nsecret = \"sk-client-%d-0123456789\"\n", i, i)
	}
	p := start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, demoConfig("", testKey)+keys.String()+fmt.Sprintf(`
[providers.up]
plugin   = "openai"
base_url = %q
auth     = { secrets = ["sk-a-0123", "sk-b-0123", "sk-c-0123"] }
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, up.URL())))
	base := p.ready()
	client := newClient(t)
	request := func(i int) int {
		t.Helper()
		status, body, err := complete(t, client, base, fmt.Sprintf("sk-client-%d-0123456789", i), `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)
		if err != nil {
			t.Fatal(err, body)
		}
		return status
	}
	account := map[int]string{}
	for i := range 12 {
		before := map[string]int{}
		for key := range provider.statuses {
			before[key] = provider.count(key)
		}
		for range 3 {
			request(i)
		}
		for key, n := range before {
			if d := provider.count(key) - n; d == 3 {
				account[i] = key
			} else if d != 0 {
				t.Errorf("client %d used %s %d times", i, key, d)
			}
		}
	}
	clients := map[string][]int{}
	for i, key := range account {
		clients[key] = append(clients[key], i)
	}
	if len(clients) != 3 {
		t.Fatalf("accounts of clients: %v", account)
	}
	provider.set("sk-a-0123", 429)
	provider.set("sk-b-0123", 401)
	used := provider.count("sk-a-0123")
	for range 3 {
		for i := range 12 {
			if status := request(i); status != 200 {
				t.Errorf("client %d got %d", i, status)
			}
		}
	}
	if n := provider.count("sk-a-0123") - used; n != 1 {
		t.Errorf("the rate-limited account was used %d times, want 1", n)
	}
	provider.set("sk-c-0123", 429)
	if status := request(clients["sk-c-0123"][0]); status != 429 {
		t.Errorf("status %d with all accounts rate-limited or rejected, want 429", status)
	}
}
