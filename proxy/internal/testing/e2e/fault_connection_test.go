package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// wireProvider returns the configuration of a provider in a dialect, and a model of the same name.
func wireProvider(w *wire, url, more string) string {
	return fmt.Sprintf("[providers.%s]\nplugin = %[1]q\nbase_url = %q\n%s\n[[models]]\nid = %[1]q\nmax_tokens = 1000\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", w.plugin, url, more)
}

// TestSlowDrip sends an event byte by byte. The client must get it when it is complete, and the event timeout must
// apply although bytes arrive.
//
// covers: F41
func TestSlowDrip(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs, or makes much load")
	}
	t.Parallel()
	for _, w := range wires {
		t.Run("only complete events/"+w.plugin, func(t *testing.T) {
			drop := make(chan struct{})
			begun, second := w.opening("Hal"), w.says("lo")
			// The last byte of the second event, the end of its line, is sent after the client's output was checked.
			up := upstreamtest.New(t, upstreamtest.Script{
				upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + begun),
				upstreamtest.Bytes(second[:len(second)-1]), upstreamtest.Wait(drop), upstreamtest.Write(second[len(second)-1:] + w.finish + w.done), upstreamtest.Close(),
			})
			g := proxytest.Start(t, "[server]\nheartbeat = \"10ms\"\n"+proxytest.Keys+wireProvider(w, up.URL(), ""))
			c := dial(t, g)
			c.post("drip", canaryRequest(w.plugin, true))
			c.readUntil(`"content":"Hal"},"finish_reason":null}]}` + "\n\n\r\n")
			for range 3 {
				// While the event is incomplete, the gateway sends heartbeats only.
				if beat := c.readUntil(": keep-alive\n\r\n"); !strings.HasSuffix(beat, "d\r\n: keep-alive\n\r\n") || strings.Contains(beat, "lo") {
					t.Fatalf("got %q", beat)
				}
			}
			close(drop)
			if rest := c.readUntil("data: [DONE]\n\n\r\n0\r\n\r\n"); content(rest) != "lo" {
				t.Errorf("got %q", rest)
			}
		})
		t.Run("event timeout/"+w.plugin, func(t *testing.T) {
			// Neither a comment nor a line without an end is an event, but both prevent the idle timeout.
			for name, drip := range map[string]string{"comments": ": still there\n\n", "a line": "data: x"} {
				up := upstreamtest.New(t, upstreamtest.Script{
					upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + w.opening("Hal")),
					dripUntilClosed(drip),
				})
				g := proxytest.Start(t, quietServer+wireProvider(w, up.URL(), `timeout = { idle = "20s", event = "300ms" }`))
				for _, stream := range []bool{true, false} {
					expected := fails(seenTooLate, "Hal")
					if !stream {
						expected = fails(seenTooLate)
					}
					r := g.Chat(t, canaryRequest(w.plugin, stream))
					expected.check(t, g, r, stream, false)
					if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], "event timeout of 300ms") {
						t.Errorf("%s: logged as %v", name, line)
					}
				}
			}
		})
	}
}

// TestEventTimeoutIsPerEvent checks that the timeout applies between two events, and not to the whole stream.
//
// covers: F41
func TestEventTimeoutIsPerEvent(t *testing.T) {
	next := make(chan struct{})
	steps := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream()}
	const events = 6
	for range events {
		steps = append(steps, upstreamtest.Chunk(text("word ")), upstreamtest.Wait(next))
	}
	provider := upstreamtest.New(t, append(steps, upstreamtest.Chunk(finish, "data: [DONE]\n\n"), upstreamtest.LastChunk()))
	toml := strings.Replace(configuration(provider.URL(), ""), `first_byte = "3s", `, `first_byte = "3s", event = "10s", `, 1)
	var offset atomic.Int64 // of the gateway's clock
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	})
	c := dial(t, g)
	c.post("words", askStream)
	for range events {
		c.readUntil(`"content":"word "},"finish_reason":null}]}` + "\n\n\r\n")
		offset.Add(int64(4 * time.Second))
		next <- struct{}{}
	}
	if rest := c.readUntil("0\r\n\r\n"); !strings.Contains(rest, "[DONE]") {
		t.Errorf("got %s", rest)
	}
}

