package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// guestFile writes a plugin to a file and returns its table for a configuration.
func guestFile(t testing.TB, name, isolation string, wasm []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".wasm")
	if err := os.WriteFile(file, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[plugins.%s]\nfile = %q\nsha256 = \"%x\"\nisolation = %q\n", name, file, sha256.Sum256(wasm), isolation)
}

// guest builds a plugin of testdata/guests and returns its table.
func guest(t testing.TB, name, isolation string) string {
	return guestFile(t, name, isolation, plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/"+name))
}

// quietServer is the start of a configuration without heartbeats, so that streams contain only events.
const quietServer = "[server]\nheartbeat = \"0s\"\n" + proxytest.Keys

const demoProvider = "[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n"

// canary is the prompt of every request of these tests. It must not reach the log or other clients.
const canary = "canary-7391"

// canaryRequest returns a chat completion request with the canary as its prompt.
func canaryRequest(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s"}],"stream":%t}`, model, canary, stream)
}

// hostileProvider returns a provider with the plugin hostile, and its models. The target's model tells the plugin what
// to do.
func hostileProvider(name, url string, models ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
[providers.%s]
plugin   = "hostile"
base_url = %q
auth     = { header = "x-api-key", secret = "sk-upstream-hostile-canary" }
timeout  = { idle = "10m" }
paths    = ["/v1/chat"]
headers  = ["x-allowed"]
`, name, url)
	for _, m := range models {
		fmt.Fprintf(&b, "[[models]]\nid = \"%[1]s/%[2]s\"\ntargets = [{ provider = \"%[1]s\", model = \"%[2]s\" }]\n", name, m)
	}
	return b.String()
}

// pluginMessages are the messages to a client for each error code of a failed plugin.
var pluginMessages = map[string]string{
	"plugin_crashed":  "The plugin for this provider failed.",
	"plugin_timeout":  "The plugin for this provider took too long.",
	"plugin_protocol": "The plugin for this provider gave a result that cannot be used.",
}

func pluginErrorBody(code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"server_error","param":null,"code":%q`, pluginMessages[code], code)
}

// misdeed names what the plugin hostile does in a call, and the error code that the client gets.
type misdeed struct{ name, code string }

// misdeeds are possible in any call.
var misdeeds = []misdeed{
	{"panic", "plugin_crashed"},     // covers: F90
	{"bounds", "plugin_crashed"},    // covers: F90
	{"nil", "plugin_crashed"},       // covers: F90
	{"zero", "plugin_crashed"},      // covers: F90
	{"status", "plugin_crashed"},    // covers: F90
	{"memory", "plugin_crashed"},    // covers: F91
	{"loop", "plugin_timeout"},      // covers: F92
	{"recursion", "plugin_crashed"}, // covers: F92
	{"output", "plugin_protocol"},   // covers: F93
	{"pointer", "plugin_crashed"},   // covers: F94
	{"length", "plugin_crashed"},    // covers: F94
	{"lines", "plugin_protocol"},    // covers: F95
	{"escape", "plugin_protocol"},   // covers: F95
	{"name", "plugin_protocol"},     // covers: F95
	{"log", "plugin_timeout"},       // covers: F96
	{"choice", "plugin_protocol"},
}

