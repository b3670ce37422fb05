package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// corpus has texts with personal data and secrets: test numbers published by issuers, registries and vendors, and
// made-up keys.
var corpus = []struct {
	name, text, want string
	secrets          []string // must not reach the client
}{
	{
		"an order",
		"Dear Ms Doe,\nwe charged 4242 4242 4242 4242 (12/34). Write to jane.doe+shop@mail.example.co.uk or call +1 (415) 555-0132!",
		"Dear Ms Doe,\nwe charged [card] (12/34). Write to [email] or call [phone]!",
		[]string{"4242 ", "jane.doe", "example.co", "(415", "555-"},
	},
	{
		"a transfer", "IBAN DE89 3704 0044 0532 0130 00, the \"other\" GB29NWBK60161331926819; SSN 078-05-1120.",
		"IBAN [iban], the \"other\" [iban]; SSN [ssn].", []string{"3704 ", "NWBK", "078-05"},
	},
	{
		"a configuration", "export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\nexport AWS_SECRET_ACCESS_KEY='wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'\ntoken: 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 ",
		"export AWS_ACCESS_KEY_ID=[api_key]\nexport AWS_SECRET_ACCESS_KEY='[api_key]'\ntoken: [api_key] ", []string{"AKIA", "wJal", "ghp_", "zQWB"},
	},
	{
		"a header", "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U\nend",
		"Authorization: Bearer [jwt]\nend", []string{"eyJ", "dozj"},
	},
	{
		"a key", "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n", 20) + "abcd==\n-----END PRIVATE KEY-----\nKeep it!",
		"[private_key]\nKeep it!", []string{"BEGIN", "MIIE", "VJTU", "abcd="},
	},
	{
		"phrases", "Über PROJECT X, the projects, 这是机密文件, and Project\nX.", "Über [blocked], the projects, 这是[blocked]文件, and [blocked].", []string{"ROJECT X", "机密"},
	},
	{
		"nothing", "Version 1.2.3.4.5 of 2026-01-02 at 12:34:56, 4242424242424241, e = 2.7182818284590452, C++; {\"a\": [1, 2]} \\o/ 🙂 ok",
		"Version 1.2.3.4.5 of 2026-01-02 at 12:34:56, 4242424242424241, e = 2.7182818284590452, C++; {\"a\": [1, 2]} \\o/ 🙂 ok", nil,
	},
}

const corpusFilters = `
[[filters]]
plugin = "secrets"

[[filters]]
plugin  = "blocklist"
options = { phrases = ["Project X", "机密"] }
`

// lead is the start of each text. The filters release it immediately, so a client that receives it knows that the
// gateway has processed the first piece.
const lead = "So. "

// cutResponse is the provider's next response: a text in two pieces. The second is sent when the client has received
// lead.
type cutResponse struct {
	first, rest string
	begun       chan struct{}
}

// escaped returns a text as the inside of a JSON string.
func escaped(text string) string {
	p, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(p[1 : len(p)-1])
}

// plainText returns the decoded text of a response.
func (in *ingress) plainText(t *testing.T, body string, stream bool) string {
	t.Helper()
	prefix := in.textPrefix
	if stream {
		prefix = in.deltaPrefix
	}
	var b strings.Builder
	for _, piece := range strings.Split(body, prefix)[1:] {
		var text string
		if err := json.NewDecoder(strings.NewReader(`"` + piece)).Decode(&text); err != nil {
			t.Fatalf("%v in %q", err, piece)
		}
		b.WriteString(text)
	}
	return b.String()
}

