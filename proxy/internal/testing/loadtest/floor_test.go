package loadtest_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// connections is how many a test keeps busy.
const connections = 64

// prompt is a kilobyte.
var prompt = strings.Repeat("Say it again. ", 1024/14)

// serve starts a gateway in front of a provider in this process.
func serve(t *testing.T, answer func(*loadtest.Exchange) error, o binarytest.Options) (*loadtest.Provider, *binarytest.Gateway) {
	t.Helper()
	provider, err := loadtest.Listen(answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	o.Config = gateway(provider.URL(), o.Config)
	return provider, binarytest.Start(t, o)
}

// created is when the gateway began an answer: what differs in answers that are the same.
var created = regexp.MustCompile(`"created":\d+`)

// sameWhole reads whole answers, which must be the first one byte for byte but for the time.
func sameWhole() answered {
	var all atomic.Pointer[[]byte]
	return func(c *loadtest.Conn, r *loadtest.Request, first func()) error {
		status, body, err := c.Do(r)
		if err != nil || status != 200 {
			return fmt.Errorf("status %d: %s: %w", status, body, err)
		}
		first()
		body = created.ReplaceAll(body, nil)
		if all.CompareAndSwap(nil, &body) {
			return nil
		}
		if want := *all.Load(); !bytes.Equal(body, want) {
			return fmt.Errorf("an answer is %s, and the first one was %s", body, want)
		}
		return nil
	}
}

// TestSequentialRequests keeps connections busy with and without the gateway: none fails, and all responses are the
// same.
//
// covers: F1
func TestSequentialRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	provider, g := serve(t, loadtest.NewHolder().Respond, binarytest.Options{})
	warm(t, g)
	before := usage(t, g.PID)
	// Of the provider's own answers none is looked at: it is the time that counts.
	direct := run(t, strings.TrimPrefix(provider.URL(), "http://"), connections, *phase, ask(prompt, false), wholeAnswer)
	through := run(t, g.Addr, connections, *phase, ask(prompt, false), sameWhole())
	used := usage(t, g.PID).CPU - before.CPU
	say("whole answers of %d connections: %d through the gateway, %s; %d without it, %s; %s of the gateway's processor time each",
		connections, through.Count(), through, direct.Count(), direct, (used / time.Duration(through.Count())).Round(100*time.Nanosecond))
	expectCalm(t, g, before)
}

// TestShortConnections opens a new connection per request: none fails, upstream connections are reused, and nothing is
// left of the others.
//
// covers: F2
func TestShortConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	provider, g := serve(t, loadtest.NewHolder().Respond, binarytest.Options{})
	warm(t, g)
	before, dialled := usage(t, g.PID), provider.Accepted()
	r := ask(prompt, false)
	r.Close = true
	l := run(t, g.Addr, connections, 2**phase, r, sameWhole())
	made := provider.Accepted() - dialled
	say("connections that come and go: %d, %s; %d to the provider", l.Count(), l, made)
	// As many as there are requests at once, and each may be found closed or given up once.
	if made > 4*connections {
		t.Errorf("the gateway made %d connections to the provider for %d requests, %d at a time", made, l.Count(), connections)
	}
	expectCalm(t, g, before)
	if !binarytest.Await(func() bool { return g.Metrics(t).Sum("sluice_client_connections") == 0 }) {
		t.Error("connections of clients are left")
	}
}

const (
	fastStreams = 200
	fastEvents  = 100 // a second, of each
)

// pacer answers with a stream of events at a constant rate. Each says its number and when it was sent.
func pacer(events int) func(e *loadtest.Exchange) error {
	return func(e *loadtest.Exchange) error {
		if _, err := io.WriteString(e, loadtest.StreamHead); err != nil {
			return err
		}
		tick := time.NewTicker(time.Second / fastEvents)
		defer tick.Stop()
		for n := range events {
			<-tick.C
			if _, err := io.WriteString(e, loadtest.Event(fmt.Sprintf("%d@%d", n, time.Now().UnixNano()))); err != nil {
				return err
			}
		}
		_, err := io.WriteString(e, loadtest.StreamEnd)
		return err
	}
}