// dripUntilClosed writes s every 10 ms until the gateway closes the connection. In the time of an event timeout of 300
// ms that stays far below the maximum size of an event.
func dripUntilClosed(s string) upstreamtest.Step {
	return func(c *upstreamtest.Conn) error {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for {
			if _, err := io.WriteString(c, s); err != nil {
				return err
			}
			<-pace.C
		}
	}
}

// TestResponseBeforeRequestIsComplete has a provider reject a large request before it has read it.
//
// covers: F61
func TestResponseBeforeRequestIsComplete(t *testing.T) {
	tooLarge := upstreamtest.Answer(413, "application/json", `{"error":{"message":"too large","type":"invalid_request_error","param":null,"code":null}}`)
	for _, c := range []struct {
		name string
		end  []upstreamtest.Step
	}{
		{"stops reading", []upstreamtest.Step{upstreamtest.Wait(nil)}},
		{"half-closes", []upstreamtest.Step{upstreamtest.HalfClose(), upstreamtest.Wait(nil)}},
		{"keeps reading", []upstreamtest.Step{upstreamtest.DropBody(), wires[0].good()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.name == "half-closes" {
				t.Skip("sends 24 MiB, and is similar to the case before")
			}
			w := wires[0]
			up := upstreamtest.New(t, append(upstreamtest.Script{upstreamtest.ReadHead(), tooLarge}, c.end...), upstreamtest.Script{w.good()})
			g := proxytest.Start(t, "[server]\nmax_body = \"64MiB\"\n"+proxytest.Keys+wireProvider(w, up.URL(), "max_conns = 1"))
			r := g.Chat(t, fmt.Sprintf(`{"model":"openai","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("x", 24<<20)))
			const body = `{"error":{"message":"too large","type":"invalid_request_error","param":null,"code":"request_too_large","provider":"openai","upstream_status":413}}`
			if r.Status != 413 || r.Body != body {
				t.Errorf("got %d %s, want 413 %s", r.Status, r.Body, body)
			}
			complete("good").check(t, g, g.Chat(t, canaryRequest("openai", false)), false, false)
			if n := up.Connections(); n != 2 && c.name != "keeps reading" {
				t.Errorf("got %d connections, want 2, because the first one carries an incomplete request", n)
			}
		})
	}
}

// TestStaleConnections checks that clients get no errors when a provider closes idle connections.
//
// covers: F62
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		good := upstreamtest.Answer(200, "application/json", w.answer("good"))
		for name, end := range map[string]upstreamtest.Step{"FIN": upstreamtest.Close(), "RST": upstreamtest.Reset()} {
			t.Run("closed while idle/"+name+"/"+w.plugin, func(t *testing.T) {
				closing, closed := make(chan struct{}), make(chan struct{})
				up := upstreamtest.New(t,
					upstreamtest.Script{upstreamtest.ReadRequest(), good, upstreamtest.Wait(closing), end, upstreamtest.Signal(closed)},
					upstreamtest.Script{w.good()})
				g := proxytest.Start(t, quietServer+wireProvider(w, up.URL(), ""))
				complete("good").check(t, g, g.Chat(t, canaryRequest(w.plugin, false)), false, false)
				close(closing)
				awaitSignal(t, closed)
				complete("good").check(t, g, g.Chat(t, canaryRequest(w.plugin, false)), false, false)
				if n := len(up.Requests()); n != 2 {
					t.Errorf("the provider received %d requests, want 2", n)
				}
			})
			t.Run("closed after the request/"+name+"/"+w.plugin, func(t *testing.T) {
				up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), good, upstreamtest.ReadRequest(), end}, upstreamtest.Script{w.good()})
				g := proxytest.Start(t, quietServer+wireProvider(w, up.URL(), ""))
				for range 2 {
					r := g.Chat(t, canaryRequest(w.plugin, false))
					complete("good").check(t, g, r, false, false)
					if line := g.Log.Request(t, r.RequestID()); line["attempts"] != "1" {
						t.Errorf("logged as %v", line)
					}
				}
				if n := len(up.Requests()); n != 3 {
					t.Errorf("the provider received %d requests, want 3 with one resent", n)
				}
			})
		}
	}
}

// TestIdleTimeoutCrossesRequest has a provider with a very short idle timeout: up to 1.5 ms after each response it
// sends an unsolicited 408 and closes the connection. Requests that cross the 408 must be resent without an error for
// the client.
//
// covers: F62
func TestIdleTimeoutCrossesRequest(t *testing.T) {
	t.Parallel()
	requests := scale(500, 150)
	w := wires[0]
	respond := func(c *upstreamtest.Conn) error {
		if err := upstreamtest.ReadRequest()(c); err != nil {
			return err
		}
		if !strings.Contains(string(c.Last().Body), `"stream":true`) {
			return upstreamtest.Answer(200, "application/json", w.answer("good"))(c)
		}
		events := w.stream("good")
		return upstreamtest.Answer(200, "text/event-stream", events)(c)
	}
	up := upstreamtest.New(t, upstreamtest.Script{
		respond,
		upstreamtest.Idle(1500 * time.Microsecond),
		upstreamtest.Write("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntime"),
		upstreamtest.Close(),
	})
	g := proxytest.Start(t, quietServer+wireProvider(w, up.URL(), "breaker = { enabled = false }"))
	failed := 0
	for i := range requests {
		stream := i%2 == 0
		r := g.Chat(t, canaryRequest(w.plugin, stream))
		if stream && !strings.HasSuffix(r.Body, "data: [DONE]\n\n") || r.Status != 200 || r.Err != nil || !strings.Contains(r.Body, `"content":"good"`) {
			if failed++; failed == 1 {
				t.Errorf("request %d: %d %v %s", i, r.Status, r.Err, r.Body)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d requests failed", failed, requests)
	}
	if m := proxytest.Scrape(t, g.Admin(t)); m.Sum("sluice_upstream_retries_total") == 0 {
		t.Error("no request crossed a timeout")
	}
}

// TestPoolAfterAbandonedStreams has a hundred clients disconnect during a stream, and checks that a thousand requests
// over the same connection pool each get their own response.
//
// covers: F63
func TestPoolAfterAbandonedStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("abandons many streams")
	}
	for _, w := range wires {
		t.Run(w.plugin, func(t *testing.T) {
			const clients = 8
			abandoned, requests := scale(100, 10), scale(1000, 60)
			// Streams are endless; non-streaming responses repeat the ID in the request.
			answer := func(c *upstreamtest.Conn) error {
				if err := upstreamtest.ReadRequest()(c); err != nil {
					return err
				}
				body := string(c.Last().Body)
				if strings.Contains(body, `"stream":true`) {
					if err := upstreamtest.EventStream()(c); err != nil {
						return err
					}
					for {
						if err := upstreamtest.Chunk(w.opening("Hal"))(c); err != nil {
							return err
						}
					}
				}
				_, id, _ := strings.Cut(body, "id-")
				id, _, _ = strings.Cut(id, `"`)
				return upstreamtest.Answer(200, "application/json", w.answer("id-"+id))(c)
			}
			up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(answer)})
			g := proxytest.Start(t, quietServer+wireProvider(w, up.URL(), "max_conns = 16"))
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					client := &http.Client{Transport: &http.Transport{}, Timeout: proxytest.EventTimeout}
					defer client.CloseIdleConnections()
					for n := range requests / clients {
						if n < abandoned/clients {
							if err := abandon(client, g, canaryRequest(w.plugin, true)); err != nil {
								t.Error(err)
							}
						}
						id := fmt.Sprintf("id-%d-%d", i, n)
						status, body, err := post(client, g, proxytest.Key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s"}]}`, w.plugin, id))
						if err != nil || status != 200 || !strings.Contains(body, `"content":"`+id+`"`) {
							t.Errorf("%s: got %d %s, %v", id, status, body, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// abandon starts a stream and disconnects after some bytes.
func abandon(client *http.Client, g *proxytest.Gateway, body string) error {
	req, err := http.NewRequest("POST", g.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+proxytest.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.CopyN(io.Discard, resp.Body, 2000)
	return err
}