// TestFilterCorpusCutAnywhere checks that clients of each API get the same filtered text wherever the provider's text
// is cut, and that they get the start of a text before the provider sends its end.
func TestFilterCorpusCutAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("sends hundreds of requests")
	}
	w := wires[0]
	for _, in := range ingresses {
		t.Run(in.name, func(t *testing.T) {
			var next atomic.Pointer[cutResponse]
			answer := func(c *upstreamtest.Conn) error {
				a := next.Load()
				for _, step := range []upstreamtest.Step{
					upstreamtest.EventStream(), upstreamtest.Chunk(w.begin + w.says(escaped(lead+a.first))), upstreamtest.Wait(a.begun),
					upstreamtest.Chunk(w.says(escaped(a.rest)) + w.finish + w.done), upstreamtest.LastChunk(),
				} {
					if err := step(c); err != nil {
						return err
					}
				}
				return nil
			}
			var scripts []upstreamtest.Script
			for range 20 {
				scripts = append(scripts, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), answer)})
			}
			g := proxytest.Start(t, w.gatewayConfig(upstreamtest.New(t, scripts...).URL())+corpusFilters)
			for _, c := range corpus {
				for at := 0; at < len(c.text); at += 1 + len(c.text)/300 {
					for !utf8.RuneStart(c.text[at]) {
						at++
					}
					a := &cutResponse{c.text[:at], c.text[at:], make(chan struct{})}
					next.Store(a)
					body := in.streamed(t, g, a.begun)
					if got := in.plainText(t, body, true); got != lead+c.want {
						t.Errorf("%s cut at %d: got %q, want %q", c.name, at, got, lead+c.want)
					}
					for _, s := range c.secrets {
						if strings.Contains(body, escaped(s)) {
							t.Errorf("%s cut at %d: secret %q in %s", c.name, at, s, body)
						}
					}
				}
			}
		})
	}
}

// streamed requests a stream and reads it. It closes begun when it has received lead.
func (in *ingress) streamed(t *testing.T, g *proxytest.Gateway, begun chan struct{}) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+in.pathTo("m", true), strings.NewReader(in.requestBody("m", "x", true)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+proxytest.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	for buf := make([]byte, 4096); ; {
		n, err := resp.Body.Read(buf)
		body.Write(buf[:n])
		if begun != nil && bytes.Contains(body.Bytes(), []byte(strings.TrimSpace(lead))) {
			close(begun)
			begun = nil
		}
		if err == io.EOF {
			return body.String()
		}
		if err != nil {
			t.Fatalf("%v after %s", err, &body)
		}
	}
}

// TestFilterCorpusUncut is like TestFilterCorpusCutAnywhere for texts in one piece, in requests and responses, with
// providers of each dialect.
func TestFilterCorpusUncut(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API and dialect")
	}
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		var scripts []upstreamtest.Script
		for _, c := range corpus {
			for _, answer := range []upstreamtest.Step{
				upstreamtest.Answer(200, "application/json", w.answer(escaped(c.text)), "Connection: close"),
				upstreamtest.Answer(200, "text/event-stream", w.stream(escaped(c.text)), "Connection: close"),
			} {
				scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), answer})
			}
		}
		provider := upstreamtest.New(t, scripts...)
		g := proxytest.Start(t, w.gatewayConfig(provider.URL())+corpusFilters)
		for i, c := range corpus {
			for n, stream := range []bool{false, true} {
				r := g.Do(t, "POST", in.pathTo("m", stream), in.requestBody("m", c.text, stream))
				if got := in.plainText(t, r.Body, stream); r.Status != 200 || got != c.want {
					t.Errorf("%s: got %d %q, want %q", c.name, r.Status, got, c.want)
				}
				sent := string(provider.Requests()[2*i+n].Body)
				for _, s := range c.secrets {
					if strings.Contains(r.Body, escaped(s)) || strings.Contains(sent, escaped(s)) {
						t.Errorf("%s: secret %q in response %s or request %s", c.name, s, r.Body, sent)
					}
				}
			}
		}
	})
}

// TestBundledFilters tests the filters in the embedded bundle of plugins.
func TestBundledFilters(t *testing.T) {
	if _, err := fs.ReadFile(plugins.FS(), "all.wasm"); err != nil {
		t.Skip("plugins/bundle is empty: run make plugins")
	}
	g := proxytest.StartWith(t, quietServer+demoProvider+corpusFilters, func(o *proxy.Options) { o.Bundled = plugins.FS() })
	for _, stream := range []bool{false, true} {
		r := g.Chat(t, fmt.Sprintf(`{"model":"demo","messages":[{"role":"user","content":"Project X, 4242 4242 4242 4242"}],"stream":%v}`, stream))
		if text := ingresses[0].plainText(t, r.Body, stream); r.Status != 200 || !strings.Contains(text, "“[blocked], [card]”") {
			t.Errorf("status %d: %q", r.Status, text)
		}
	}
}
