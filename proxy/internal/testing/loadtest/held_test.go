package loadtest_test

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// rounds is the number of events that are sent to each held stream.
const rounds = 10

// spare is the number of descriptors and connections for everything except for the held streams.
const spare = 200

// limitStreams reduces n to the number of streams that the limit of descriptors allows, with two per stream.
func limitStreams(t *testing.T, n int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// A Go program raises its limit to the maximum.
	if allowed := (int(limit.Max) - spare) / 2; limit.Max < 1<<30 && allowed < n {
		printf("the limit of %d descriptors allows %d streams instead of %d, because a stream needs two of the gateway's", limit.Max, allowed, n)
		return allowed
	}
	return n
}

// TestHeldStreams holds many streams open. Each must get every event once and in order, and other requests must be
// served at the same time.
//
// covers: F3 F5
func TestHeldStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	for _, c := range []struct {
		name   string
		n      int
		prompt string
	}{
		{"small prompts", *held, "Hello"},
		{"prompts of 100 KB", *large, strings.Repeat("All work and no play. ", 100<<10/22)},
	} {
		t.Run(c.name, func(t *testing.T) { holdStreams(t, limitStreams(t, c.n), c.prompt) })
	}
}

func holdStreams(t *testing.T, n int, prompt string) {
	provider := loadtest.StartProvider(t)
	g := binarytest.Start(t, binarytest.Options{Config: gatewayConfig(provider.URL, fmt.Sprintf("max_conns = %d", n+spare))})
	warmUp(t, g)
	before, idle := usage(t, g.PID), memory(t, g)

	h := open(t, g.Addr, n, chatRequest(prompt, true))
	defer h.close()
	if s := provider.Status(); s.Held != n {
		t.Fatalf("the provider holds %d streams, want %d", s.Held, n)
	}
	printf("%d open streams, opened in %s: %s per stream", n, h.took.Round(time.Millisecond), memory(t, g).minus(idle).perStream(n))

	for round := 1; round <= rounds; round++ {
		began := time.Now()
		provider.SendEvent(round)
		h.await(t, round)
		if round == rounds {
			printf("  an event for all of them: %s, latency of events %s", time.Since(began).Round(time.Millisecond), &h.delays)
		}
	}

	quiet := usage(t, g.PID)
	<-time.After(*silent)
	used := usage(t, g.PID).CPU - quiet.CPU
	printf("  silent for %s: %.2f %% of a CPU, %s per stream", *silent, 100*used.Seconds()/silent.Seconds(), memory(t, g).minus(idle).perStream(n))

	// Other requests are served at the same time.
	load := runLoad(t, g.Addr, 32, *phase, chatRequest("Hello", false), readResponse)
	first := runLoad(t, g.Addr, 32, *phase, chatRequest(loadtest.Brief, true), readBriefStream)
	printf("  other requests: %d non-streaming, %s, and %d streams, first text %s", load.Count(), load, first.Count(), first)
	provider.SendEvent(rounds + 1)
	h.await(t, rounds+1)

	provider.End()
	if ended := h.finish(); ended != n {
		t.Errorf("only %d of %d streams were complete", ended, n)
	}
	expectReleased(t, g, before)
	printf("  at the end %.1f MB of memory, %.1f MB before", memory(t, g).resident/(1<<20), idle.resident/(1<<20))
	g.Signal(t, syscall.SIGTERM)
	if exit := g.Wait(t, binarytest.EventTimeout); exit != 0 {
		t.Errorf("exit code %d, want 0", exit)
	}
}

// footprint is the memory of a gateway in bytes: resident, and in the Go heap and stacks.
type footprint struct{ resident, heap, stacks float64 }

func memory(t *testing.T, g *binarytest.Gateway) footprint {
	t.Helper()
	m := g.Metrics(t)
	return footprint{float64(usage(t, g.PID).RSS), m.Sum("go_memstats_heap_inuse_bytes"), m.Sum("go_memstats_stack_inuse_bytes")}
}

func (f footprint) minus(o footprint) footprint {
	return footprint{f.resident - o.resident, f.heap - o.heap, f.stacks - o.stacks}
}

