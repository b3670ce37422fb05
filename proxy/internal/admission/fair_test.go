package admission

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// client is a request that waits as clients' requests do.
type client struct{ gone chan struct{} }

var errGone = &apierror.Error{Status: 499}

func (c client) Await(admitted <-chan struct{}, d time.Duration) *apierror.Error {
	select {
	case <-admitted:
	case <-time.After(d):
	case <-c.gone:
		return errGone
	}
	return nil
}

// TestFairnessModel compares random arrivals, departures, disconnects and changes of the limit with a model of what
// must happen.
func TestFairnessModel(t *testing.T) {
	type request struct {
		key         string
		reservation Reservation
		gone        chan struct{}
		done        atomic.Bool // ReserveFor has returned
		err         *apierror.Error
	}
	run := func(t *testing.T, random *rand.Rand, steps int) {
		limit := 1 + random.IntN(12)
		c := newController(limit, 1<<30)
		keys := 1 + random.IntN(5)
		var inFlight, waiting []*request
		check := func(what string) {
			t.Helper()
			synctest.Wait()
			if n := c.Requests(); n != int64(len(inFlight)) || int(c.waiting.Load()) != len(waiting) {
				t.Fatalf("%s: %d in flight and %d waiting, want %d and %d", what, n, c.waiting.Load(), len(inFlight), len(waiting))
			}
			for _, r := range inFlight {
				if !r.done.Load() || r.err != nil {
					t.Fatalf("%s: a request of %s is not admitted: %v", what, r.key, r.err)
				}
			}
			for _, r := range waiting {
				if r.done.Load() {
					t.Fatalf("%s: a request of %s does not wait: %v", what, r.key, r.err)
				}
			}
		}
		admit := func() {
			for len(waiting) > 0 && len(inFlight) < limit {
				inFlight, waiting = append(inFlight, waiting[0]), waiting[1:]
			}
		}
		for range steps {
			switch op := random.IntN(10); {
			case op < 5:
				r := &request{key: fmt.Sprint("key-", random.IntN(keys)), gone: make(chan struct{})}
				counts := map[string]int{r.key: 1}
				for _, o := range append(inFlight[:len(inFlight):len(inFlight)], waiting...) {
					counts[o.key]++
				}
				may := c.mayReserve(r.key)
				go func() {
					r.err = c.ReserveFor(&r.reservation, r.key, false, client{r.gone})
					r.done.Store(true)
				}()
				admitted := len(inFlight) < limit
				fair := counts[r.key] <= max(1, limit/len(counts))
				if may != (admitted || fair) {
					t.Fatalf("mayReserve is %t, admitted %t, fair %t", may, admitted, fair)
				}
				switch {
				case admitted:
					inFlight = append(inFlight, r)
				case fair:
					waiting = append(waiting, r)
				default:
					synctest.Wait()
					if !r.done.Load() || r.err == nil {
						t.Fatal("a request beyond the share of its key is not rejected")
					}
				}
				check("arrival")
			case op < 8 && len(inFlight) > 0:
				i := random.IntN(len(inFlight))
				inFlight[i].reservation.Release()
				inFlight = append(inFlight[:i:i], inFlight[i+1:]...)
				admit()
				check("departure")
			case op == 8 && len(waiting) > 0:
				i := random.IntN(len(waiting))
				r := waiting[i]
				close(r.gone)
				waiting = append(waiting[:i:i], waiting[i+1:]...)
				check("disconnect")
				if !r.done.Load() || r.err != errGone {
					t.Fatalf("a client disconnects: %v", r.err)
				}
			case op == 9:
				limit = 1 + random.IntN(12)
				c.setLimits(limit, 1<<30)
				admit()
				check("another limit")
			}
		}
		late := waiting
		waiting = nil
		time.Sleep(maxWait)
		check("nothing ends")
		for _, r := range late {
			if !r.done.Load() || r.err == nil || r.err.Code != "gateway_overloaded" {
				t.Fatalf("a request waits for too long: %v", r.err)
			}
		}
		for _, r := range inFlight {
			r.reservation.Release()
		}
		if c.Requests() != 0 || c.active.Load() != 0 {
			t.Fatalf("%d in flight and %d active keys after all have left", c.Requests(), c.active.Load())
		}
	}
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { run(t, rand.New(rand.NewPCG(seed, 1)), 200) })
	}
}

