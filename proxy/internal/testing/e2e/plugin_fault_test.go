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

// guestFile writes a plugin to a file and returns its table in a configuration.
func guestFile(t testing.TB, name, isolation string, wasm []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".wasm")
	if err := os.WriteFile(file, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[plugins.%s]\nfile = %q\nsha256 = \"%x\"\nisolation = %q\n", name, file, sha256.Sum256(wasm), isolation)
}

func guest(t testing.TB, name, isolation string) string {
	return guestFile(t, name, isolation, plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/"+name))
}

// quietServer is the beginning of a configuration whose streams have nothing but events.
const quietServer = "[server]\nheartbeat = \"0s\"\n" + proxytest.Keys

const demoProvider = "[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n"

// canary is what the client says in every request of these tests; nobody else may ever see it.
const canary = "canary-7391"

func askOf(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s"}],"stream":%t}`, model, canary, stream)
}

// hostileProvider is a provider with the plugin hostile, and a model for each thing that the plugin is to do.
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

// What the plugin's failures are to a client.
var pluginMessages = map[string]string{
	"plugin_crashed":  "The plugin for this provider failed.",
	"plugin_timeout":  "The plugin for this provider took too long.",
	"plugin_protocol": "The plugin for this provider gave a result that cannot be used.",
}

func pluginErrorBody(code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"server_error","param":null,"code":%q`, pluginMessages[code], code)
}

// misdeed is what the plugin hostile does in a call, and the code of the error that its client gets.
type misdeed struct{ how, code string }

// misdeeds are those that it can do in any call.
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

// TestHostilePlugins has a plugin break every rule while streams of other plugins, and one of its own, are open: each
// time only the one request fails, with the documented error, the plugin's next request succeeds, and all others get
// exactly the response they would have got.
func TestHostilePlugins(t *testing.T) {
	misdeeds := misdeeds
	if testing.Short() { // one for each error; package plugin tests all of them faster
		seen := map[string]bool{"plugin_crashed": true} // by "status"
		misdeeds = slices.DeleteFunc(slices.Clone(misdeeds), func(m misdeed) bool {
			again := seen[m.code] && m.how != "status" && m.how != "panic"
			seen[m.code] = true
			return again
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

	// A request that the plugin always gets wrong reaches no provider.
	unreached := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Wait(never)})
	requests := []misdeed{
		{"path-with-a-line", "plugin_protocol"},   // covers: F95
		{"header-with-a-line", "plugin_protocol"}, // covers: F95
		{"path-above", "plugin_protocol"},
		{"path-encoded-above", "plugin_protocol"},
		{"path-of-others", "plugin_protocol"},
		{"another-host", "plugin_protocol"},
		{"authorization", "plugin_protocol"},
		{"the-credential-header", "plugin_protocol"},
		{"host", "plugin_protocol"},
		{"refusals-ignored", "plugin_protocol"},
		{"body-of-its-own-and-edits", "plugin_protocol"},
		{"nothing", "plugin_protocol"},
		{"half", "plugin_protocol"},
	}
	requests = append(requests, misdeeds...)
	var models []string
	for _, r := range requests {
		models = append(models, r.how)
	}
	toml += hostileProvider("request", unreached.URL(), models...)

	// For those that read a response, each has a provider that sends the word.
	first := make([]*upstreamtest.Server, len(misdeeds))
	later := make([]*upstreamtest.Server, len(misdeeds))
	whole := make([]*upstreamtest.Server, len(misdeeds))
	for i, m := range misdeeds {
		bad := upstreamtest.Chunk("data: " + m.how + "\n\n")
		first[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), bad, upstreamtest.AwaitClose()})
		later[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: one\n\n"), bad, upstreamtest.AwaitClose()})
		whole[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", m.how)})
		toml += hostileProvider(fmt.Sprint("first-", i), first[i].URL(), "honest")
		toml += hostileProvider(fmt.Sprint("later-", i), later[i].URL(), "honest")
		toml += hostileProvider(fmt.Sprint("whole-", i), whole[i].URL(), "honest")
	}
	g := proxytest.Start(t, toml)

	neighbours := startNeighbours(t, g, 20)
	own := dial(t, g)
	own.post("own", askOf("held/honest", true))
	begun := own.readUntil(`"one"},"finish_reason":null}]}` + "\n\n")

	for _, r := range requests {
		t.Run("request/"+r.how, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				wantPluginError(t, g, g.Chat(t, askOf("request/"+r.how, stream)), r.code)
			}
		})
	}
	if n := unreached.Connections(); n != 0 {
		t.Errorf("the provider was connected to %d times", n)
	}
	for i, m := range misdeeds {
		t.Run("first event/"+m.how, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				wantPluginError(t, g, g.Chat(t, askOf(fmt.Sprintf("first-%d/honest", i), stream)), m.code)
				awaitEnd(t, first[i])
			}
		})
		t.Run("later event/"+m.how, func(t *testing.T) {
			wantPluginError(t, g, g.Chat(t, askOf(fmt.Sprintf("later-%d/honest", i), false)), m.code)
			awaitEnd(t, later[i])
			r := g.Chat(t, askOf(fmt.Sprintf("later-%d/honest", i), true))
			frame := "data: " + pluginErrorBody(m.code)
			at := strings.Index(r.Body, frame)
			if r.Status != 200 || content(r.Body) != "one" || at < 0 || strings.Count(r.Body[at:], "data: ") != 1 || !strings.HasSuffix(r.Body, "}\n\n") || strings.Contains(r.Body, `"finish_reason":"`) {
				t.Errorf("got %d %s", r.Status, r.Body)
			}
			awaitEnd(t, later[i])
			if line := g.Log.Request(t, r.RequestID()); line["code"] != m.code || line["complete"] != "false" {
				t.Errorf("accounted as %v", line)
			}
			wantNextFine(t, g)
		})
		t.Run("error response/"+m.how, func(t *testing.T) {
			wantPluginError(t, g, g.Chat(t, askOf(fmt.Sprintf("whole-%d/honest", i), false)), m.code)
		})
	}

	close(proceed)
	if err := own.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		t.Fatal(err)
	}
	stream := begun[strings.Index(begun, "\r\n\r\n")+4:] + own.readUntil("0\r\n\r\n")
	if got := steady(unchunked(t, stream)); got != ownStream {
		t.Errorf("the plugin's own healthy stream is\n%s\nwant\n%s", got, ownStream)
	}
	neighbours.wait(t)
	log := g.Log.String()
	if strings.Contains(log, canary) || strings.Contains(log, "sk-") {
		t.Error("the log holds what a client said, or a credential")
	}
	for _, words := range []string{`"panic: panic with what the client said at main.`, `failed: status 1: "its own failure, with what the client said"`} {
		if !strings.Contains(log, words) {
			t.Errorf("the log lacks the plugin's last words %s", words)
		}
	}
}

