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

// rounds is how many events each held stream gets.
const rounds = 10

// spare is how many descriptors a gateway needs besides those of its streams, with those of the load beside them.
const spare = 200

// fitting is how many of n streams the limit on descriptors allows, two for each.
func fitting(t *testing.T, n int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// A Go program raises its own limit as far as it may.
	if most := (int(limit.Max) - spare) / 2; limit.Max < 1<<30 && most < n {
		say("a process may have %d descriptors, and a stream takes two of the gateway's: %d streams in place of %d", limit.Max, most, n)
		return most
	}
	return n
}

// TestHeldStreams holds many streams open: none is lost, each gets every event once and in order, and other requests
// are answered meanwhile.
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
		t.Run(c.name, func(t *testing.T) { holdStreams(t, fitting(t, c.n), c.prompt) })
	}
}

func holdStreams(t *testing.T, n int, prompt string) {
	provider := loadtest.StartProvider(t)
	g := binarytest.Start(t, binarytest.Options{Config: gateway(provider.URL, fmt.Sprintf("max_conns = %d", n+spare))})
	warm(t, g)
	before, idle := usage(t, g.PID), memory(t, g)

	h := open(t, g.Addr, n, ask(prompt, true))
	defer h.close()
	if s := provider.Status(); s.Held != n {
		t.Fatalf("the provider holds %d streams", s.Held)
	}
	say("%d streams held, begun in %s: %s each", n, h.took.Round(time.Millisecond), memory(t, g).less(idle).each(n))

	for round := 1; round <= rounds; round++ {
		began := time.Now()
		provider.SendEvent(round)
		h.await(t, round)
		if round == rounds {
			say("  an event to all of them: %s, on its way for %s", time.Since(began).Round(time.Millisecond), &h.delays)
		}
	}

	quiet := usage(t, g.PID)
	<-time.After(*silent)
	used := usage(t, g.PID).CPU - quiet.CPU
	say("  silent for %s: %.2f %% of a processor, %s each", *silent, 100*used.Seconds()/silent.Seconds(), memory(t, g).less(idle).each(n))

	// Row 5: the others do not wait for them.
	load := run(t, g.Addr, 32, *phase, ask("Hello", false), wholeAnswer)
	first := run(t, g.Addr, 32, *phase, ask(loadtest.Brief, true), briefStream)
	say("  meanwhile %d whole answers, %s, and %d streams, first text %s", load.Count(), load, first.Count(), first)
	provider.SendEvent(rounds + 1)
	h.await(t, rounds+1)

	provider.End()
	if ended := h.finish(); ended != n {
		t.Errorf("%d of %d streams were complete", ended, n)
	}
	expectCalm(t, g, before)
	say("  at the end %.1f MB of memory, %.1f MB before", memory(t, g).resident/(1<<20), idle.resident/(1<<20))
	g.Signal(t, syscall.SIGTERM)
	if exit := g.Wait(t, binarytest.EventTimeout); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// footprint is what a gateway takes of memory, in bytes: all that is resident, and of it the Go heap and the stacks.
type footprint struct{ resident, heap, stacks float64 }

func memory(t *testing.T, g *binarytest.Gateway) footprint {
	t.Helper()
	m := g.Metrics(t)
	return footprint{float64(usage(t, g.PID).RSS), m.Sum("go_memstats_heap_inuse_bytes"), m.Sum("go_memstats_stack_inuse_bytes")}
}

func (f footprint) less(o footprint) footprint {
	return footprint{f.resident - o.resident, f.heap - o.heap, f.stacks - o.stacks}
}

// each divides it by a number of streams.
func (f footprint) each(n int) string {
	return fmt.Sprintf("%.1f KB of memory (heap %.1f, stacks %.1f)", f.resident/float64(n)/1024, f.heap/float64(n)/1024, f.stacks/float64(n)/1024)
}

// warm has the gateway answer something of each kind before it is measured, and lets go of the connections.
func warm(t *testing.T, g *binarytest.Gateway) {
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
		if status, body, err := c.Do(ask(prompt, stream)); err != nil || status != 200 {
			t.Fatalf("%d %s %v\n%s", status, body, err, g.Tail())
		}
		c.Close()
	}
}

// holding is streams that are open.
type holding struct {
	conns  []*loadtest.Conn
	took   time.Duration
	delays loadtest.Latencies // of events, from the provider to the client

	readers sync.WaitGroup
	ended   atomic.Int64

	mu     sync.Mutex
	events map[int]int // how many streams have had each event
	more   chan struct{}
	failed []error
}

// opening is how many streams are begun at once.
const opening = 64

func open(t *testing.T, addr string, n int, r *loadtest.Request) *holding {
	t.Helper()
	h := &holding{events: map[int]int{}, more: make(chan struct{}), conns: make([]*loadtest.Conn, n)}
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

// read counts the events of a stream, which come in order.
func (h *holding) read(s *loadtest.Stream) {
	for want := 1; ; want++ {
		text, err := s.NextText()
		if err == io.EOF {
			h.ended.Add(1)
			return
		}
		if err == nil {
			err = arrived(string(text), want, &h.delays)
		}
		if err != nil {
			h.fail(err)
			return
		}
		h.mu.Lock()
		h.events[want]++
		if h.events[want] == len(h.conns) {
			h.tell()
		}
		h.mu.Unlock()
	}
}

// arrived looks at an event that says its number and when it was sent.
func arrived(text string, want int, l *loadtest.Latencies) error {
	number, sent, _ := strings.Cut(text, "@")
	at, err := strconv.ParseInt(sent, 10, 64)
	if number != strconv.Itoa(want) || err != nil {
		return fmt.Errorf("event %q in place of %d", text, want)
	}
	l.Add(time.Since(time.Unix(0, at)))
	return nil
}

// tell wakes those that wait. h.mu is held.
func (h *holding) tell() {
	close(h.more)
	h.more = make(chan struct{})
}

func (h *holding) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = append(h.failed, err)
	h.tell()
}

func (h *holding) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.failed) > 0 {
		t.Fatalf("%d streams failed, the first with: %v", len(h.failed), h.failed[0])
	}
}

// await waits until every stream has had an event.
func (h *holding) await(t *testing.T, event int) {
	t.Helper()
	limit := time.NewTimer(3 * binarytest.EventTimeout)
	defer limit.Stop()
	for {
		h.check(t)
		h.mu.Lock()
		n, more := h.events[event], h.more
		h.mu.Unlock()
		if n == len(h.conns) {
			return
		}
		select {
		case <-more:
		case <-limit.C:
			t.Fatalf("%d of %d streams have had event %d", n, len(h.conns), event)
		}
	}
}

// finish waits for the ends of all streams, lets the connections go, and returns how many were complete.
func (h *holding) finish() int {
	h.readers.Wait()
	h.close()
	return int(h.ended.Load())
}

func (h *holding) close() {
	for _, c := range h.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	h.readers.Wait()
}
