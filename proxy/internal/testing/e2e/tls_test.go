package e2e_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestTLSListener checks the certificate, HTTP/1.1, the minimum of TLS 1.2, and session resumption.
func TestTLSListener(t *testing.T) {
	pair := certtest.Valid(t)
	g := proxytest.Start(t, configuration("", "")+pair.Table(t, t.TempDir()))
	for _, body := range []string{hello, strings.Replace(hello, "}]}", `}],"stream":true}`, 1)} {
		if r := g.Chat(t, body); r.Status != 200 || r.Err != nil {
			t.Errorf("%d %s, %v", r.Status, r.Body, r.Err)
		}
	}
	settings := g.TLS.Clone()
	settings.NextProtos = []string{"h2", "http/1.1"}
	settings.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		c := dialWith(t, g, settings)
		state := c.tls.ConnectionState()
		if state.NegotiatedProtocol != "http/1.1" || state.Version != tls.VersionTLS13 || state.PeerCertificates[0].SerialNumber.Cmp(pair.Serial) != 0 {
			t.Errorf("protocol %q, version %s", state.NegotiatedProtocol, tls.VersionName(state.Version))
		}
		if state.DidResume != (i > 0) {
			t.Errorf("connection %d resumed a session: %t", i, state.DidResume)
		}
		c.post("tls", hello)
		c.readUntil("}}")
		c.Close()
	}
	old := g.TLS.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	c, err := tls.Dial("tcp", g.Addr, old)
	if err == nil {
		c.Close()
		t.Error("a handshake with TLS 1.1 succeeds")
	}
}

// tlsClient is a rawClient after its handshake.
type tlsClient struct {
	*rawClient
	tls *tls.Conn
}

func dialWith(t *testing.T, g *proxytest.Gateway, settings *tls.Config) *tlsClient {
	t.Helper()
	c := dial(t, &proxytest.Gateway{Addr: g.Addr, TLS: settings})
	conn := c.w.(*tls.Conn)
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return &tlsClient{c, conn}
}

// TestReloadRenewsCertificate checks that a reload loads a new certificate while a stream continues on its connection,
// and that an invalid pair keeps the old certificate.
func TestReloadRenewsCertificate(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	dir := t.TempDir()
	first, second := certtest.Valid(t), certtest.Valid(t)
	toml := configuration(provider.URL(), "") + first.Table(t, dir)
	g := proxytest.Start(t, toml)
	serial := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", g.Addr, &tls.Config{InsecureSkipVerify: true}) // the test compares the serial number
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	stream := dial(t, g)
	stream.post("stream", askStream)
	stream.readUntil(`"Hel"},"finish_reason":null}]}`)

	second.Write(t, dir)
	if serial() != first.Serial.String() {
		t.Error("the new certificate is served without a reload")
	}
	if err := g.Reload(t, toml); err != nil {
		t.Fatal(err)
	}
	if serial() != second.Serial.String() {
		t.Error("the old certificate is served after a reload")
	}
	// Replace the key with one that does not match, after the configuration was checked and before the reload.
	cfg := proxytest.Parse(t, toml)
	key := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(key, first.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	err := g.Server.Reload(t.Context(), cfg)
	if err == nil || err.Error() != "TLS key "+key+": private key does not match public key" {
		t.Errorf("reload: %v, want an error about the key", err)
	}
	if serial() != second.Serial.String() {
		t.Error("the failed reload changed the certificate")
	}
	close(proceed)
	if rest := stream.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %q", rest)
	}
}

