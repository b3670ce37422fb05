package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestBackgroundResponseOfAKilledGateway kills a gateway while a response is generated in the background. The next process
// books what it held, holds nothing, and still knows whose the response is.
func TestBackgroundResponseOfAKilledGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	p, dir := newBackgroundProvider(t), t.TempDir()
	config := "[server]\n" + fmt.Sprintf("[store]\njournal = %q\n", dir) + backgroundConfig(p, patient, "")
	start := func() (*binarytest.Gateway, *backgroundGateway) {
		g := binarytest.Start(t, binarytest.Options{Config: config})
		return g, &backgroundGateway{&proxytest.Gateway{URL: g.URL, Addr: g.Addr}, t, p, "http://" + g.Admin}
	}
	process, g := start()
	id := g.create("")
	held := g.wantHeld()
	process.Signal(t, syscall.SIGKILL)
	<-process.Ended()
	_, g = start()
	g.wantAccounts("after the kill", settledAt(held))
	p.finish(id)
	g.wantStored("GET", "/v1/responses/"+id, p.object(id, "completed"))
	if r := g.ask("two", "GET", "/v1/responses/"+id, ""); r.Status != http.StatusNotFound {
		t.Errorf("another key: status %d: %s", r.Status, r.Body)
	}
	g.wantAccounts("after a read", settledAt(held))
}

// TestSocketOfAKilledGateway kills a gateway while it streams a response over a socket. The socket breaks, and the next
// process books what the response held and holds nothing.
func TestSocketOfAKilledGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	p, dir := newBackgroundProvider(t), t.TempDir()
	p.cut = make(chan struct{})
	t.Cleanup(func() { close(p.cut) })
	config := "[server]\n" + fmt.Sprintf("[store]\njournal = %q\n", dir) + backgroundConfig(p, patient, "")
	start := func() (*binarytest.Gateway, *backgroundGateway) {
		g := binarytest.Start(t, binarytest.Options{Config: config})
		return g, &backgroundGateway{&proxytest.Gateway{URL: g.URL, Addr: g.Addr}, t, p, "http://" + g.Admin}
	}
	process, g := start()
	c, idle := openSocket(t, g.Gateway, "sk-one-0123456789abcdef"), openSocket(t, g.Gateway, "sk-two-0123456789abcdef")
	c.send(`{"type":"response.create","model":"m","input":"x"}`)
	for !strings.Contains(c.read(), `"delta":"hi"`) {
	}
	held := g.wantHeld()
	process.Signal(t, syscall.SIGKILL)
	<-process.Ended()
	for who, c := range map[string]*socketClient{"the client": c, "another client": idle} {
		if _, data, err := c.conn.Read(c.ctx); err == nil || c.ctx.Err() != nil {
			t.Errorf("%s reads %s, %v", who, data, err)
		}
	}
	_, g = start()
	g.wantAccounts("after the kill", settledAt(held))
}

// TestSocketOfTwoGateways continues a stored response over a socket of the second of two gateways, which another key
// cannot.
func TestSocketOfTwoGateways(t *testing.T) {
	redis, p := redistest.Start(t, redistest.Options{}), newStoringProvider(t, "first")
	config := fmt.Sprintf("[store]\nurl = %q\ntimeout = \"10s\"\n", redis.URL()) + storingConfig("", p)
	first, second := proxytest.Start(t, config), proxytest.Start(t, config)
	c := openSocket(t, first, "sk-one-0123456789abcdef")
	c.send(`{"type":"response.create","model":"m","input":"x"}`)
	_, made := c.turn()
	if made.Type != "response.completed" {
		t.Fatalf("%+v", made)
	}
	again := `{"type":"response.create","model":"m","input":"y","previous_response_id":"` + made.Response.ID + `"}`
	other := openSocket(t, second, "sk-two-0123456789abcdef")
	other.send(again)
	if events, last := other.turn(); last.Status != 400 || last.Error.Code != "previous_response_not_found" || len(events) != 1 {
		t.Errorf("another key gets %s", events)
	}
	same := openSocket(t, second, "sk-one-0123456789abcdef")
	same.send(again)
	if events, last := same.turn(); last.Type != "response.completed" {
		t.Errorf("%s", events)
	}
	if _, body, _ := p.requests(); !strings.Contains(body, made.Response.ID) {
		t.Errorf("the provider gets %s", body)
	}
}
