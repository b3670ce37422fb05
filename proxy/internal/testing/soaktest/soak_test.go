package soaktest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/soaktest"
)

var (
	length = flag.Duration("soak", 5*time.Second, "how long the soak lasts")
	rate   = flag.Int("rate", 100, "requests a second")
	seed   = flag.Uint64("seed", 0, "of the run; 0 for a new one")
	race   = flag.Bool("race-gateway", false, "build the gateway with the race detector")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// covers: F10
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("load, faults and reloads for many seconds")
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	run, err := soaktest.NewRun(*seed)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Provider.Close()
	hostile, err := buildtest.Plugin("./proxy/internal/testing/e2e/testdata/guests/hostile")
	if err != nil {
		t.Fatal(err)
	}
	guest, err := soaktest.NewGuest(t.TempDir(), hostile)
	if err != nil {
		t.Fatal(err)
	}
	g := binarytest.Start(t, binarytest.Options{Config: run.Configuration(guest, 0), Line: run.Log, Race: *race})
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	say("soak of %s, %d requests a second, seed %d (-seed=%[3]d has it again)\n%s", *length, *rate, *seed, soaktest.Header)

	before := measure(t, g)
	stop, keep := make(chan struct{}), make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { run.Load(g.Addr, *rate, stop) })
	load.Go(func() { run.Swap(t, g, guest, keep) })
	// The last configuration stays for a while: what is lost with one that is replaced cannot be seen any more.
	last := time.AfterFunc(*length*9/10, func() { close(keep) })
	samples := watch(t, g, run, say)
	close(stop)
	last.Stop()
	load.Wait()
	run.Finish()

	// The load is over: nothing may be left of it.
	calm := expectCalm(t, "gauges", func() []string { return busy(g.Metrics(t)) })
	run.Settle(t, g, guest)
	calm = calm && expectCalm(t, "goroutines, descriptors and connections", func() []string { return left(t, g, run, before) })
	if !binarytest.Await(func() bool { n, _ := run.Unaccounted(); return n == 0 }) {
		n, some := run.Unaccounted()
		t.Errorf("%d requests are not accounted:\n%s", n, strings.Join(some, "\n"))
	}
	m := g.Metrics(t)
	if counted := int(m.Sum("sluice_requests_total")); counted != run.Lines() {
		t.Errorf("the metrics count %d requests, and the log %d", counted, run.Lines())
	}
	for _, none := range []string{"sluice_panics_total", "sluice_log_lines_dropped_total"} {
		if n := m.Sum(none); n != 0 {
			t.Errorf("%s is %v", none, n)
		}
	}
	taken, refused := run.Swaps()
	if n := int64(m.Sum("sluice_config_reloads_total", "result", "success")); n != taken {
		t.Errorf("the metrics count %d configurations that were taken over, and the log %d", n, taken)
	}
	after := measure(t, g)
	say("requests by how they ended:\n%s%d configurations taken over, %d refused; plugins trapped %.0f times; connections found stale %.0f, requests sent again %.0f",
		run.Tally(), taken, refused, m.Sum("sluice_plugin_failures_total", "plugin", "guest"), m.Sum("sluice_upstream_stale_total"), m.Sum("sluice_upstream_retries_total"))
	say("a client that leaves while the provider thinks is noticed there after %s", run.Noticed())
	say("before: %s\nafter:  %s", before, after)
	grows(t, samples, say)

	if n, first := run.Breaks(); n > 0 {
		t.Errorf("%d promises were not kept:\n%s", n, strings.Join(first, "\n"))
	}
	if said := run.Raw(); len(said) > 0 {
		t.Errorf("the gateway says:\n%s", strings.Join(said[:min(len(said), 100)], "\n"))
	}
	if !calm {
		// Whoever looks for what is left wants to know what it does.
		g.Signal(t, syscall.SIGQUIT)
		g.Wait(t, binarytest.EventTimeout)
		t.Errorf("its goroutines:\n%s", strings.Join(run.Raw(), "\n"))
		return
	}
	g.Signal(t, syscall.SIGTERM)
	if exit := g.Wait(t, 2*binarytest.EventTimeout); exit != 0 {
		t.Errorf("SIGTERM ends with %d", exit)
	}
}