// TestTLSMismatch checks that plain HTTP to a TLS port gets an error, that TLS to a plain port is closed, and that both
// are counted but not logged.
//
// covers: F108
func TestTLSMismatch(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for handshakes that fail")
	}
	pair := certtest.Valid(t)
	t.Run("TLS on the plain port", func(t *testing.T) {
		g := proxytest.Start(t, configuration("", ""))
		admin := g.Admin(t)
		lines := len(g.Log.Lines())
		for range 3 {
			c, err := tls.Dial("tcp", g.Addr, &tls.Config{RootCAs: pair.Roots})
			if err == nil {
				c.Close()
				t.Fatal("the handshake succeeds")
			}
			if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
				t.Errorf("the gateway responds in plain text: %v", err)
			}
		}
		proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
			return m.Sum("sluice_client_handshakes_failed_total", "reason", "tls_on_plain") == 3 && m.Sum("sluice_client_connections") == 0
		})
		if now := g.Log.Lines(); len(now) != lines {
			t.Errorf("logged %v, want nothing", now[lines:])
		}
	})
	t.Run("HTTP on the TLS port", func(t *testing.T) {
		g := proxytest.Start(t, configuration("", "")+pair.Table(t, t.TempDir()))
		admin := g.Admin(t)
		plain := dial(t, &proxytest.Gateway{Addr: g.Addr})
		plain.post("plain", hello)
		answer, err := io.ReadAll(plain.r)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 Bad Request\r\n") || !strings.Contains(string(answer), "https://") ||
			!strings.Contains(string(answer), `"code":"https_required"`) || !strings.Contains(string(answer), "\r\nConnection: close\r\n") {
			t.Errorf("got %v: %s, want a 400 with code https_required", err, answer)
		}
		for name, send := range map[string]string{"garbage": "\x00\x01\x02\x03\x04\x05", "partial ClientHello": "\x16\x03\x01"} {
			c := dial(t, &proxytest.Gateway{Addr: g.Addr})
			c.send(send)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(c.r); strings.Contains(string(answer), "HTTP") || err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%s: %q, %v", name, answer, err)
			}
		}
		m := proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_client_connections") == 0 })
		if m.Sum("sluice_client_handshakes_failed_total", "reason", "plain_on_tls") != 1 || m.Sum("sluice_client_handshakes_failed_total", "reason", "failed") != 2 {
			t.Errorf("sluice_client_handshakes_failed_total is %v, want 1 plain_on_tls and 2 failed", m["sluice_client_handshakes_failed_total"])
		}
		if r := g.Chat(t, hello); r.Status != 200 {
			t.Errorf("request over TLS: status %d: %s", r.Status, r.Body)
		}
		for _, line := range g.Log.Lines() {
			if line["msg"] != "request" && !strings.HasPrefix(line["msg"], "no state folder") && (line["level"] == "WARN" || line["level"] == "ERROR") {
				t.Errorf("logged %v, want no warning", line)
			}
		}
	})
}

// TestStalledHandshakeTimesOut checks that a stalled handshake is closed at the read timeout, and does not delay other
// connections.
//
// covers: F15
func TestStalledHandshakeTimesOut(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a timeout")
	}
	pair := certtest.Valid(t)
	g := proxytest.Start(t, strings.Replace(configuration("", ""), "[server]", "[server]\nread_timeout = \"1s\"", 1)+pair.Table(t, t.TempDir()))
	var stalled []net.Conn
	for range 5 {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{0x16, 3, 1, 1}); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, c)
	}
	if r := g.Chat(t, hello); r.Status != 200 {
		t.Errorf("another client: status %d: %s", r.Status, r.Body)
	}
	for _, c := range stalled {
		if err := c.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection with a stalled handshake stays open")
		}
	}
}

// TestReloadCannotToggleTLS checks that a reload neither enables nor disables TLS, and logs that this needs a restart.
func TestReloadCannotToggleTLS(t *testing.T) {
	table := certtest.Valid(t).Table(t, t.TempDir())
	for name, c := range map[string]struct{ before, after string }{"enable": {"", table}, "disable": {table, ""}} {
		t.Run(name, func(t *testing.T) {
			g := proxytest.Start(t, configuration("", "")+c.before)
			if err := g.Reload(t, configuration("", "")+c.after); err != nil {
				t.Fatal(err)
			}
			g.Log.Await(t, "msg", "change requires a restart; keeping the old value", "member", "server.tls")
			if r := g.Chat(t, hello); r.Status != 200 {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
		})
	}
}
