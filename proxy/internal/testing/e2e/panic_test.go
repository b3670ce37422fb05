package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// trap panics once in a chosen function of the gateway, when it or a function that it calls reads the clock.
type trap struct {
	function atomic.Pointer[string] // where to panic; nil if not armed
	fired    atomic.Bool
}

// panicSecret is the panic's message, which must appear neither in a response nor in the log.
const panicSecret = "message of the panic"

func (p *trap) arm(function string) {
	p.fired.Store(false)
	p.function.Store(&function)
}

// now is the gateway's clock. It panics if the armed function is among its callers.
func (p *trap) now() time.Time {
	if f := p.function.Load(); f != nil && calledBy(*f) && p.function.CompareAndSwap(f, nil) {
		p.fired.Store(true)
		panic(panicSecret)
	}
	return time.Now()
}

// calledBy reports whether the function is on the stack. It does not look past Tick, because other streams tick too,
// and have the same functions on their stacks.
func calledBy(function string) bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, function) {
			return true
		}
		if !more || strings.HasSuffix(f.Function, ").Tick") {
			return false
		}
	}
}

// TestPanicEndsOneRequest panics in each step of a request while another request is in flight: the first gets an error
// if one can still be sent, the other its response; the panic is counted, its message is not shown, and everything is
// released.
func TestPanicEndsOneRequest(t *testing.T) {
	proceed := make(chan struct{})
	bystander := upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	}
	answers := upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hello"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk())}
	provider := upstreamtest.New(t, bystander, answers)
	var traps trap
	g := proxytest.StartWith(t, configuration(provider.URL(), ""), func(o *proxy.Options) { o.Now = traps.now })
	admin := g.Admin(t)
	other := dial(t, g)
	other.post("bystander", askStream)
	other.readUntil(`"Hel"},"finish_reason":null}]}`)

	const internal = `"code":"internal_error"`
	for _, c := range []struct {
		function string
		send     string
		want     string // contained in what the client reads up to the end; "" if it must not get a 2xx
	}{
		{"(*Server).handle", postHead + sized(ask), ""},
		{"(*completion).admitTokens", postHead + sized(ask), internal},
		{"(*completion).tryTargets", postHead + sized(ask), internal},
		{"(*completion).tryTarget", postHead + sized(ask), internal},
		{"(*Attempt).Read", postHead + sized(ask), internal},
		{"(*completion).writeEvents", postHead + sized(askStream), "HTTP/1.1 200"},
		{"(*completion).finish", postHead + sized(askStream), "HTTP/1.1 200"},
		{"(*Conn).delivered", postHead + sized(ask), "HTTP/1.1 200"},
		{"(*Server).expectContinue", strings.Replace(postHead, proxytest.Key, "sk-nobody", 1) + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", ""},
		{"(*Server).headReceived", postHead + "Content-Length: 100000\r\n\r\n", ""},
		{"(*Server).handleReadError", "POST\r\n\r\n", ""},
	} {
		t.Run(c.function, func(t *testing.T) {
			before := proxytest.Scrape(t, admin).Sum("sluice_panics_total")
			traps.arm(c.function)
			client := dial(t, g)
			client.send(c.send)
			if err := client.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(client.r)
			if !traps.fired.Load() {
				t.Fatalf("%s did not panic; response %s", c.function, answer)
			}
			if c.want == "" && strings.Contains(string(answer), "HTTP/1.1 2") || !strings.Contains(string(answer), c.want) {
				t.Errorf("got %q, want %q", answer, c.want)
			}
			if strings.Contains(string(answer), panicSecret) {
				t.Errorf("the response contains the panic's message: %s", answer)
			}
			proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
				return m.Sum("sluice_panics_total") == before+1 && m.Sum("sluice_completions_in_flight") == 1 && m.Sum("sluice_streams_in_flight") == 1 &&
					m.Sum("sluice_client_connections") == 1 && m.Sum("sluice_upstream_connections", "state", "used") == 1
			})
		})
	}
	traps.arm("no such function")
	if r := g.Chat(t, ask); r.Status != 200 {
		t.Errorf("request after the panics: status %d: %s", r.Status, r.Body)
	}
	close(proceed)
	if rest := other.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the other request: %s", rest)
	}
	other.Close()
	awaitReleased(t, admin)
	if strings.Contains(g.Log.String(), panicSecret) {
		t.Errorf("the log contains the panic's message:\n%s", g.Log)
	}
	if line := g.Log.Await(t, "msg", "panic", "type", "string"); !strings.Contains(line["stack"], "goroutine") {
		t.Errorf("the log line of the panic has no stack: %v", line)
	}
}

// TestPanicWhileWaitingForProvider panics while a provider is silent, before its response and during it.
func TestPanicWhileWaitingForProvider(t *testing.T) {
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal")), upstreamtest.AwaitClose()},
	)
	var traps trap
	g := proxytest.StartWith(t, configuration(provider.URL(), ""), func(o *proxy.Options) { o.Now = traps.now })
	admin := g.Admin(t)
	for i, want := range []string{"HTTP/1.1 500 ", `"Hal"},"finish_reason":null}]}`} {
		traps.arm("(*completion).Tick")
		c := dial(t, g)
		c.post(fmt.Sprint("waits-", i), askStream)
		if answer := c.readUntil(`"code":"internal_error"}}`); !strings.Contains(answer, want) {
			t.Errorf("got %s, want %q", answer, want)
		}
		awaitEnd(t, provider)
		if line := g.Log.Request(t, fmt.Sprint("waits-", i)); line["code"] != "internal_error" || line["complete"] != "false" {
			t.Errorf("logged %v, want code internal_error and complete=false", line)
		}
		awaitReleased(t, admin)
		if n := proxytest.Scrape(t, admin).Sum("sluice_panics_total"); n != float64(i+1) {
			t.Errorf("sluice_panics_total is %v, want %d", n, i+1)
		}
	}
}

// TestPanicInLog panics while the request is logged, and then at every line of the log, also those of goroutines without a
// request. It checks that everything is released, and that the gateway serves.
func TestPanicInLog(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.EventStream(),
		upstreamtest.Chunk(text("Hello"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk())})
	log := &panickingLog{}
	g := proxytest.StartWith(t, configuration(provider.URL(), ""), func(o *proxy.Options) { o.Log = slog.New(log) })
	admin := g.Admin(t)
	bodies := []string{ask, askStream, `{"model":"nobody","messages":[]}`}
	for i, body := range bodies {
		log.armed.Store(true)
		c := dial(t, g)
		c.post(fmt.Sprint("logged-", i), body)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c.r)
		proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
			return m.Sum("sluice_panics_total") == float64(i+1) && m.Sum("sluice_completions_in_flight")+m.Sum("sluice_streams_in_flight")+m.Sum("sluice_client_connections") == 0
		})
	}
	log.always.Store(true)
	if err := g.Reload(t, configuration(provider.URL(), "")+"\n# changed"); err != nil {
		t.Error(err)
	}
	for _, body := range bodies {
		if r := g.Chat(t, body); r.Status >= 500 {
			t.Errorf("status %d: %s", r.Status, r.Body)
		}
	}

}

// panickingLog panics once when it is armed and a request is logged, or always.
type panickingLog struct {
	slog.Handler
	armed, always atomic.Bool
}

func (l *panickingLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *panickingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "request" && l.armed.CompareAndSwap(true, false) || l.always.Load() {
		panic(panicSecret)
	}
	return nil
}
