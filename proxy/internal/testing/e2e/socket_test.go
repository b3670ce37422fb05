package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// socketClient is a client of the Responses API over a WebSocket.
type socketClient struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
}

// openSocket opens a WebSocket with a key.
func openSocket(t *testing.T, g *proxytest.Gateway, key string) *socketClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proxytest.EventTimeout)
	t.Cleanup(cancel)
	transport := &http.Transport{TLSClientConfig: g.TLS}
	t.Cleanup(transport.CloseIdleConnections)
	c, _, err := websocket.Dial(ctx, g.URL+"/v1/responses", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &socketClient{t, ctx, c}
}

func (c *socketClient) send(message string) {
	c.t.Helper()
	if err := c.conn.Write(c.ctx, websocket.MessageText, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
}

// read reads the next event.
func (c *socketClient) read() string {
	c.t.Helper()
	typ, data, err := c.conn.Read(c.ctx)
	if err != nil || typ != websocket.MessageText {
		c.t.Fatalf("%v, %v", typ, err)
	}
	return string(data)
}

// socketEvent is what tests read of an event.
type socketEvent struct {
	Type     string
	Status   int
	StreamID string `json:"stream_id"`
	Headers  map[string]string
	Error    struct{ Type, Code, Param, Message string }
	Response struct {
		ID     string
		Status string
		Output []json.RawMessage
	}
}

// turn reads the events of a response to its end. It returns all of them, and the last one.
func (c *socketClient) turn() (events []string, last socketEvent) {
	c.t.Helper()
	for {
		data := c.read()
		events = append(events, data)
		last = socketEvent{}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			c.t.Fatalf("%v in %s", err, data)
		}
		switch last.Type {
		case "response.completed", "response.incomplete", "response.failed", "error":
			return events, last
		}
	}
}

// closed returns the code and reason with which the gateway closes the socket.
func (c *socketClient) closed() (code int, reason string) {
	c.t.Helper()
	for {
		_, data, err := c.conn.Read(c.ctx)
		if err == nil {
			c.t.Logf("before the close: %s", data)
			continue
		}
		var closed websocket.CloseError
		if !errors.As(err, &closed) {
			c.t.Fatal(err)
		}
		return int(closed.Code), closed.Reason
	}
}

// eventData returns the data of the events of a stream.
func eventData(body string) (all []string) {
	for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		if _, data, ok := strings.Cut(event, "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

// recordedStreams returns the files of a folder that are recorded streams.
func recordedStreams(t *testing.T, dir string) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.sse", "*.chunks.txt"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 15 {
		t.Fatalf("got %d recordings, want at least 15", len(files))
	}
	return files
}

// recordedStream returns a recorded stream. Some have only the data of the events, one in each line.
func recordedStream(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(file, ".txt") {
		return "data: " + strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n\ndata: ") + "\n\n"
	}
	return string(data)
}

// variable matches what differs between two responses to the same request.
var variable = regexp.MustCompile(`(resp|msg|rs|fc|ctc)_[0-9a-f]+|"(created_at|completed_at)":[0-9.]+`)

// TestSocketEvents checks that the events over a WebSocket are those of a stream, for recorded responses of a provider
// with the Responses API, whose events are passed on unchanged, and of one with the Messages API.
func TestSocketEvents(t *testing.T) {
	for _, tt := range []struct {
		name, dir string
		wire      *wire
		options   string
	}{
		{"native", "../../responses/testdata/recorded", openaiWire, "options = { api = \"responses\" }\n"},
		{"translated", "../../messages/testdata/responses", anthropicWire, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := recordedStreams(t, tt.dir)
			var scripts []upstreamtest.Script
			for _, file := range files {
				answer := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", recordedStream(t, file), "Connection: close")}
				scripts = append(scripts, answer, answer)
			}
			provider := upstreamtest.New(t, scripts...)
			g := proxytest.Start(t, configuration("", "")+tt.wire.providerConfig("one", provider.URL(), tt.options)+modelWithTargets("m", "one/m"))
			c := openSocket(t, g, proxytest.Key)
			for _, file := range files {
				const members = `"model":"m","input":"x","store":false,"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"]`
				r := g.Do(t, "POST", "/v1/responses", `{`+members+`,"stream":true}`)
				c.send(`{"type":"response.create",` + members + `}`)
				got, last := c.turn()
				if r.Status != 200 { // the provider failed before its response began
					if _, failure, _ := strings.Cut(r.Body, "{"); len(got) != 1 || last.Status != r.Status || !strings.HasSuffix(got[0], failure) {
						t.Errorf("%s: over the socket\n%s\nstatus %d: %s", file, strings.Join(got, "\n"), r.Status, r.Body)
					}
					continue
				}
				want := eventData(r.Body)
				if tt.wire == anthropicWire {
					for i := range want {
						want[i] = variable.ReplaceAllString(want[i], "*")
					}
					for i := range got {
						got[i] = variable.ReplaceAllString(got[i], "*")
					}
				}
				if len(want) < 3 || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: over the socket\n%s\nas a stream\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}
