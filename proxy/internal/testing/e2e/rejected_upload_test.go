package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// upload is larger than the socket buffers of both sides, so that writing it blocks unless the peer reads.
const upload = 24 << 20

// TestRejectedUploadGetsResponse has clients that, like most, read only after they have written a whole large request.
// They must get the error even though the gateway rejects the request by its head, or after part of the body. With a
// valid key they can write everything; otherwise the write may fail, and they read the response then.
//
// covers: F121
func TestRejectedUploadGetsResponse(t *testing.T) {
	arrived := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(arrived), upstreamtest.Wait(nil)})
	busy := func(toml string) string { return strings.Replace(toml, "max_body", "max_requests = 1\nmax_body", 1) }
	sized := fmt.Sprintf("Content-Length: %d\r\n\r\n", upload)
	pair := certtest.Valid(t)
	plain, secure := configuration(provider.URL(), ""), configuration(provider.URL(), "")+pair.Table(t, t.TempDir())
	large := func(toml string) string { return strings.Replace(toml, `"1MiB"`, `"32MiB"`, 1) }
	for _, c := range []struct {
		name, toml, head, body string
		status                 int
	}{
		{"wrong key", large(plain), strings.Replace(postHead, proxytest.Key, "sk-nobody-0123456789", 1) + sized, "", 401},
		{"wrong key, TLS", large(secure), strings.Replace(postHead, proxytest.Key, "sk-nobody-0123456789", 1) + sized, "", 401},
		{"too large", plain, postHead + sized, "", 413},
		{"too large, TLS", secure, postHead + sized, "", 413},
		{"too large, in chunks", plain, postHead + "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n", upload), 413},
		{"too large a chunk extension", plain, postHead + "Transfer-Encoding: chunked\r\n\r\n", "1;", 413},
		{"gateway busy", busy(large(plain)), postHead + sized, "", 503},
		{"wrong path", plain, strings.Replace(postHead, "/chat", "/nowhere", 1) + sized, "", 404},
		{"list of models with a body", plain, strings.Replace(postHead, "POST /v1/chat/completions", "GET /v1/models", 1) + sized, "", 413},
		{"list of models with a body, limit raised", large(plain), strings.Replace(postHead, "POST /v1/chat/completions", "GET /v1/models", 1) + sized, "", 200},
		{"list of models with a chunk extension", plain, strings.Replace(postHead, "POST /v1/chat/completions", "GET /v1/models", 1) + "Transfer-Encoding: chunked\r\n\r\n", "1;", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (strings.HasSuffix(c.name, "TLS") || strings.HasPrefix(c.name, "list of models")) {
				t.Skip("sends 24 MiB; the other cases run the same code")
			}
			g := proxytest.Start(t, c.toml)
			if c.status == 503 {
				busy := dial(t, g)
				busy.post("busy", helloUpstream)
				<-arrived
			}
			client := dial(t, g)
			client.send(c.head + c.body)
			n, err := client.upload(upload)
			if err != nil && c.status != 401 && c.status != 404 {
				t.Fatalf("%v after %d bytes", err, n)
			}
			resp, err := http.ReadResponse(client.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != c.status || resp.ContentLength < 2 {
				t.Errorf("got %v, %v, want status %d and a body", resp, err, c.status)
			}
		})
	}
}