// perStream formats the memory divided by a number of streams.
func (f footprint) perStream(n int) string {
	return fmt.Sprintf("%.1f KB of memory (heap %.1f, stacks %.1f)", f.resident/float64(n)/1024, f.heap/float64(n)/1024, f.stacks/float64(n)/1024)
}

// warmUp sends a non-streaming and a streaming request before the gateway is measured.
func warmUp(t *testing.T, g *binarytest.Gateway) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		prompt := "Hello"
		if stream {
			prompt = loadtest.Brief
		}
		c, err := loadtest.Dial(g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if status, body, err := c.Do(chatRequest(prompt, stream)); err != nil || status != 200 {
			t.Fatalf("warm-up: got %d %s %v\n%s", status, body, err, g.Tail())
		}
		c.Close()
	}
}

// openStreams is a set of open streams.
type openStreams struct {
	conns  []*loadtest.Conn
	took   time.Duration      // time to open all of them
	delays loadtest.Latencies // time of events from the provider to the client

	readers sync.WaitGroup
	ended   atomic.Int64 // complete streams

	mu      sync.Mutex
	events  map[int]int   // number of streams that received each event
	changed chan struct{} // closed and replaced by notify
	failed  []error
}

// opening is the number of streams that are opened concurrently.
const opening = 64

func open(t *testing.T, addr string, n int, r *loadtest.Request) *openStreams {
	t.Helper()
	h := &openStreams{events: map[int]int{}, changed: make(chan struct{}), conns: make([]*loadtest.Conn, n)}
	began := time.Now()
	var next atomic.Int64
	var openers sync.WaitGroup
	for range opening {
		openers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				c, err := loadtest.Dial(addr)
				if err != nil {
					h.fail(err)
					return
				}
				h.conns[i] = c
				s, err := c.Open(r)
				if err == nil {
					_, err = s.NextText()
				}
				if err != nil {
					h.fail(fmt.Errorf("stream %d: %w", i, err))
					return
				}
				h.readers.Go(func() { h.read(s) })
			}
		})
	}
	openers.Wait()
	h.took = time.Since(began)
	h.check(t)
	return h
}

// read reads a stream to its end, and checks and counts its events.
func (h *openStreams) read(s *loadtest.Stream) {
	for want := 1; ; want++ {
		text, err := s.NextText()
		if err == io.EOF {
			h.ended.Add(1)
			return
		}
		if err == nil {
			err = checkEvent(string(text), want, &h.delays)
		}
		if err != nil {
			h.fail(err)
			return
		}
		h.mu.Lock()
		h.events[want]++
		if h.events[want] == len(h.conns) {
			h.notify()
		}
		h.mu.Unlock()
	}
}

// checkEvent checks the number in an event's text, and adds the time since it was sent to l.
func checkEvent(text string, want int, l *loadtest.Latencies) error {
	number, sent, _ := strings.Cut(text, "@")
	at, err := strconv.ParseInt(sent, 10, 64)
	if number != strconv.Itoa(want) || err != nil {
		return fmt.Errorf("got event %q, want number %d", text, want)
	}
	l.Add(time.Since(time.Unix(0, at)))
	return nil
}

// notify wakes await. The caller holds h.mu.
func (h *openStreams) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *openStreams) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = append(h.failed, err)
	h.notify()
}

func (h *openStreams) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.failed) > 0 {
		t.Fatalf("%d streams failed, the first with: %v", len(h.failed), h.failed[0])
	}
}

// await waits until every stream has received an event.
func (h *openStreams) await(t *testing.T, event int) {
	t.Helper()
	limit := time.NewTimer(3 * binarytest.EventTimeout)
	defer limit.Stop()
	for {
		h.check(t)
		h.mu.Lock()
		n, changed := h.events[event], h.changed
		h.mu.Unlock()
		if n == len(h.conns) {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("only %d of %d streams received event %d", n, len(h.conns), event)
		}
	}
}

// finish waits for the ends of all streams, closes the connections, and returns the number of complete streams.
func (h *openStreams) finish() int {
	h.readers.Wait()
	h.close()
	return int(h.ended.Load())
}

func (h *openStreams) close() {
	for _, c := range h.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	h.readers.Wait()
}