// TestHostilePlugins has a plugin break every rule while streams of other plugins, and one of its own, are open. Each
// time, only that request fails, with the documented error. The plugin's next request succeeds, and the responses of
// all other requests are unaffected.
func TestHostilePlugins(t *testing.T) {
	misdeeds := misdeeds
	if testing.Short() { // one for each error code; package plugin tests all of them faster
		seen := map[string]bool{"plugin_crashed": true} // "status" and "panic" have it
		misdeeds = slices.DeleteFunc(slices.Clone(misdeeds), func(m misdeed) bool {
			redundant := seen[m.code] && m.name != "status" && m.name != "panic"
			seen[m.code] = true
			return redundant
		})
	}
	never, proceed := make(chan struct{}), make(chan struct{})
	held := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: one\n\n"), upstreamtest.Wait(proceed),
		upstreamtest.Chunk("data: two\n\ndata: three\n\n", "data: end\n\n"), upstreamtest.LastChunk(),
	})
	fine := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: one\n\ndata: end\n\n"), upstreamtest.LastChunk(),
	})
	toml := quietServer + demoProvider + guest(t, "hostile", "key") + hostileProvider("held", held.URL(), "honest") + hostileProvider("fine", fine.URL(), "honest")

	// A misdeed in provider_request never reaches the provider.
	unreached := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Wait(never)})
	requests := []misdeed{
		{"path-with-a-line", "plugin_protocol"},   // covers: F95
		{"header-with-a-line", "plugin_protocol"}, // covers: F95
		{"path-above", "plugin_protocol"},
		{"path-encoded-above", "plugin_protocol"},
		{"path-not-allowed", "plugin_protocol"},
		{"another-host", "plugin_protocol"},
		{"authorization", "plugin_protocol"},
		{"the-credential-header", "plugin_protocol"},
		{"host", "plugin_protocol"},
		{"errors-ignored", "plugin_protocol"},
		{"body-and-edits", "plugin_protocol"},
		{"nothing", "plugin_protocol"},
		{"half", "plugin_protocol"},
	}
	requests = append(requests, misdeeds...)
	var models []string
	for _, r := range requests {
		models = append(models, r.name)
	}
	toml += hostileProvider("request", unreached.URL(), models...)

	// For misdeeds in provider_event and provider_error, a provider sends the misdeed's name.
	first := make([]*upstreamtest.Server, len(misdeeds))
	later := make([]*upstreamtest.Server, len(misdeeds))
	whole := make([]*upstreamtest.Server, len(misdeeds))
	for i, m := range misdeeds {
		bad := upstreamtest.Chunk("data: " + m.name + "\n\n")
		first[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), bad, upstreamtest.AwaitClose()})
		later[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: one\n\n"), bad, upstreamtest.AwaitClose()})
		whole[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", m.name)})
		toml += hostileProvider(fmt.Sprint("first-", i), first[i].URL(), "honest")
		toml += hostileProvider(fmt.Sprint("later-", i), later[i].URL(), "honest")
		toml += hostileProvider(fmt.Sprint("whole-", i), whole[i].URL(), "honest")
	}
	g := proxytest.Start(t, toml)

	neighbours := startNeighbours(t, g, 20)
	own := dial(t, g)
	own.post("own", canaryRequest("held/honest", true))
	begun := own.readUntil(`"one"},"finish_reason":null}]}` + "\n\n")

	for _, r := range requests {
		t.Run("request/"+r.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				wantPluginError(t, g, g.Chat(t, canaryRequest("request/"+r.name, stream)), r.code)
			}
		})
	}
	if n := unreached.Connections(); n != 0 {
		t.Errorf("got %d connections to the provider, want none", n)
	}
	for i, m := range misdeeds {
		t.Run("first event/"+m.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				wantPluginError(t, g, g.Chat(t, canaryRequest(fmt.Sprintf("first-%d/honest", i), stream)), m.code)
				awaitEnd(t, first[i])
			}
		})
		t.Run("later event/"+m.name, func(t *testing.T) {
			wantPluginError(t, g, g.Chat(t, canaryRequest(fmt.Sprintf("later-%d/honest", i), false)), m.code)
			awaitEnd(t, later[i])
			r := g.Chat(t, canaryRequest(fmt.Sprintf("later-%d/honest", i), true))
			frame := "data: " + pluginErrorBody(m.code)
			at := strings.Index(r.Body, frame)
			if r.Status != 200 || content(r.Body) != "one" || at < 0 || strings.Count(r.Body[at:], "data: ") != 1 || !strings.HasSuffix(r.Body, "}\n\n") || strings.Contains(r.Body, `"finish_reason":"`) {
				t.Errorf("got %d %s", r.Status, r.Body)
			}
			awaitEnd(t, later[i])
			if line := g.Log.Request(t, r.RequestID()); line["code"] != m.code || line["complete"] != "false" {
				t.Errorf("logged %v, want code %s and complete=false", line, m.code)
			}
			wantPluginServes(t, g)
		})
		t.Run("error response/"+m.name, func(t *testing.T) {
			wantPluginError(t, g, g.Chat(t, canaryRequest(fmt.Sprintf("whole-%d/honest", i), false)), m.code)
		})
	}

	close(proceed)
	if err := own.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		t.Fatal(err)
	}
	stream := begun[strings.Index(begun, "\r\n\r\n")+4:] + own.readUntil("0\r\n\r\n")
	if got := normalized(unchunked(t, stream)); got != ownStream {
		t.Errorf("the plugin's own healthy stream is\n%s\nwant\n%s", got, ownStream)
	}
	neighbours.wait(t)
	log := g.Log.String()
	if strings.Contains(log, canary) || strings.Contains(log, "sk-") {
		t.Error("the log contains a prompt or a credential")
	}
	for _, want := range []string{`"panic: panic with the prompt at main.`, `failed: status 1: "its own failure, with the prompt"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks the plugin's last message %s", want)
		}
	}
}

// wantPluginError checks that a request failed because of its plugin, and that the plugin still serves other requests.
func wantPluginError(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, code string) {
	t.Helper()
	wantError(t, r, 502, "server_error", code, "")
	if !strings.HasPrefix(r.Body, pluginErrorBody(code)) {
		t.Errorf("got %s\nwant %s", r.Body, pluginErrorBody(code))
	}
	if line := g.Log.Request(t, r.RequestID()); line["status"] != "502" || line["code"] != code || !strings.Contains(line["cause"], "plugin") {
		t.Errorf("logged %v, want status 502, code %s and a cause that names the plugin", line, code)
	}
	wantPluginServes(t, g)
}

// wantPluginServes checks that the plugin that has just failed serves the next requests. It sends two per failure,
// because the circuit breaker would block a key most of whose attempts fail.
func wantPluginServes(t *testing.T, g *proxytest.Gateway) {
	t.Helper()
	if r := g.Chat(t, canaryRequest("fine/honest", true)); r.Status != 200 || normalized(r.Body) != fineStream {
		t.Errorf("the next stream is %d %s, %v", r.Status, r.Body, g.Log.Request(t, r.RequestID()))
	}
	if r := g.Chat(t, canaryRequest("fine/honest", false)); r.Status != 200 || content(r.Body) != "one" {
		t.Errorf("the next response is %d %s, %v", r.Status, r.Body, g.Log.Request(t, r.RequestID()))
	}
}

// ownStream is the response of the plugin hostile to an honest stream of three words, and fineStream to one of one
// word.
const ownStream = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"two"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"three"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`

const fineStream = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`

var volatileMembers = regexp.MustCompile(`"id":"[^"]+"|"created":\d+`)