// TestRejectedUploadIsBounded has rejected clients that never stop writing, and read nothing before a write fails. The
// gateway must soon stop reading, and they must get the response.
func TestRejectedUploadIsBounded(t *testing.T) {
	const (
		buffers = 16 << 20 // more than the buffers of both sockets
		known   = 32 << 20 // what is read of a client with a valid key
	)
	arrived := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(arrived), upstreamtest.Wait(nil)})
	plain := configuration(provider.URL(), "")
	busy := strings.Replace(plain, "max_body", "max_requests = 1\nmax_body", 1)
	fewKeys := strings.Replace(plain, "max_body", "max_wrong_keys = 1\nmax_body", 1)
	slow := strings.Replace(plain, "max_body", "read_timeout = \"1s\"\nmax_body", 1)
	wrong := strings.Replace(postHead, proxytest.Key, "sk-nobody-0123456789", 1)
	sized, chunked := fmt.Sprintf("Content-Length: %d\r\n\r\n", 1<<30), "Transfer-Encoding: chunked\r\n\r\n40000000\r\n"
	for _, c := range []struct {
		name, toml, head string
		status           int
		most             int
	}{
		{"wrong key", plain, wrong + sized, 401, buffers},
		{"wrong key, chunks", plain, wrong + chunked, 401, buffers},
		{"wrong key, waiting for permission", plain, wrong + "Expect: 100-continue\r\n" + sized, 401, buffers},
		{"too many wrong keys", fewKeys, wrong + sized, 429, buffers},
		{"wrong path", plain, strings.Replace(postHead, "/chat", "/nowhere", 1) + sized, 404, buffers},
		{"wrong path, chunks", plain, strings.Replace(postHead, "/chat", "/nowhere", 1) + chunked, 404, buffers},
		{"ambiguous", plain, postHead + "Content-Length: 5\r\n" + chunked, 400, buffers},
		{"no HTTP", plain, "POST\r\n\r\n", 400, buffers},
		{"large head", plain, postHead + "X: " + strings.Repeat("x", 40<<10), 431, buffers},
		{"head does not end", slow, postHead + "X: ", 408, buffers},
		{"too large", plain, postHead + sized, 413, known + buffers},
		{"too large, chunks", plain, postHead + chunked, 413, known + buffers},
		{"wrong type", plain, strings.Replace(postHead, "application/json", "text/plain", 1) + chunked, 415, known + buffers},
		{"gateway busy", busy, postHead + chunked, 503, known + buffers},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.name != "wrong key" {
				t.Skip("sends many MiB; another case runs the same code")
			}
			t.Parallel()
			g := proxytest.Start(t, c.toml)
			switch c.status {
			case 429:
				g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization: Bearer sk-nobody-0123456789")
			case 503:
				dial(t, g).post("busy", helloUpstream)
				<-arrived
			}
			client := dial(t, g)
			client.send(c.head)
			if c.status == 408 {
				g.Log.Await(t, "msg", "request", "status", "408")
			}
			n, err := client.upload(known + 2*buffers)
			if err == nil || n > c.most {
				t.Errorf("%d bytes could be written, then %v, want an error after at most %d", n, err, c.most)
			}
			resp, err := http.ReadResponse(client.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != c.status || !resp.Close {
				t.Errorf("got %v, %v, want status %d and a closed connection", resp, err, c.status)
			}
		})
	}
}

// TestRejectedSmallBodyKeepsConnection checks that the rest of a small request is read, so that the client can go on
// with the same connection.
func TestRejectedSmallBodyKeepsConnection(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	client := dial(t, g)
	for _, c := range []struct {
		head   string
		status int
	}{
		{strings.Replace(postHead, proxytest.Key, "sk-nobody-0123456789", 1), 401},
		{strings.Replace(postHead, "application/json", "text/plain", 1), 415},
		{strings.Replace(postHead, "/chat", "/nowhere", 1), 404},
		{strings.Replace(postHead, "POST /v1/chat/completions", "GET /v1/models", 1), 200},
	} {
		client.send(c.head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 60<<10, strings.Repeat("x", 60<<10)))
		resp, err := http.ReadResponse(client.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != c.status || resp.Close {
			t.Fatalf("got %v, %v, want status %d on a connection that stays open", resp, err, c.status)
		}
	}
}

// upload writes n bytes in pieces, and returns how many it could write.
func (c *rawClient) upload(n int) (written int, err error) {
	piece := strings.Repeat("x", 64<<10)
	for written < n && err == nil {
		var m int
		m, err = io.WriteString(c.w, piece)
		written += m
	}
	return written, err
}

