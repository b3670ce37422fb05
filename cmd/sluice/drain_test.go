package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// streamCount returns the number of streams that are open when a gateway shuts down.
func streamCount() int {
	if testing.Short() {
		return 50
	}
	return 500
}

// manyStreams starts a gateway and opens streams that have received one event each. The provider sends the rest when
// proceed is closed.
func manyStreams(t *testing.T, server string, proceed <-chan struct{}) (p *process, base, admin string, streams []heldStream) {
	t.Helper()
	const event = "data: {\"id\":\"up\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n"
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"Hel"}`)),
		upstreamtest.Wait(proceed),
		upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"lo"},"finish_reason":"stop"`), "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	p = start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, demoConfig(server, testKey)+fmt.Sprintf(`
[providers.up]
plugin   = "openai"
base_url = %q
timeout  = { idle = "10m" }
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, provider.URL())))
	base, admin = p.addresses()
	client := newClient(t)
	streams = make([]heldStream, streamCount())
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			var err error
			if streams[i], err = openStream(t, client, base, testKey, `"Hel"`); err != nil {
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

// readAllStreams reads every stream to its end, and fails the test unless ok accepts the rest of each.
func readAllStreams(t *testing.T, streams []heldStream, ok func(rest string) bool) {
	t.Helper()
	var all sync.WaitGroup
	for i, s := range streams {
		all.Go(func() {
			if rest, err := s.rest(); err != nil || !ok(rest) {
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

// TestDrainDelay observes a gateway during a long drain delay.
//
// covers: F77
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	p, base, admin, streams := manyStreams(t, "drain_delay = \"1h\"\nshutdown_timeout = \"1h\"", nil)
	// An idle connection, as load balancers have.
	idle := newClient(t)
	if status, body, err := complete(t, idle, base, testKey, hello); status != 200 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	if status, body := get(t, admin+"/readyz"); status != 200 {
		t.Errorf("readiness before the signal: %d %s", status, body)
	}
	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	if status, body := get(t, admin+"/readyz"); status != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("readiness: %d %s", status, body)
	}
	if status, body := get(t, admin+"/healthz"); status != 200 {
		t.Errorf("health: %d %s", status, body)
	}
	for name, client := range map[string]*http.Client{"idle": idle, "new": newClient(t)} {
		resp, err := post(t, client, base, testKey, hello)
		if err != nil {
			t.Fatal(err)
		}
		if body := readAll(t, resp); resp.StatusCode != 200 || !resp.Close || !strings.Contains(body, `"content"`) {
			t.Errorf("%s connection: %d, close %t: %s", name, resp.StatusCode, resp.Close, body)
		}
		resp.Body.Close()
	}
	stream, err := openStream(t, idle, base, testKey, `"Hel"`)
	if err != nil || !stream.resp.Close {
		t.Errorf("new stream: close %t, %v", stream.resp != nil && stream.resp.Close, err)
	}
	// F78: another signal ends the delay and the streams.
	p.signal(syscall.SIGTERM)
	readAllStreams(t, append(streams, stream), cut)
	if exit := p.wait(); exit != 1 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

// covers: F77
func TestDrainFinishesManyStreams(t *testing.T) {
	t.Parallel()
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
	if status, body := get(t, admin+"/readyz"); status != 503 {
		t.Errorf("readiness after the listener was closed: %d %s", status, body)
	}
	close(proceed)
	readAllStreams(t, streams, finished)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

// covers: F77
func TestDrainDeadlineWithManyStreams(t *testing.T) {
	t.Parallel()
	p, _, _, streams := manyStreams(t, "drain_delay = \"10ms\"\nshutdown_timeout = \"100ms\"", nil)
	p.signal(syscall.SIGTERM)
	readAllStreams(t, streams, cut)
	exit := p.wait()
	if output := strings.Join(p.seen, "\n"); exit != 0 || !strings.Contains(output, "exceeded the shutdown_timeout of 100ms") {
		t.Errorf("exit %d:\n%s", exit, output)
	}
}

// TestDrainClosesIdleConnections checks that neither connections that have served a request nor unused ones delay the
// end of the process, which takes less than 200 ms on an idle machine.
//
// covers: F77
func TestDrainClosesIdleConnections(t *testing.T) {
	pair := certtest.Valid(t)
	for name, server := range map[string]string{"HTTP": "", "HTTPS": pair.Table(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			took := time.Hour
			for range 5 {
				if took = min(took, drainIdle(t, server, pair)); took < 200*time.Millisecond {
					return
				}
			}
			t.Errorf("the process ended after %v at best", took)
		})
	}
}

// drainIdle starts a gateway with idle connections, and returns how long it takes to end.
func drainIdle(t *testing.T, server string, pair *certtest.Pair) time.Duration {
	p := start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, demoConfig(`shutdown_timeout = "1h"`+"\n"+server, testKey)))
	address := strings.TrimPrefix(p.ready(), "http://")
	base := "http://" + address
	client := newClient(t)
	if server != "" {
		base = "https://" + address
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pair.Roots}
	}
	if status, body, err := complete(t, client, base, testKey, hello); status != 200 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	unused, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
	took := time.Since(began)
	if n, err := unused.Read(make([]byte, 100)); n != 0 {
		t.Errorf("the unused connection received %d bytes, %v", n, err)
	}
	return took
}

// TestSecondSignalWithoutRequests expects exit code 0, because no request was cut off.
//
// covers: F78
func TestSecondSignalWithoutRequests(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, demoConfig(`drain_delay = "1h"`, testKey)))
	p.ready()
	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	p.signal(syscall.SIGINT)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

// TestConfiguredAdminAddressInUse expects an error, because the address is configured and not a default.
//
// covers: F88
func TestConfiguredAdminAddressInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	text := strings.Replace(demoConfig("", testKey), "[admin]\nlisten = \"127.0.0.1:0\"", fmt.Sprintf("[admin]\nlisten = %q", ln.Addr()), 1)
	got := run(t, buildSluice(t, true), t.TempDir(), nil, []string{"serve", "--config", writeConfig(t, text)})
	if got.exit != 1 || !strings.HasPrefix(got.stderr, "sluice: [admin]: ") || !strings.Contains(got.stderr, "in use") {
		t.Errorf("%+v", got)
	}
}
