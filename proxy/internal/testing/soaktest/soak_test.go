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
	rate   = flag.Int("rate", 100, "requests per second")
	seed   = flag.Uint64("seed", 0, "seed of the run; 0 for a random one")
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

// TestSoak runs the gateway under load with faults and reloads, and checks all results and the release of all
// resources.
//
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
	defer run.Close()
	hostile, err := buildtest.Plugin("./proxy/internal/testing/e2e/testdata/guests/hostile")
	if err != nil {
		t.Fatal(err)
	}
	guest, err := soaktest.NewGuest(t.TempDir(), hostile)
	if err != nil {
		t.Fatal(err)
	}
	g := binarytest.Start(t, binarytest.Options{Config: run.Configuration(guest, 0), Line: run.Log, Race: *race})
	printf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	printf("soak of %s, %d requests/s, seed %d (repeat with -seed=%[3]d)\n%s", *length, *rate, *seed, soaktest.Header)

	before := measure(t, g)
	stopLoad, stopReloads := make(chan struct{}), make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { run.Load(g.Addr, *rate, stopLoad) })
	load.Go(func() { run.ReloadRepeatedly(t, g, guest, stopReloads) })
	// Stop reloading early, because closing a configuration would hide its leaks.
	last := time.AfterFunc(*length*9/10, func() { close(stopReloads) })
	samples := sampleUsage(t, g, run, printf)
	close(stopLoad)
	last.Stop()
	load.Wait()
	run.Finish()

	// After the load, all resources must be released.
	idle := expectIdle(t, "gauges", func() []string { return nonzeroGauges(g.Metrics(t)) })
	run.Settle(t, g, guest)
	idle = idle && expectIdle(t, "goroutines, descriptors and connections", func() []string { return leaks(t, g, run, before) })
	if !binarytest.Await(func() bool { n, _ := run.Unaccounted(); return n == 0 }) {
		n, some := run.Unaccounted()
		t.Errorf("%d requests are not done or not in the access log:\n%s", n, strings.Join(some, "\n"))
	}
	m := g.Metrics(t)
	if counted := int(m.Sum("sluice_requests_total")); counted != run.Lines() {
		t.Errorf("the metrics count %d requests, and the log has %d", counted, run.Lines())
	}
	for _, name := range []string{"sluice_panics_total", "sluice_log_lines_dropped_total"} {
		if n := m.Sum(name); n != 0 {
			t.Errorf("%s is %v, want 0", name, n)
		}
	}
	for _, difference := range run.CompareFigures(t, g, m) {
		t.Error(difference)
	}
	succeeded, failed := run.Reloads()
	if n := int64(m.Sum("sluice_config_reloads_total", "result", "success")); n != succeeded {
		t.Errorf("the metrics count %d successful reloads, and the log has %d", n, succeeded)
	}
	after := measure(t, g)
	printf("requests by outcome:\n%s%d successful and %d failed reloads; %.0f plugin failures; %.0f stale connections, %.0f retried requests",
		run.Outcomes(), succeeded, failed, m.Sum("sluice_plugin_failures_total", "plugin", "guest"), m.Sum("sluice_upstream_stale_total"), m.Sum("sluice_upstream_retries_total"))
	printf("upstream requests of disconnected clients cancelled after %s", run.DisconnectLatency())
	printf("before: %s\nafter:  %s", before, after)
	checkGrowth(t, samples, printf)

	if n, first := run.Violations(); n > 0 {
		t.Errorf("%d violations:\n%s", n, strings.Join(first, "\n"))
	}
	if lines := run.Stderr(); len(lines) > 0 {
		t.Errorf("output of the gateway besides its log:\n%s", strings.Join(lines[:min(len(lines), 100)], "\n"))
	}
	if !idle {
		// Print the stacks of the remaining goroutines.
		g.Signal(t, syscall.SIGQUIT)
		g.Wait(t, binarytest.EventTimeout)
		t.Errorf("goroutines:\n%s", strings.Join(run.Stderr(), "\n"))
		return
	}
	g.Signal(t, syscall.SIGTERM)
	if exit := g.Wait(t, 2*binarytest.EventTimeout); exit != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", exit)
	}
}