// TestRejectedUploadMayPause has rejected clients pause for more than a second between their writes. Those with a wrong
// key may send less: a write fails then, and they read the response.
//
// covers: F121
func TestRejectedUploadMayPause(t *testing.T) {
	if testing.Short() {
		t.Skip("pauses for seconds")
	}
	wrong := strings.Replace(postHead, proxytest.Key, "sk-nobody-0123456789", 1)
	for _, c := range []struct {
		name, head string
		part       int
		mayFail    bool
		status     int
	}{
		{"too large", postHead, upload / 3, false, 413},
		{"wrong key", wrong, 64 << 10, false, 401},
		{"wrong key, more than is read", wrong, upload / 3, true, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := proxytest.Start(t, configuration("", ""))
			client := dial(t, g)
			client.send(c.head + fmt.Sprintf("Content-Length: %d\r\n\r\n", upload))
			for range 3 {
				if n, err := client.upload(c.part); err != nil && !c.mayFail {
					t.Fatalf("%v after %d bytes", err, n)
				}
				<-time.After(1500 * time.Millisecond)
			}
			resp, err := http.ReadResponse(client.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != c.status {
				t.Fatal(resp, err)
			}
		})
	}
}

// TestRejectedUploadDoesNotDelayShutdown has a rejected client that neither sends the rest of its request nor closes
// the connection.
func TestRejectedUploadDoesNotDelayShutdown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a shutdown")
	}
	t.Parallel()
	g := proxytest.Start(t, configuration("", ""))
	client := dial(t, g)
	client.send(postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", upload))
	if _, err := http.ReadResponse(client.r, nil); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("the shutdown took %v, want at most 4s", d)
	}
}

// TestChunkFraming checks that chunk extensions count towards the body's limit, and that the framing of small chunks
// does not.
func TestChunkFraming(t *testing.T) {
	if testing.Short() {
		t.Skip("sends a body of 1 MiB in chunks of one byte")
	}
	t.Parallel()
	const limit = 1 << 20
	g := proxytest.Start(t, configuration("", ""))
	padding := strings.Repeat(" ", limit-len(hello))
	var bytewise strings.Builder
	for _, b := range []byte(padding + hello) {
		fmt.Fprintf(&bytewise, "1\r\n%c\r\n", b)
	}
	extended := func(n, bytes int) string {
		return strings.Repeat("1;"+strings.Repeat("e", bytes)+"\r\n \r\n", n) + fmt.Sprintf("%x\r\n%s\r\n", len(hello), hello)
	}
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"chunks of one byte, at the limit", bytewise.String(), 200},
		{"one byte above the limit", "1\r\n \r\n" + bytewise.String(), 413},
		{"short extensions", extended(100, 100), 200},
		{"long extensions, together too large", extended(20, 60<<10), 413},
		{"an unterminated extension", "1;" + strings.Repeat("e", limit+64<<10), 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := dial(t, g)
			client.send(postHead + "Transfer-Encoding: chunked\r\n\r\n" + c.body)
			if !strings.HasPrefix(c.name, "an extension") {
				client.send("0\r\n\r\n")
			}
			resp, err := http.ReadResponse(client.r, nil)
			if err != nil || resp.StatusCode != c.status {
				t.Fatal(resp, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if c.status == 200 {
				client.post("next", hello)
				if resp, err := http.ReadResponse(client.r, nil); err != nil || resp.StatusCode != 200 {
					t.Errorf("next request on the connection: %v, %v", resp, err)
				}
			}
		})
	}
}

// TestRequestIDWithCredentialIsReplaced sends configured credentials as request IDs.
//
// covers: F137
func TestRequestIDWithCredentialIsReplaced(t *testing.T) {
	t.Parallel()
	g := proxytest.Start(t, configuration("", "")+"\n[[keys]]\nname = \"digest\"\ndigest = \"sha256:"+fmt.Sprintf("%x", sha256.Sum256([]byte("sk-digest-only-0123456789")))+"\"\n")
	for _, id := range []string{
		"sk-narrow-0123456789", "sk-expired-0123456789", "sk-digest-only-0123456789", "sk-upstream-openai-canary", "of-sk-upstream-openai-canary-42", proxytest.Key,
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/models", "/nothing"} {
			r := g.Do(t, "POST", path, hello, "X-Request-Id: "+id)
			if got := r.RequestID(); got == "" || strings.Contains(got, id) || strings.Contains(r.Body, id) {
				t.Errorf("%s: request ID %q, want a generated one", path, got)
			}
		}
	}
	if strings.Contains(g.Log.String(), "sk-") {
		t.Errorf("the log contains a credential:\n%s", g.Log)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "X-Request-Id: mine-42"); r.RequestID() != "mine-42" {
		t.Errorf("request ID mine-42 became %q", r.RequestID())
	}
}