// TestFastStreams reads many streams with many events: each arrives once, in order and unchanged.
//
// covers: F4
func TestFastStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	events := int(phase.Seconds() * 2 * fastEvents)
	provider, g := serve(t, pacer(events), binarytest.Options{})
	before := usage(t, g.PID)
	delays := map[bool]*loadtest.Latencies{}
	for through, addr := range map[bool]string{false: strings.TrimPrefix(provider.URL(), "http://"), true: g.Addr} {
		l := &loadtest.Latencies{}
		delays[through] = l
		errs := make(chan error, fastStreams)
		for range fastStreams {
			go func() { errs <- follow(addr, events, l) }()
		}
		for range fastStreams {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
	used := usage(t, g.PID).CPU - before.CPU
	say("%d streams of %d events a second: on their way for %s through the gateway, %s without it; %s of the gateway's processor time an event",
		fastStreams, fastEvents, delays[true], delays[false], (used / (fastStreams * time.Duration(events))).Round(100*time.Nanosecond))
}

// follow reads one stream of a pacer.
func follow(addr string, events int, l *loadtest.Latencies) error {
	c, err := loadtest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Open(ask(prompt, true))
	if err != nil {
		return err
	}
	for n := range events {
		text, err := s.NextText()
		if err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
		if err := arrived(string(text), n, l); err != nil {
			return err
		}
	}
	if text, err := s.NextText(); err != io.EOF {
		return fmt.Errorf("behind the last event: %q, %w", text, err)
	}
	return nil
}

// TestOneProcessor gives the gateway one processor and twice as many concurrent requests as it can handle, besides idle
// streams: responses take longer, none fails, and the streams are kept alive.
//
// covers: F9
func TestOneProcessor(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	const silentStreams, beats = 50, 3
	never := make(chan struct{})
	provider, g := serve(t, func(e *loadtest.Exchange) error {
		if !strings.Contains(string(e.Body), `"stream":true`) {
			_, err := io.WriteString(e, loadtest.Response("A whole answer."))
			return err
		}
		if _, err := io.WriteString(e, loadtest.StreamHead+loadtest.Event("0")); err != nil {
			return err
		}
		<-never
		return io.EOF
	}, binarytest.Options{Config: "heartbeat = \"200ms\"", Start: onOneProcessor})
	defer close(never)
	_ = provider
	one := run(t, g.Addr, connections, *phase, ask(prompt, false), wholeAnswer)

	alive := make(chan error, silentStreams)
	for range silentStreams {
		go func() { alive <- keptAlive(g.Addr, beats) }()
	}
	stop := make(chan struct{})
	loaded := make(chan error, 2*connections)
	two := &loadtest.Latencies{}
	for range 2 * connections {
		go func() { loaded <- busy(g.Addr, ask(prompt, false), stop, wholeAnswer, two) }()
	}
	for range silentStreams {
		select {
		case err := <-alive:
			if err != nil {
				t.Error(err)
			}
		case err := <-loaded:
			t.Errorf("under twice the load: %v", err)
			loaded <- nil
		}
	}
	close(stop)
	for range 2 * connections {
		if err := <-loaded; err != nil {
			t.Errorf("under twice the load: %v", err)
		}
	}
	say("on one processor: %d connections %s, %d connections %s; %d silent streams had %d heartbeats each meanwhile", connections, one, 2*connections, two, silentStreams, beats)
}

// keptAlive reads a stream in which nothing happens until it has had some heartbeats.
func keptAlive(addr string, beats int) error {
	c, err := loadtest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Open(ask(prompt, true))
	if err != nil {
		return err
	}
	if _, err := s.NextText(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(binarytest.EventTimeout)); err != nil {
		return err
	}
	return s.AwaitHeartbeats(beats)
}
