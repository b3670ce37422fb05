package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// vector is a sequence of bytes that a client sends, and the response that it must get.
type vector struct {
	name    string // name of the subtest
	send    string
	status  int
	code    string // "" is null
	param   string // "" is null
	conn    connState
	headers []string // headers that the response must have, "Name: value"
	message string   // text that the error message must contain
	typ     string   // "" is invalid_request_error
}

// connState is the state of the connection after the response.
type connState uint8

const (
	connCloses   connState = iota // the response has Connection: close, nothing follows it, and the gateway closes the connection
	connStays                     // the connection can be used for another request
	clientCloses                  // like connCloses, but the client closes its sending side after the request
)

// postHead is the head of a chat completions request without the headers that describe its body, and getHead the head
// of a request for the list of models.
const (
	postHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\nContent-Type: application/json\r\n"
	getHead  = "GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\n"
)

// helloUpstream is a request that the gateway would send to a provider.
const helloUpstream = `{"model":"gpt","messages":[{"role":"user","content":"Hello"}]}`

// sized returns a Content-Length header, the end of the head, and the body.
func sized(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

// inChunks returns a body in one chunk, without a header.
func inChunks(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// chunked returns a Transfer-Encoding header, the end of the head, and the body in one chunk.
func chunked(body string) string { return "Transfer-Encoding: chunked\r\n\r\n" + inChunks(body) }

// runVectors sends each vector to a gateway over a connection of its own, and checks that none of them reaches a
// provider. The gateway does not limit wrong keys.
func runVectors(t *testing.T, vectors []vector) {
	t.Helper()
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	g := proxytest.Start(t, unlimited(configuration(provider.URL(), provider.URL())))
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) { v.run(t, g) })
	}
	if n := provider.Connections(); n != 0 {
		t.Errorf("the gateway opened %d connections to the provider", n)
	}
}

// unlimited returns a configuration without a limit for wrong keys.
func unlimited(toml string) string {
	return strings.Replace(toml, "[server]", "[server]\nmax_wrong_keys = 0", 1)
}

func (v *vector) run(t *testing.T, g *proxytest.Gateway) {
	c := dial(t, g)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// The write fails if the gateway has already responded and closed the connection.
		_, _ = io.WriteString(c, v.send)
		if v.conn == clientCloses {
			_ = c.CloseWrite()
		}
	}()
	defer func() { c.Close(); <-sent }()
	method, _, _ := strings.Cut(v.send, " ")
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != v.status || resp.Proto != "HTTP/1.1" {
		t.Errorf("got %s %d, want %d: %s", resp.Proto, resp.StatusCode, v.status, body)
	}
	if v.status >= 400 && method != "HEAD" {
		v.checkBody(t, body)
	}
	for _, want := range v.headers {
		if name, value, _ := strings.Cut(want, ": "); resp.Header.Get(name) != value {
			t.Errorf("header %s is %q, want %q", name, resp.Header.Get(name), value)
		}
	}
	id := resp.Header.Get("X-Request-Id")
	if id == "" {
		t.Fatalf("no x-request-id in %v", resp.Header)
	}
	if resp.Close != (v.conn != connStays) {
		t.Fatalf("response has Connection: close: %t", resp.Close)
	}
	if v.conn == connStays {
		c.send(getHead + "\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("the connection cannot be reused: %v, %v", resp, err)
		}
	} else if rest, err := io.ReadAll(c.r); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %q and error %v after the response", rest, err)
	}
	line := g.Log.Request(t, id)
	if want := fmt.Sprint(v.status); line["status"] != want {
		t.Errorf("the log has status %s, want %s", line["status"], want)
	}
	if n := strings.Count(g.Log.String(), "request="+id+" "); n != 1 {
		t.Errorf("the log has %d lines for the request, want 1", n)
	}
}

// checkBody checks that the error's body has exactly four members, and their values.
func (v *vector) checkBody(t *testing.T, body []byte) {
	t.Helper()
	var outer map[string]map[string]*string
	if err := json.Unmarshal(body, &outer); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	e := outer["error"]
	want := map[string]string{"type": v.typ, "code": v.code, "param": v.param}
	if v.typ == "" {
		want["type"] = "invalid_request_error"
	}
	if len(outer) != 1 || len(e) != 4 || e["message"] == nil || *e["message"] == "" || !strings.Contains(*e["message"], v.message) {
		t.Errorf("body %s, want a message with %q", body, v.message)
	}
	for name, value := range want {
		got, there := e[name]
		if !there || (got == nil) != (value == "") || got != nil && *got != value {
			t.Errorf("%s is not %q in %s", name, value, body)
		}
	}
}

