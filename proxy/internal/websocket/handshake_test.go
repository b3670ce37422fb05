package websocket_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/coder/websocket"

	"github.com/sluice-gateway/sluice/proxy/internal/websocket"
)

func TestCheckHandshake(t *testing.T) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	for _, tt := range []struct {
		name                     string
		connection, version, key string
		want                     error
	}{
		{"minimal", "Upgrade", "13", key, nil},
		{"list", "keep-alive, upgrade", "13", key, nil},
		{"no upgrade", "keep-alive", "13", key, websocket.ErrConnection},
		{"another token", "upgraded", "13", key, websocket.ErrConnection},
		{"old version", "Upgrade", "8", key, websocket.ErrVersion},
		{"no version", "Upgrade", "", key, websocket.ErrVersion},
		{"no key", "Upgrade", "13", "", websocket.ErrKey},
		{"short key", "Upgrade", "13", "dGhlIHNhbXBsZQ==", websocket.ErrKey},
		{"long key", "Upgrade", "13", "dGhlIHNhbXBsZSBub25jZXh4", websocket.ErrKey},
		{"not base64", "Upgrade", "13", "dGhlIHNhbXBsZSBub25jZ!==", websocket.ErrKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := map[string]string{"Connection": tt.connection, "Sec-WebSocket-Version": tt.version, "Sec-WebSocket-Key": tt.key}
			if err := websocket.CheckHandshake(func(name string) []byte { return []byte(h[name]) }); err != tt.want {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// TestResponse checks the example of RFC 6455, section 1.3.
func TestResponse(t *testing.T) {
	const want = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-request-id: 1\r\n\r\n"
	if got := string(websocket.AppendResponse(nil, []byte("dGhlIHNhbXBsZSBub25jZQ=="), "x-request-id: 1\r\n")); got != want {
		t.Errorf("%q", got)
	}
}

func TestAppendClose(t *testing.T) {
	for _, tt := range []struct {
		code   websocket.Code
		reason string
		want   string
	}{
		{websocket.NoStatus, "unused", "\x88\x00"},
		{websocket.ServiceRestart, "restart", "\x88\x09\x03\xf4restart"},
		{websocket.NormalClosure, strings.Repeat("*", 122) + "κ", "\x88\x7c\x03\xe8" + strings.Repeat("*", 122)},
	} {
		if got := string(websocket.AppendClose(nil, tt.code, tt.reason)); got != tt.want {
			t.Errorf("%d: %q, want %q", tt.code, got, tt.want)
		}
	}
}

// TestClient exchanges messages with an independent client, without compression although the client offers it.
func TestClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := client.Dial(ctx, server.URL, &client.DialOptions{CompressionMode: client.CompressionContextTakeover})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(-1)
	for _, n := range []int{0, 1, 125, 126, 127, 128, 65535, 65536, maxMessage} {
		sent := strings.Repeat("é", n/2) + strings.Repeat("*", n%2)
		if err := c.Write(ctx, client.MessageText, []byte(sent)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(ctx); err != nil || string(got) != sent {
			t.Errorf("%d bytes: %d of them came back, %v", n, len(got), err)
		}
	}
	reading := c.CloseRead(ctx) // the client reads pongs only while it reads
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(3456, "bye"); err != nil {
		t.Error(err)
	}
	<-reading.Done()
}

// echo sends each message back.
func echo(w http.ResponseWriter, r *http.Request) {
	if err := websocket.CheckHandshake(func(name string) []byte { return []byte(r.Header.Get(name)) }); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	write := func(p []byte) error {
		_, err := conn.Write(p)
		return err
	}
	err = write(websocket.AppendResponse(nil, []byte(r.Header.Get("Sec-WebSocket-Key")), ""))
	reader := websocket.Reader{Source: buffered, MaxMessage: maxMessage, Grow: func(int) error { return nil }, Control: func(op websocket.Opcode, payload []byte) error {
		if op == websocket.Pong {
			return nil
		}
		return write(websocket.AppendFrame(nil, websocket.Pong, payload))
	}}
	for err == nil {
		var op websocket.Opcode
		var message []byte
		if op, message, err = reader.ReadMessage(nil); err == nil {
			err = write(websocket.AppendFrame(nil, op, message))
		}
	}
	if closed, ok := errors.AsType[*websocket.ClosedError](err); ok {
		_ = write(websocket.AppendClose(nil, closed.Code, ""))
	}
}
