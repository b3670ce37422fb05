package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

// TestNginx runs nginx with examples/deploy/nginx.conf in front of a gateway. Every path reaches the gateway, which
// receives the client's request ID, and events are passed on immediately.
func TestNginx(t *testing.T) {
	if testing.Short() {
		t.Skip("starts nginx")
	}
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("nginx is not installed")
	}
	g := proxytest.Start(t, configuration("", ""))
	client := startNginx(t, g.Addr)

	const chat = `{"model":"demo","messages":[{"role":"user","content":"Hello"}]}`
	for i, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/models", "", 200},
		{"/v1/models/demo", "", 200},
		{"/v1beta/models", "", 200},
		{"/v1/chat/completions", chat, 200},
		{"/v1/chat/completions", strings.Replace(chat, "}]}", `}],"stream":true}`, 1), 200},
		{"/v1/messages", strings.Replace(chat, `"messages"`, `"max_tokens":9,"messages"`, 1), 200},
		{"/v1/responses", `{"model":"demo","input":"Hello"}`, 200},
		{"/v1beta/models/demo:generateContent", `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, 200},
		{"/v2/rerank", `{"model":"demo","query":"a","documents":["b"]}`, 404}, // no model of this kind
		{"/v1/no-such-path", "", 404},
		{"/", "", 404},
	} {
		method, id := "GET", fmt.Sprint("client-", i)
		if c.body != "" {
			method = "POST"
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "https://llm.example.com"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + proxytest.Key}, "Content-Type": {"application/json"}, "X-Request-Id": {id}}
		resp, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || resp.Header.Get("X-Request-Id") != id || err != nil || strings.Contains(string(body), "<html>") {
			t.Errorf("%s %s: %d with ID %q, %v: %s", method, c.path, resp.StatusCode, resp.Header.Get("X-Request-Id"), err, body)
		}
	}
}

// startNginx starts nginx as the example says, with TLS on a Unix socket, and returns a client for it.
func startNginx(t *testing.T, gateway string) *http.Transport {
	t.Helper()
	dir := t.TempDir()
	cert, key := certtest.Valid(t).Write(t, dir)
	socket := filepath.Join(dir, "s")
	server := strings.NewReplacer("server 127.0.0.1:8080;", "server "+gateway+";", "listen 443 ssl;", "listen unix:"+socket+" ssl;",
		"/etc/ssl/llm.example.com.pem", cert, "/etc/ssl/llm.example.com.key", key,
	).Replace(readFile(t, examples+"deploy/nginx.conf"))
	if !strings.Contains(server, gateway) || !strings.Contains(server, socket) || strings.Contains(server, "/etc/ssl") {
		t.Fatalf("nginx.conf has another form than this test expects:\n%s", server)
	}
	conf := fmt.Sprintf("daemon off;\npid %[1]s/pid;\nerror_log stderr notice;\nevents {}\nhttp {\naccess_log off;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf+server+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", file)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var log strings.Builder
	for lines.Scan() && !strings.Contains(lines.Text(), "start worker process") {
		log.WriteString(lines.Text() + "\n")
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, stderr)
	}()
	client := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		_ = cmd.Wait()
	})
	if _, err := os.Stat(socket); err != nil {
		t.Fatalf("nginx does not listen: %v\n%s", err, &log)
	}
	return client
}