// malformedHTTP returns a vector that is rejected as malformed HTTP.
func malformedHTTP(name, send string) vector {
	return vector{name: name, send: send, status: 400, code: "bad_request"}
}

// covers: F101 F102 F103 F106
func TestInvalidFraming(t *testing.T) { runVectors(t, framingVectors()) }

func framingVectors() []vector {
	body := helloUpstream
	var vectors []vector
	add := func(name, send string) { vectors = append(vectors, malformedHTTP(name, send)) }

	// Request smuggling: Content-Length and Transfer-Encoding contradict each other.
	c := inChunks(body)
	add("CL.TE", postHead+fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(c), c))
	add("TE.CL", postHead+fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n%s", len(c), c))
	add("CL.TE with a second request", postHead+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+getHead+"\r\n")
	for name, header := range map[string]string{
		"xchunked":                          "Transfer-Encoding: xchunked",
		"chunked and identity":              "Transfer-Encoding: chunked, identity",
		"identity and chunked":              "Transfer-Encoding: identity, chunked",
		"gzip and chunked":                  "Transfer-Encoding: gzip, chunked",
		"quoted":                            `Transfer-Encoding: "chunked"`,
		"with a parameter":                  "Transfer-Encoding: chunked;x=1",
		"nothing":                           "Transfer-Encoding: ",
		"two headers":                       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"two headers, chunked and identity": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"two headers, one in capitals":      "Transfer-Encoding: Chunked\r\nTRANSFER-ENCODING: chunked",
		"space before the colon":            "Transfer-Encoding : chunked",
		"tab before the colon":              "Transfer-Encoding\t: chunked",
		"vertical tab before the value":     "Transfer-Encoding: \x0bchunked",
		"vertical tab after the value":      "Transfer-Encoding: chunked\x0b",
		"form feed":                         "Transfer-Encoding:\x0cchunked",
		"no-break space":                    "Transfer-Encoding:\u00a0chunked",
		"NUL":                               "Transfer-Encoding: chunked\x00",
		"bare CR":                           "Transfer-Encoding: chunked\rX: y",
		"a line after it without a colon":   "Transfer-Encoding: chunked\r\nX",
		"on a folded line":                  "X: y\r\n Transfer-Encoding: chunked",
		"its value on a folded line":        "Transfer-Encoding:\r\n chunked",
		"in a folded value":                 "Transfer-Encoding: x\r\n\tchunked",
	} {
		add(name, postHead+header+"\r\n\r\n"+c)
	}
	add("identity", postHead+"Transfer-Encoding: identity\r\n"+sized(body))
	add("chunks over HTTP/1.0", strings.Replace(postHead, "HTTP/1.1", "HTTP/1.0", 1)+chunked(body))

	n := len(body)
	for name, header := range map[string]string{
		"twice":               fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d", n, n),
		"twice, conflicting":  fmt.Sprintf("Content-Length: %d\r\nContent-Length: 5", n),
		"a list":              fmt.Sprintf("Content-Length: %d, %d", n, n),
		"a conflicting list":  fmt.Sprintf("Content-Length: %d, 5", n),
		"negative":            "Content-Length: -5",
		"with a sign":         fmt.Sprintf("Content-Length: +%d", n),
		"hexadecimal":         fmt.Sprintf("Content-Length: 0x%x", n),
		"hexadecimal digits":  "Content-Length: 3e",
		"beyond 63 bits":      "Content-Length: 9223372036854775808",
		"beyond 64 bits":      "Content-Length: 18446744073709551621",
		"beyond 128 bits":     "Content-Length: 340282366920938463463374607431768211461",
		"two numbers":         fmt.Sprintf("Content-Length: %d 5", n),
		"a fraction":          fmt.Sprintf("Content-Length: %d.0", n),
		"nothing":             "Content-Length: ",
		"other digits":        "Content-Length: ٥",
		"a letter after it":   fmt.Sprintf("Content-Length: %dx", n),
		"NUL after it":        fmt.Sprintf("Content-Length: %d\x00", n),
		"on a folded line":    fmt.Sprintf("Content-Length:\r\n %d", n),
		"a folded second one": fmt.Sprintf("Content-Length: %d\r\n 0", n),
	} {
		add(name, postHead+header+"\r\n\r\n"+body)
	}

	const te = "Transfer-Encoding: chunked\r\n\r\n"
	for name, chunks := range map[string]string{
		"an extension with a line feed": fmt.Sprintf("%x;x\n%s\r\n0\r\n\r\n", n, body),
		"a line feed after the size":    fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", n, body),
		"a prefix":                      fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", n, body),
		"a sign":                        fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", n, body),
		"negative":                      fmt.Sprintf("-%x\r\n%s\r\n0\r\n\r\n", n, body),
		"overflow":                      fmt.Sprintf("1000000000000000%x\r\n%s\r\n0\r\n\r\n", n, body),
		"no size":                       fmt.Sprintf("\r\n%s\r\n0\r\n\r\n", body),
		"space before the size":         fmt.Sprintf(" %x\r\n%s\r\n0\r\n\r\n", n, body),
		"no line end after the data":    fmt.Sprintf("%x\r\n%s0\r\n\r\n", n, body),
		"data beyond the size":          fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n-1, body),
		"no number":                     fmt.Sprintf("x\r\n%s\r\n0\r\n\r\n", body),
		"a trailer Content-Length":      fmt.Sprintf("%x\r\n%s\r\n0\r\nContent-Length: 5\r\n\r\n", n, body),
		"a trailer Transfer-Encoding":   fmt.Sprintf("%x\r\n%s\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", n, body),
		"a trailer Host":                fmt.Sprintf("%x\r\n%s\r\n0\r\nHost: other\r\n\r\n", n, body),
		"a trailer Authorization":       fmt.Sprintf("%x\r\n%s\r\n0\r\nAuthorization: Bearer sk-x\r\n\r\n", n, body),
		"a trailer Content-Type":        fmt.Sprintf("%x\r\n%s\r\n0\r\nContent-Type: text/plain\r\n\r\n", n, body),
		"a trailer without a colon":     fmt.Sprintf("%x\r\n%s\r\n0\r\nX\r\n\r\n", n, body),
	} {
		add(name, postHead+te+chunks)
	}
	for name, chunks := range map[string]string{
		"half a chunk":   fmt.Sprintf("%x\r\n%s", n, body[:n/2]),
		"half a size":    "4",
		"half a trailer": fmt.Sprintf("%x\r\n%s\r\n0\r\nX: y", n, body),
		"no end":         fmt.Sprintf("%x\r\n%s\r\n0\r\n", n, body),
	} {
		v := malformedHTTP(name, postHead+te+chunks)
		v.conn = clientCloses
		vectors = append(vectors, v)
	}
	vectors = append(vectors, vector{name: "no last chunk", send: postHead + te + fmt.Sprintf("%x\r\n%s\r\n", n, body), status: 400, code: "bad_request", conn: clientCloses})
	v := malformedHTTP("a body shorter than its length", postHead+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n+1, body))
	v.conn = clientCloses
	return append(vectors, v)
}