// sampleUsage samples the gateway's resource usage every second until the soak is over, and prints a row every ten
// seconds.
func sampleUsage(t *testing.T, g *binarytest.Gateway, run *soaktest.Run, printf func(string, ...any)) (samples []soaktest.Sample) {
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
			printf("%s", run.Row(s))
		}
		if samples = append(samples, s); over {
			break
		}
	}
	return samples
}

// state is the resource usage of an idle gateway.
type state struct {
	binarytest.Usage
	goroutines int
	heap       float64
}

func (s state) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MB of memory (heap %.1f MB)", s.goroutines, s.Descriptors, float64(s.RSS)/(1<<20), s.heap/(1<<20))
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

// gauges are the metrics that are zero when the gateway is idle, with labels.
var gauges = [][]string{
	{"sluice_requests_in_flight"}, {"sluice_streams_in_flight"}, {"sluice_client_connections"}, {"sluice_target_in_flight"},
	{"sluice_upstream_connections", "state", "used"}, {"sluice_upstream_waiting"}, {"sluice_plugin_waiting"},
	{"sluice_plugin_instances", "state", "used"}, {"sluice_plugin_whole_calls"},
}

// The scrape itself uses a few goroutines and descriptors.
const (
	fewGoroutines  = 5
	fewDescriptors = 3
)

// nonzeroGauges describes the gauges that are not as in an idle gateway.
func nonzeroGauges(m binarytest.Metrics) (problems []string) {
	for _, gauge := range gauges {
		if v := m.Sum(gauge[0], gauge[1:]...); v != 0 {
			problems = append(problems, fmt.Sprintf("%s is %v, want 0", strings.Join(gauge, " "), v))
		}
	}
	if v := m.Sum("sluice_config_generations_open"); v != 1 {
		problems = append(problems, fmt.Sprintf("%v generations are open, want 1", v))
	}
	return problems
}

// leaks describes the resources that were not released after the load.
func leaks(t *testing.T, g *binarytest.Gateway, run *soaktest.Run, before state) (problems []string) {
	if now := measure(t, g); now.goroutines > before.goroutines+fewGoroutines || now.Descriptors > before.Descriptors+fewDescriptors {
		problems = append(problems, fmt.Sprintf("now %s; before the load %s", now, before))
	}
	if n := run.Provider.InFlight(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d requests to the provider are still in flight", n))
	}
	return problems
}

// expectIdle waits until check finds no problems after the load.
func expectIdle(t *testing.T, subject string, check func() []string) bool {
	t.Helper()
	var problems []string
	if binarytest.Await(func() bool { problems = check(); return len(problems) == 0 }) {
		return true
	}
	t.Errorf("%s did not return to normal after the load:\n%s", subject, strings.Join(problems, "\n"))
	return false
}

// The memory may grow by the larger of these in the second half of a run: a share of the mean, and an allowance for
// garbage.
const (
	growthShare = 10 // the mean is divided by it
	growthBytes = 16 << 20
)

// checkGrowth checks the growth of the memory. Runs of less than a minute are not checked, because they are still
// warming up.
func checkGrowth(t *testing.T, samples []soaktest.Sample, printf func(string, ...any)) {
	growth, mean := soaktest.Growth(samples)
	limit := max(growthBytes, mean/growthShare)
	printf("memory in the second half: mean %.1f MB, growth %+.1f MB; a growth of more than %.1f MB is a leak", float64(mean)/(1<<20), float64(growth)/(1<<20), float64(limit)/(1<<20))
	if *length >= time.Minute && growth > limit {
		t.Errorf("the memory grew by %d bytes, want at most %d", growth, limit)
	}
}