// watch looks at the gateway for as long as the soak lasts, and says every ten seconds how it is.
func watch(t *testing.T, g *binarytest.Gateway, run *soaktest.Run, say func(string, ...any)) (samples []soaktest.Sample) {
	began := time.Now()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for at := range second.C {
		u, err := binarytest.ReadUsage(g.PID)
		if err != nil {
			t.Fatalf("%v\n%s", err, g.Tail())
		}
		s := soaktest.Sample{At: at.Sub(began), RSS: u.RSS, Descriptors: u.Descriptors}
		over := s.At >= *length
		if len(samples)%10 == 9 || over {
			s.Goroutines = int(g.Metrics(t).Sum("go_goroutines"))
			say("%s", run.Row(s))
		}
		if samples = append(samples, s); over {
			break
		}
	}
	return samples
}

// state is what a gateway takes while nobody asks it for anything.
type state struct {
	binarytest.Usage
	goroutines int
	heap       float64
}

func (s state) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MB of memory, of which %.1f MB are the heap's", s.goroutines, s.Descriptors, float64(s.RSS)/(1<<20), s.heap/(1<<20))
}

func measure(t *testing.T, g *binarytest.Gateway) state {
	t.Helper()
	u, err := binarytest.ReadUsage(g.PID)
	if err != nil {
		t.Fatalf("%v\n%s", err, g.Tail())
	}
	m := g.Metrics(t)
	return state{u, int(m.Sum("go_goroutines")), m.Sum("go_memstats_heap_inuse_bytes")}
}

// gauges are those that are zero where nothing is under way.
var gauges = [][]string{
	{"sluice_requests_in_flight"}, {"sluice_streams_in_flight"}, {"sluice_client_connections"}, {"sluice_target_in_flight"},
	{"sluice_upstream_connections", "state", "used"}, {"sluice_upstream_waiting"}, {"sluice_plugin_waiting"},
	{"sluice_plugin_instances", "state", "used"}, {"sluice_plugin_whole_calls"},
}

// A few goroutines and descriptors come and go with the scrape that counts them.
const (
	fewGoroutines  = 5
	fewDescriptors = 3
)

// busy is what a gateway does though nobody asks it for anything.
func busy(m binarytest.Metrics) (wrong []string) {
	for _, of := range gauges {
		if v := m.Sum(of[0], of[1:]...); v != 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %v", strings.Join(of, " "), v))
		}
	}
	if v := m.Sum("sluice_config_generations_open"); v != 1 {
		wrong = append(wrong, fmt.Sprintf("%v generations are open", v))
	}
	return wrong
}

// left is what a gateway has more than before the load.
func left(t *testing.T, g *binarytest.Gateway, run *soaktest.Run, before state) (wrong []string) {
	if now := measure(t, g); now.goroutines > before.goroutines+fewGoroutines || now.Descriptors > before.Descriptors+fewDescriptors {
		wrong = append(wrong, fmt.Sprintf("it has %s, and had %s", now, before))
	}
	if n := run.Provider.InFlight(); n > 0 {
		wrong = append(wrong, fmt.Sprintf("the provider still answers %d requests", n))
	}
	return wrong
}

// expectCalm waits until nothing is wrong with a gateway whose load is over.
func expectCalm(t *testing.T, what string, look func() []string) bool {
	t.Helper()
	var wrong []string
	if binarytest.Await(func() bool { wrong = look(); return len(wrong) == 0 }) {
		return true
	}
	t.Errorf("the load is over, and %s are not as before:\n%s", what, strings.Join(wrong, "\n"))
	return false
}

// The memory of the second half of a run may grow by a tenth, or by what one more collection is.
const (
	growthShare = 10
	growthBytes = 16 << 20
)

// grows looks for memory that is lost. A run of less than a minute is still warming up.
func grows(t *testing.T, samples []soaktest.Sample, say func(string, ...any)) {
	growth, mean := soaktest.Growth(samples)
	limit := max(growthBytes, mean/growthShare)
	say("memory in the second half: %.1f MB in the mean, %+.1f MB by least squares; %.1f MB more is taken for a leak", float64(mean)/(1<<20), float64(growth)/(1<<20), float64(limit)/(1<<20))
	if *length >= time.Minute && growth > limit {
		t.Errorf("the memory grows")
	}
}