// wantPluginError checks an answer that is the plugin's own failure, and that it is that of one request.
func wantPluginError(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, code string) {
	t.Helper()
	wantError(t, r, 502, "server_error", code, "")
	if !strings.HasPrefix(r.Body, pluginErrorBody(code)) {
		t.Errorf("got %s\nwant %s", r.Body, pluginErrorBody(code))
	}
	if line := g.Log.Request(t, r.RequestID()); line["status"] != "502" || line["code"] != code || !strings.Contains(line["cause"], "plugin") {
		t.Errorf("accounted as %v", line)
	}
	wantNextFine(t, g)
}

// wantNextFine checks that the plugin that has just failed serves the next requests. They are two for each failure, as a
// key most of whose attempts fail would be kept away from the plugin.
func wantNextFine(t *testing.T, g *proxytest.Gateway) {
	t.Helper()
	if r := g.Chat(t, askOf("fine/honest", true)); r.Status != 200 || steady(r.Body) != fineStream {
		t.Errorf("the next stream is %d %s, %v", r.Status, r.Body, g.Log.Request(t, r.RequestID()))
	}
	if r := g.Chat(t, askOf("fine/honest", false)); r.Status != 200 || content(r.Body) != "one" {
		t.Errorf("the next answer is %d %s, %v", r.Status, r.Body, g.Log.Request(t, r.RequestID()))
	}
}

// ownStream is what the client of an honest stream of three words through the plugin hostile gets, and fineStream that of
// one word.
const ownStream = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{"content":"two"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{"content":"three"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`

const fineStream = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`

var changing = regexp.MustCompile(`"id":"[^"]+"|"created":\d+`)

// steady is a stream without what differs from one request to the next.
func steady(body string) string {
	return changing.ReplaceAllStringFunc(body, func(s string) string {
		if strings.HasPrefix(s, `"id"`) {
			return `"id":"ID"`
		}
		return `"created":0`
	})
}

// unchunked is a chunked body's content.
func unchunked(t *testing.T, s string) string {
	t.Helper()
	b, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(s)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// neighbours are clients that ask the demo for one stream after the other, all of which must be the same.
type neighbours struct {
	want string
	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	count int
	busy  int // times that a slow machine had no instance free in time
	errs  []string
}

func startNeighbours(t *testing.T, g *proxytest.Gateway, clients int) *neighbours {
	t.Helper()
	calm := g.Chat(t, askOf("demo", true))
	n := &neighbours{want: steady(calm.Body), stop: make(chan struct{})}
	if calm.Status != 200 || !strings.HasSuffix(n.want, "data: [DONE]\n\n") || !strings.Contains(content(calm.Body), canary) {
		t.Fatalf("the demo answers %d %s", calm.Status, calm.Body)
	}
	for range clients {
		n.wg.Go(func() { n.run(g) })
	}
	return n
}

// run asks until it is stopped, and once more. Who is told that the gateway is overloaded asks again, as clients do:
// on a machine with other things to do, twenty clients and a plugin that takes all that it may can be too much for the
// second that a request waits.
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
		status, body, err := post(client, g, proxytest.Key, askOf("demo", true))
		n.mu.Lock()
		switch {
		case err == nil && status == 503 && strings.Contains(body, `"code":"gateway_overloaded"`) && time.Since(served) < proxytest.EventTimeout:
			n.busy++
			n.mu.Unlock()
			continue
		case err != nil || status != 200 || steady(body) != n.want:
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

// post asks from a goroutine of its own, which must not end the test.
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
	t.Logf("%d streams of neighbours, %d refused for the machine is slow", n.count, n.busy)
	for _, e := range n.errs {
		t.Error("a neighbour's stream, ", e)
	}
	if n.count < 100 {
		t.Errorf("only %d streams of neighbours", n.count)
	}
}
