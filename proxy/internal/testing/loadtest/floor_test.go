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

// connections is the number of connections that a test keeps busy.
const connections = 64

// prompt is a prompt of one kilobyte.
var prompt = strings.Repeat("Say it again. ", 1024/14)

// serve starts a gateway in front of a provider in this process.
func serve(t *testing.T, respond func(*loadtest.Exchange) error, o binarytest.Options) (*loadtest.Provider, *binarytest.Gateway) {
	t.Helper()
	provider, err := loadtest.Listen(respond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	o.Config = gatewayConfig(provider.URL(), o.Config)
	return provider, binarytest.Start(t, o)
}

// created matches the time of a response, in which otherwise equal responses differ.
var created = regexp.MustCompile(`"created":\d+`)

// sameResponse returns a doFunc that checks that all responses are equal, except for their times.
func sameResponse() doFunc {
	var expected atomic.Pointer[[]byte]
	return func(c *loadtest.Conn, r *loadtest.Request, first func()) error {
		status, body, err := c.Do(r)
		if err != nil || status != 200 {
			return fmt.Errorf("status %d: %s: %w", status, body, err)
		}
		first()
		body = created.ReplaceAll(body, nil)
		if expected.CompareAndSwap(nil, &body) {
			return nil
		}
		if want := *expected.Load(); !bytes.Equal(body, want) {
			return fmt.Errorf("got response %s, the first one was %s", body, want)
		}
		return nil
	}
}

// TestSequentialRequests keeps connections busy with and without the gateway. No request may fail, and all responses
// must be equal.
//
// covers: F1
func TestSequentialRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	provider, g := serve(t, loadtest.NewHolder().Respond, binarytest.Options{})
	warmUp(t, g)
	before := usage(t, g.PID)
	// The direct responses are only for comparing the time.
	direct := runLoad(t, strings.TrimPrefix(provider.URL(), "http://"), connections, *phase, chatRequest(prompt, false), readResponse)
	through := runLoad(t, g.Addr, connections, *phase, chatRequest(prompt, false), sameResponse())
	used := usage(t, g.PID).CPU - before.CPU
	printf("non-streaming requests on %d connections: %d through the gateway, %s; %d without it, %s; %s CPU time of the gateway per request",
		connections, through.Count(), through, direct.Count(), direct, (used / time.Duration(through.Count())).Round(100*time.Nanosecond))
	expectReleased(t, g, before)
}

// TestShortConnections opens a new connection per request. No request may fail, upstream connections must be reused,
// and all client connections must be released.
//
// covers: F2
func TestShortConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	provider, g := serve(t, loadtest.NewHolder().Respond, binarytest.Options{})
	warmUp(t, g)
	before, dialled := usage(t, g.PID), provider.Accepted()
	r := chatRequest(prompt, false)
	r.Close = true
	l := runLoad(t, g.Addr, connections, 2**phase, r, sameResponse())
	made := provider.Accepted() - dialled
	printf("connections with one request each: %d, %s; %d to the provider", l.Count(), l, made)
	// One per concurrent request, with a margin for connections that are found closed or discarded.
	if made > 4*connections {
		t.Errorf("the gateway opened %d connections to the provider for %d requests, %d of them concurrent", made, l.Count(), connections)
	}
	expectReleased(t, g, before)
	if !binarytest.Await(func() bool { return g.Metrics(t).Sum("sluice_client_connections") == 0 }) {
		t.Error("client connections are still open")
	}
}

const (
	fastStreams = 200
	fastEvents  = 100 // events per second of each stream
)

// respondPaced returns a response function that writes events at a constant rate, with their numbers and times.
func respondPaced(events int) func(e *loadtest.Exchange) error {
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

// TestFastStreams reads many streams with many events. Each event must arrive once and in order.
//
// covers: F4
func TestFastStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	events := int(phase.Seconds() * 2 * fastEvents)
	provider, g := serve(t, respondPaced(events), binarytest.Options{})
	before := usage(t, g.PID)
	delays := map[bool]*loadtest.Latencies{}
	for through, addr := range map[bool]string{false: strings.TrimPrefix(provider.URL(), "http://"), true: g.Addr} {
		l := &loadtest.Latencies{}
		delays[through] = l
		errs := make(chan error, fastStreams)
		for range fastStreams {
			go func() { errs <- readPacedStream(addr, events, l) }()
		}
		for range fastStreams {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
	used := usage(t, g.PID).CPU - before.CPU
	printf("%d streams of %d events/s: latency %s through the gateway, %s without it; %s CPU time of the gateway per event",
		fastStreams, fastEvents, delays[true], delays[false], (used / (fastStreams * time.Duration(events))).Round(100*time.Nanosecond))
}

// readPacedStream requests and checks a stream of respondPaced.
func readPacedStream(addr string, events int, l *loadtest.Latencies) error {
	c, err := loadtest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Open(chatRequest(prompt, true))
	if err != nil {
		return err
	}
	for n := range events {
		text, err := s.NextText()
		if err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
		if err := checkEvent(string(text), n, l); err != nil {
			return err
		}
	}
	if text, err := s.NextText(); err != io.EOF {
		return fmt.Errorf("after the last event: %q, %w", text, err)
	}
	return nil
}

// TestOneProcessor gives the gateway one CPU, silent streams, and twice as many concurrent requests as it can handle.
// Responses may take longer, but none may fail, and the streams must get heartbeats.
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
			_, err := io.WriteString(e, loadtest.Response("Hello there."))
			return err
		}
		if _, err := io.WriteString(e, loadtest.StreamHead+loadtest.Event("0")); err != nil {
			return err
		}
		<-never
		return io.EOF
	}, binarytest.Options{Config: "heartbeat = \"200ms\"", Start: startOnOneCPU})
	defer close(never)
	_ = provider
	one := runLoad(t, g.Addr, connections, *phase, chatRequest(prompt, false), readResponse)

	alive := make(chan error, silentStreams)
	for range silentStreams {
		go func() { alive <- readHeartbeats(g.Addr, beats) }()
	}
	stop := make(chan struct{})
	loaded := make(chan error, 2*connections)
	two := &loadtest.Latencies{}
	for range 2 * connections {
		go func() { loaded <- keepBusy(g.Addr, chatRequest(prompt, false), stop, readResponse, two) }()
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
	printf("on one CPU: %d connections %s, %d connections %s; %d silent streams got %d heartbeats each at the same time", connections, one, 2*connections, two, silentStreams, beats)
}

// readHeartbeats requests a silent stream and reads a number of heartbeats.
func readHeartbeats(addr string, beats int) error {
	c, err := loadtest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Open(chatRequest(prompt, true))
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
