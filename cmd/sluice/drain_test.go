package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// many is how many streams are open when a gateway ends.
const many = 500

// manyStreams starts a gateway and opens streams, each of which has had a word; the rest of every one comes when proceed
// is closed.
func manyStreams(t *testing.T, server string, proceed <-chan struct{}) (p *process, base, admin string, streams []held) {
	t.Helper()
	const event = "data: {\"id\":\"up\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n"
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"Hel"}`)),
		upstreamtest.Wait(proceed),
		upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"lo"},"finish_reason":"stop"`), "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	p = start(t, t.TempDir(), nil, "serve", "--config", configured(t, demoConfig(server, testKey)+fmt.Sprintf(`
[providers.up]
plugin   = "openai"
base_url = %q
timeout  = { idle = "10m" }
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, provider.URL())))
	base, admin = p.both()
	client := newClient(t)
	streams = make([]held, many)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			var err error
			if streams[i], err = hold(t, client, base, testKey, `"Hel"`); err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return p, base, admin, streams
}

// each reads every stream to its end.
func each(t *testing.T, streams []held, judge func(rest string) bool) {
	t.Helper()
	var all sync.WaitGroup
	for i, s := range streams {
		all.Go(func() {
			if rest, err := s.rest(); err != nil || !judge(rest) {
				t.Errorf("stream %d ends with %v: %q", i, err, rest)
			}
		})
	}
	all.Wait()
}

func finished(rest string) bool {
	return strings.Contains(rest, `"lo"`) && strings.HasSuffix(rest, "data: [DONE]\n\n")
}

func cut(rest string) bool {
	return strings.Contains(rest, `"code":"gateway_shutdown"`) && !strings.Contains(rest, "[DONE]") && !strings.Contains(rest, `"finish_reason":"`)
}

// TestF77_TheDelayOfADrain looks at a gateway that is about to end and does not, for its delay is long.
func TestF77_TheDelayOfADrain(t *testing.T) {
	p, base, admin, streams := manyStreams(t, "drain_delay = \"1h\"\nshutdown_timeout = \"1h\"", nil)
	// A connection that waits for its next request, as a balancer holds them.
	kept := newClient(t)
	if status, body, err := whole(t, kept, base, testKey, hello); status != 200 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	if status, said := get(t, admin+"/readyz"); status != 200 {
		t.Errorf("before: %d %s", status, said)
	}
	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	if status, said := get(t, admin+"/readyz"); status != 503 || !strings.Contains(said, "shutting down") {
		t.Errorf("readiness: %d %s", status, said)
	}
	if status, said := get(t, admin+"/healthz"); status != 200 {
		t.Errorf("health: %d %s", status, said)
	}
	for name, client := range map[string]*http.Client{"kept": kept, "new": newClient(t)} {
		resp, err := ask(t, client, base, testKey, hello)
		if err != nil {
			t.Fatal(err)
		}
		if body := readAll(t, resp); resp.StatusCode != 200 || !resp.Close || !strings.Contains(body, `"content"`) {
			t.Errorf("a %s connection gets %d, close %t: %s", name, resp.StatusCode, resp.Close, body)
		}
		resp.Body.Close()
	}
	stream, err := hold(t, kept, base, testKey, `"Hel"`)
	if err != nil || !stream.resp.Close {
		t.Errorf("a new stream: close %t, %v", stream.resp != nil && stream.resp.Close, err)
	}
	// F78: another signal ends the delay, and the streams with it.
	p.signal(syscall.SIGTERM)
	each(t, append(streams, stream), cut)
	if exit := p.wait(); exit != 1 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

func TestF77_ManyStreamsFinish(t *testing.T) {
	proceed := make(chan struct{})
	p, base, admin, streams := manyStreams(t, "drain_delay = \"10ms\"\nshutdown_timeout = \"1h\"", proceed)
	p.signal(syscall.SIGTERM)
	address := strings.TrimPrefix(base, "http://")
	eventually(t, "no new connection is accepted", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if status, said := get(t, admin+"/readyz"); status != 503 {
		t.Errorf("readiness behind the last connection: %d %s", status, said)
	}
	close(proceed)
	each(t, streams, finished)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

func TestF77_ManyStreamsPastTheDeadline(t *testing.T) {
	p, _, _, streams := manyStreams(t, "drain_delay = \"10ms\"\nshutdown_timeout = \"100ms\"", nil)
	p.signal(syscall.SIGTERM)
	each(t, streams, cut)
	exit := p.wait()
	if said := strings.Join(p.seen, "\n"); exit != 0 || !strings.Contains(said, "took longer than the shutdown_timeout of 100ms") {
		t.Errorf("exit %d:\n%s", exit, said)
	}
}

// TestF77_IdleConnectionsAreClosed: nobody waits for a client that has nothing to say, nor for one that never had.
func TestF77_IdleConnectionsAreClosed(t *testing.T) {
	p := start(t, t.TempDir(), nil, "serve", "--config", configured(t, demoConfig(`shutdown_timeout = "1h"`, testKey)))
	base := p.ready()
	client := newClient(t)
	if status, body, err := whole(t, client, base, testKey, hello); status != 200 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	silent, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
	if n, err := silent.Read(make([]byte, 100)); n != 0 {
		t.Errorf("a connection on which nothing was asked got %d bytes, %v", n, err)
	}
}

// TestF78_ASecondSignalWithNothingToLose is no failure: nothing was cut off.
func TestF78_ASecondSignalWithNothingToLose(t *testing.T) {
	p := start(t, t.TempDir(), nil, "serve", "--config", configured(t, demoConfig(`drain_delay = "1h"`, testKey)))
	p.ready()
	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	p.signal(syscall.SIGINT)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

// TestF88_TheAddressOfHealthIsInUse is an error where the configuration names it.
func TestF88_TheAddressOfHealthIsInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	text := strings.Replace(demoConfig("", testKey), "[admin]\nlisten = \"127.0.0.1:0\"", fmt.Sprintf("[admin]\nlisten = %q", ln.Addr()), 1)
	got := run(t, binary(t, true), t.TempDir(), nil, []string{"serve", "--config", configured(t, text)})
	if got.exit != 1 || !strings.HasPrefix(got.stderr, "sluice: [admin]: ") || !strings.Contains(got.stderr, "in use") {
		t.Errorf("%+v", got)
	}
}