// normalized returns a stream with fixed values for the members that differ between requests.
func normalized(body string) string {
	return volatileMembers.ReplaceAllStringFunc(body, func(s string) string {
		if strings.HasPrefix(s, `"id"`) {
			return `"id":"ID"`
		}
		return `"created":0`
	})
}

// unchunked decodes the chunked transfer encoding.
func unchunked(t *testing.T, s string) string {
	t.Helper()
	b, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(s)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// neighbours are clients that request one demo stream after the other. All the streams must be the same.
type neighbours struct {
	want string
	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	count int
	busy  int // requests rejected because a slow machine had no instance free in time
	errs  []string
}

func startNeighbours(t *testing.T, g *proxytest.Gateway, clients int) *neighbours {
	t.Helper()
	calm := g.Chat(t, canaryRequest("demo", true))
	n := &neighbours{want: normalized(calm.Body), stop: make(chan struct{})}
	if calm.Status != 200 || !strings.HasSuffix(n.want, "data: [DONE]\n\n") || !strings.Contains(content(calm.Body), canary) {
		t.Fatalf("the demo's response is %d %s", calm.Status, calm.Body)
	}
	for range clients {
		n.wg.Go(func() { n.run(g) })
	}
	return n
}

// run sends requests until it is stopped, and one more after that. It retries a gateway_overloaded error, as clients
// do, because on a busy machine twenty clients and a plugin that uses up its fuel can keep a request waiting for more
// than the second that it may wait for an instance.
func (n *neighbours) run(g *proxytest.Gateway) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: proxytest.EventTimeout}
	defer client.CloseIdleConnections()
	served := time.Now()
	for last := false; ; {
		select {
		case <-n.stop:
			last = true
		default:
		}
		status, body, err := post(client, g, proxytest.Key, canaryRequest("demo", true))
		n.mu.Lock()
		switch {
		case err == nil && status == 503 && strings.Contains(body, `"code":"gateway_overloaded"`) && time.Since(served) < proxytest.EventTimeout:
			n.busy++
			n.mu.Unlock()
			continue
		case err != nil || status != 200 || normalized(body) != n.want:
			n.errs = append(n.errs, fmt.Sprintf("%d %v %s", status, err, body))
			last = true
		default:
			n.count++
			served = time.Now()
		}
		n.mu.Unlock()
		if last {
			return
		}
	}
}

// post sends a chat completion. Unlike Gateway.Chat it may be called from any goroutine, because it does not fail the
// test.
func post(client *http.Client, g *proxytest.Gateway, key, body string) (status int, answer string, err error) {
	req, err := http.NewRequest("POST", g.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func (n *neighbours) wait(t *testing.T) {
	t.Helper()
	close(n.stop)
	n.wg.Wait()
	t.Logf("%d streams of neighbours, %d rejected because the machine is slow", n.count, n.busy)
	for _, e := range n.errs {
		t.Error("a neighbour's stream:", e)
	}
	if n.count < 100 {
		t.Errorf("got %d streams of neighbours, want at least 100", n.count)
	}
}