// TestFairShares has keys whose workers send one request after another, of which some leave. Requests take a second.
func TestFairShares(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit       int
		workers     []int // by key
		least       []int // requests of each key in a minute
		rejectsNone int   // index of a key of which no request is rejected
		leaves      int   // index of a key that leaves after half a minute, or -1
	}{
		{"79 to 1", 20, []int{79, 1}, []int{1100, 30}, 1, -1},
		{"79 to 1, one at a time", 1, []int{79, 1}, []int{25, 25}, 1, -1},
		{"three keys", 12, []int{40, 40, 2}, []int{220, 220, 50}, 2, -1},
		{"as many keys as capacity", 3, []int{10, 10, 1}, []int{50, 50, 25}, 2, -1},
		{"more keys than capacity", 2, []int{9, 1, 1, 1}, []int{20, 20, 20, 20}, 1, -1},
		{"a key leaves", 10, []int{30, 5}, []int{440, 140}, 1, 1},
		{"a key that is alone", 10, []int{30}, []int{600}, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				controller := newController(c.limit, 1<<30)
				served, rejected := make([]int, len(c.workers)), make([]int, len(c.workers))
				var mu sync.Mutex
				var all sync.WaitGroup
				for key, workers := range c.workers {
					end := time.Now().Add(time.Minute)
					if key == c.leaves {
						end = time.Now().Add(30 * time.Second)
					}
					for range workers {
						all.Go(func() {
							for time.Now().Before(end) {
								var v Reservation
								e := controller.ReserveFor(&v, fmt.Sprint(key), false, client{})
								counts, pause := served, time.Second
								if e != nil {
									counts, pause = rejected, 100*time.Millisecond
								}
								time.Sleep(pause)
								v.Release()
								mu.Lock()
								counts[key]++
								mu.Unlock()
							}
						})
					}
				}
				all.Wait()
				for key, n := range served {
					if n < c.least[key] || key == c.rejectsNone && rejected[key] > 0 {
						t.Errorf("key %d: %d requests served, %d rejected, want at least %d", key, n, rejected[key], c.least[key])
					}
				}
				t.Log("served", served, "rejected", rejected)
			})
		})
	}
}

// TestFairnessUnderContention has many goroutines, so that the race detector sees them.
func TestFairnessUnderContention(t *testing.T) {
	const limit = 4
	c := newController(limit, 1<<30)
	var most sync.WaitGroup
	stop := make(chan struct{})
	for range 20 {
		most.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var v Reservation
				_ = c.ReserveFor(&v, "large", false, client{})
				if n := c.Requests(); n > limit {
					t.Errorf("%d in flight, want at most %d", n, limit)
				}
				v.Release()
			}
		})
	}
	for range 300 {
		var v Reservation
		if e := c.ReserveFor(&v, "small", false, client{}); e != nil {
			t.Fatalf("rejected: %v", e)
		}
		v.Release()
	}
	close(stop)
	most.Wait()
	if c.Requests() != 0 || c.active.Load() != 0 || c.waiting.Load() != 0 {
		t.Errorf("%d in flight, %d active and %d waiting at the end", c.Requests(), c.active.Load(), c.waiting.Load())
	}
}

// BenchmarkReserve measures what admission costs while there is capacity.
func BenchmarkReserve(b *testing.B) {
	c := newController(1<<20, 1<<30)
	for _, of := range []struct {
		name    string
		reserve func(*Reservation) *apierror.Error
	}{
		{"for a key", func(v *Reservation) *apierror.Error { return c.ReserveFor(v, "key", false, nil) }},
		{"for none", c.Reserve},
	} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			var v Reservation
			for b.Loop() {
				if e := of.reserve(&v); e != nil {
					b.Fatal(e)
				}
				v.Release()
			}
		})
	}
}