// covers: F104 F105 F106 F107
func TestInvalidHeaderLines(t *testing.T) { runVectors(t, headVectors()) }

func headVectors() []vector {
	var vectors []vector
	add := func(name, send string) { vectors = append(vectors, malformedHTTP(name, send)) }
	for name, header := range map[string]string{
		"a folded line":              "X: y\r\n z",
		"a folded line with a tab":   "X: y\r\n\tz",
		"a folded first line":        " X: y",
		"space before the colon":     "X : y",
		"tab before the colon":       "X\t: y",
		"NUL in a value":             "X: a\x00b",
		"CR in a value":              "X: a\rb",
		"CR before the line end":     "X: a\r\r",
		"LF in a value":              "X: a\nY: b",
		"ESC in a value":             "X: a\x1bb",
		"DEL in a value":             "X: a\x7fb",
		"an empty name":              ": y",
		"a name of a space":          " : y",
		"a name with a space":        "X Y: z",
		"a name in brackets":         "(X): y",
		"a name with a quote":        `"X": y`,
		"a name with a slash":        "X/Y: z",
		"a name with an @":           "X@Y: z",
		"a name with NUL":            "X\x00: z",
		"a name with CR":             "X\rY: z",
		"a name that is not ASCII":   "Ünicode: y",
		"no colon":                   "X",
		"an empty line with a space": " ",
	} {
		add(name, postHead+header+"\r\n"+sized(helloUpstream))
	}
	for name, send := range map[string]string{
		"no Host":                     strings.Replace(postHead, "Host: gateway\r\n", "", 1),
		"an empty Host":               strings.Replace(postHead, "gateway", "", 1),
		"two Hosts":                   postHead + "Host: gateway\r\n",
		"two other Hosts":             postHead + "Host: other\r\n",
		"a list":                      strings.Replace(postHead, "gateway", "gateway, other", 1),
		"a path in it":                strings.Replace(postHead, "gateway", "gateway/x", 1),
		"a query in it":               strings.Replace(postHead, "gateway", "gateway?x", 1),
		"a fragment in it":            strings.Replace(postHead, "gateway", "gateway#x", 1),
		"a user in it":                strings.Replace(postHead, "gateway", "user@gateway", 1),
		"a password in it":            strings.Replace(postHead, "gateway", "user:secret@gateway", 1),
		"a backslash in it":           strings.Replace(postHead, "gateway", `gateway\x`, 1),
		"a space in it":               strings.Replace(postHead, "gateway", "gate way", 1),
		"a tab in it":                 strings.Replace(postHead, "gateway", "gate\tway", 1),
		"a percent in it":             strings.Replace(postHead, "gateway", "gate%2fway", 1),
		"a bad port":                  strings.Replace(postHead, "gateway", "gateway:80x", 1),
		"two ports":                   strings.Replace(postHead, "gateway", "gateway:80:81", 1),
		"a port beyond 16 bits":       strings.Replace(postHead, "gateway", "gateway:70000", 1),
		"half an address":             strings.Replace(postHead, "gateway", "[::1", 1),
		"a URL of another host":       strings.Replace(postHead, "/v1", "http://other/v1", 1),
		"a URL of a user at the host": strings.Replace(postHead, "/v1", "http://user@gateway/v1", 1),
		"a URL of another port":       strings.Replace(postHead, "/v1", "http://gateway:81/v1", 1),
		"a URL of another scheme":     strings.Replace(postHead, "/v1", "ftp://gateway/v1", 1),
		"a URL without a host":        strings.Replace(postHead, "/v1", "http:///v1", 1),
	} {
		add(name, send+sized(helloUpstream))
	}
	for name, line := range map[string]string{
		"no version":               "POST /v1/chat/completions",
		"HTTP/0.9":                 "GET /v1/models",
		"a version in lower case":  "POST /v1/chat/completions http/1.1",
		"three digits":             "POST /v1/chat/completions HTTP/1.10",
		"no point":                 "POST /v1/chat/completions HTTP/11",
		"another protocol":         "POST /v1/chat/completions HTTPS/1.1",
		"two versions":             "POST /v1/chat/completions HTTP/1.1 HTTP/1.1",
		"two spaces":               "POST  /v1/chat/completions HTTP/1.1",
		"two spaces at the end":    "POST /v1/chat/completions  HTTP/1.1",
		"a tab":                    "POST\t/v1/chat/completions HTTP/1.1",
		"a space at the end":       "POST /v1/chat/completions HTTP/1.1 ",
		"a space at the beginning": " POST /v1/chat/completions HTTP/1.1",
		"no target":                "POST  HTTP/1.1",
		"no slash":                 "POST v1/chat/completions HTTP/1.1",
		"a star":                   "POST * HTTP/1.1",
		"the preface of HTTP/2":    "PRI * HTTP/2.0",
		"a space in the target":    "POST /v1/chat /completions HTTP/1.1",
		"a NUL in the target":      "POST /v1/chat/completions\x00 HTTP/1.1",
		"a method in brackets":     "(POST) /v1/chat/completions HTTP/1.1",
	} {
		add(name, line+strings.TrimPrefix(postHead, "POST /v1/chat/completions HTTP/1.1")+sized(helloUpstream))
	}
	for _, version := range []string{"HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"} {
		vectors = append(vectors, vector{name: version + " in the request line", send: strings.Replace(postHead, "HTTP/1.1", version, 1) + sized(helloUpstream),
			status: 505, code: "http_version_not_supported"})
	}
	vectors = append(vectors,
		malformedHTTP("HTTP/2 frames", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		vector{name: "a header of 64 KiB", send: postHead + "X: " + strings.Repeat("x", 64<<10) + "\r\n" + sized(helloUpstream), status: 431, code: "request_header_too_large", message: "32 KiB"},
		vector{name: "a name of 64 KiB", send: postHead + strings.Repeat("x", 64<<10) + ": y\r\n" + sized(helloUpstream), status: 431, code: "request_header_too_large"},
		vector{name: "1,000 headers", send: postHead + strings.Repeat("X: y\r\n", 1000) + sized(helloUpstream), status: 431, code: "request_header_too_large", message: "100"},
		vector{name: "a target of 16 KiB", send: strings.Replace(postHead, " HTTP", "?"+strings.Repeat("x", 16<<10)+" HTTP", 1) + sized(helloUpstream), status: 414, code: "uri_too_long", message: "8 KiB"},
		vector{name: "a target of 64 KiB", send: strings.Replace(postHead, " HTTP", "?"+strings.Repeat("x", 64<<10)+" HTTP", 1) + sized(helloUpstream), status: 431, code: "request_header_too_large"},
	)
	return vectors
}
