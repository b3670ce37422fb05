package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fairqueue"
)

type flow = fairqueue.Flow[string]

func newFlow(group, member string) flow { return flow{Group: group, Member: member} }

// waitLimit is the limit of callers that are served in the end. Tests run in synctest bubbles, where time passes only
// while all goroutines are blocked.
const waitLimit = 20 * time.Second

var options = fairqueue.Options{MaxWaiting: 100, MinCost: 1, Deficit: 1000}

// line is a group of callers that queue for one unit.
type line struct {
	t     *testing.T
	s     *fairqueue.Semaphore[string]
	calls sync.WaitGroup
	start chan struct{} // closed to let the first caller release the unit

	mu     sync.Mutex
	served []string
}

// newLine returns a line whose first caller, of flow f, holds the only unit, and releases it with the given cost.
func newLine(t *testing.T, s *fairqueue.Semaphore[string], f flow, cost int64) *line {
	l := &line{t: t, s: s, start: make(chan struct{})}
	if _, err := s.Acquire(t.Context(), f, waitLimit); err != nil {
		t.Fatal(err)
	}
	l.calls.Go(func() {
		<-l.start
		s.Release(f, cost)
	})
	return l
}

func (l *line) record(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served = append(l.served, name)
}

// begin adds a caller of a flow, which uses the unit in its turn at the given cost.
func (l *line) begin(f flow, cost int64) {
	l.calls.Go(func() {
		name := f.Group + "/" + f.Member
		if _, err := l.s.Acquire(context.Background(), f, waitLimit); err != nil {
			l.record(name + ": " + err.Error())
			return
		}
		l.record(name)
		l.s.Release(f, cost)
	})
}

// add adds n callers of a flow, one after the other.
func (l *line) add(n int, f flow, cost int64) {
	l.t.Helper()
	for range n {
		_, before := l.s.Load()
		l.begin(f, cost)
		synctest.Wait()
		if _, waiting := l.s.Load(); waiting != before+1 {
			l.t.Fatalf("%d callers are waiting, want %d", waiting, before+1)
		}
	}
}

// order lets the first caller release the unit, and returns the order in which flows were served, each with the number
// of times in a row.
func (l *line) order() string {
	l.t.Helper()
	// After that time units are handed over, so the callers are served strictly in the order of the queue.
	time.Sleep(fairqueue.HandOverAfter)
	close(l.start)
	l.calls.Wait()
	var runs []string
	for i := 0; i < len(l.served); {
		n := i
		for n < len(l.served) && l.served[n] == l.served[i] {
			n++
		}
		runs = append(runs, fmt.Sprintf("%d %s", n-i, l.served[i]))
		i = n
	}
	return strings.Join(runs, ", ")
}

func TestOrder(t *testing.T) {
	ax, ay, bx, first := newFlow("a", "x"), newFlow("a", "y"), newFlow("b", "x"), newFlow("first", "")
	for _, tt := range []struct {
		name  string
		first flow
		cost  int64
		add   func(l *line)
		want  string
	}{
		{"first come, first served", ax, 1, func(l *line) { l.add(3, ax, 1) }, "3 a/x"},
		{"groups alternate", first, 1, func(l *line) { l.add(2, ax, 1); l.add(2, bx, 1) }, "1 a/x, 1 b/x, 1 a/x, 1 b/x"},
		{"members alternate", first, 1, func(l *line) { l.add(2, ax, 1); l.add(2, ay, 1) }, "1 a/x, 1 a/y, 1 a/x, 1 a/y"},
		{"the members of a group share its turns", first, 1, func(l *line) {
			l.add(1, ax, 1)
			l.add(1, ay, 1)
			l.add(2, bx, 1)
		}, "1 a/x, 1 b/x, 1 a/y, 1 b/x"},
		{"an expensive flow delays others by one use", first, 1, func(l *line) {
			l.add(3, ax, 5000)
			l.add(10, bx, 1)
		}, "1 a/x, 10 b/x, 2 a/x"},
		{"an earlier deficit counts", ax, 5000, func(l *line) {
			l.add(2, ax, 5000)
			l.add(10, bx, 1)
		}, "10 b/x, 2 a/x"},
		{"an expensive member delays others by one use", first, 1, func(l *line) {
			l.add(3, ax, 5000)
			l.add(10, ay, 1)
		}, "1 a/x, 10 a/y, 2 a/x"},
		{"two expensive flows alternate", first, 1, func(l *line) {
			l.add(3, ax, 5000)
			l.add(3, bx, 5000)
		}, "1 a/x, 1 b/x, 1 a/x, 1 b/x, 1 a/x, 1 b/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, fairqueue.NewSemaphore[string](1, options), tt.first, tt.cost)
				tt.add(l)
				if got := l.order(); got != tt.want {
					t.Errorf("served %s\nwant   %s", got, tt.want)
				}
				if held, waiting := l.s.Load(); held != 0 || waiting != 0 {
					t.Errorf("afterwards %d callers hold the semaphore and %d are waiting", held, waiting)
				}
			})
		})
	}
}

// TestIdleFlowAccumulatesNoCredit checks that a flow that was idle alternates with the others, instead of being served
// until it has used as much as they have.
func TestIdleFlowAccumulatesNoCredit(t *testing.T) { synctest.Test(t, idleFlowAccumulatesNoCredit) }

func idleFlowAccumulatesNoCredit(t *testing.T) {
	s := fairqueue.NewSemaphore[string](1, options)
	early, late := newFlow("early", ""), newFlow("late", "")
	l := newLine(t, s, newFlow("first", ""), 1)
	l.add(4, early, 500)
	got := l.order()
	l = newLine(t, s, newFlow("first", ""), 1)
	l.add(3, early, 500)
	l.add(3, late, 500)
	got += "; " + l.order()
	if want := "4 early/; 1 early/, 1 late/, 1 early/, 1 late/, 1 early/, 1 late/"; got != want {
		t.Errorf("served %s\nwant   %s", got, want)
	}
}

func TestFullQueueRejectsCallersOfTheLongestFlow(t *testing.T) {
	synctest.Test(t, fullQueueRejectsCallersOfTheLongestFlow)
}

func fullQueueRejectsCallersOfTheLongestFlow(t *testing.T) {
	o := options
	o.MaxWaiting = 4
	many, few := newFlow("many", ""), newFlow("few", "")
	l := newLine(t, fairqueue.NewSemaphore[string](1, o), newFlow("first", ""), 1)
	l.add(4, many, 1)
	if _, err := l.s.Acquire(t.Context(), many, waitLimit); !errors.Is(err, fairqueue.ErrBusy) {
		t.Errorf("a fifth caller of the longest flow: got error %v, want ErrBusy", err)
	}
	l.begin(few, 1)
	synctest.Wait()
	if len(l.served) != 1 {
		t.Fatalf("served %v, want only the rejection of the newest caller of the longest flow", l.served)
	}
	if got, want := l.order(), "1 many/: "+fairqueue.ErrBusy.Error()+", 1 many/, 1 few/, 2 many/"; got != want {
		t.Errorf("served %s\nwant   %s", got, want)
	}
}

func TestCallersThatGiveUp(t *testing.T) { synctest.Test(t, callersThatGiveUp) }

func callersThatGiveUp(t *testing.T) {
	s := fairqueue.NewSemaphore[string](1, options)
	if waited, err := s.Acquire(t.Context(), flow{}, 0); waited || err != nil {
		t.Fatalf("waited %v, error %v", waited, err)
	}
	if waited, err := s.Acquire(t.Context(), flow{}, time.Millisecond); !waited || !errors.Is(err, fairqueue.ErrBusy) {
		t.Errorf("after the limit: waited %v, error %v", waited, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if waited, err := s.Acquire(ctx, flow{}, waitLimit); !waited || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: waited %v, error %v", waited, err)
	}
	s.Release(flow{}, 1)
	if held, waiting := s.Load(); held != 0 || waiting != 0 {
		t.Errorf("%d callers hold the semaphore and %d are waiting, want none", held, waiting)
	}
}

// TestUnitsAreNeverLost runs many callers that give up at random. There are never more holders than units, and all
// units are returned.
func TestUnitsAreNeverLost(t *testing.T) { synctest.Test(t, unitsAreNeverLost) }

func unitsAreNeverLost(t *testing.T) {
	const units = 3
	s := fairqueue.NewSemaphore[string](units, fairqueue.Options{MaxWaiting: 20, MinCost: 1, Deficit: 50})
	var callers sync.WaitGroup
	for n := range 16 {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		f := newFlow(fmt.Sprint(n%3), fmt.Sprint(n%5))
		callers.Go(func() {
			for range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3000))*time.Microsecond)
				if _, err := s.Acquire(ctx, f, time.Duration(r.IntN(3000))*time.Microsecond); err == nil {
					if held, _ := s.Load(); held < 1 || held > units {
						t.Errorf("%d callers hold the semaphore, want 1 to %d", held, units)
					}
					time.Sleep(time.Duration(r.IntN(200)) * time.Microsecond)
					s.Release(f, r.Int64N(100))
				}
				cancel()
			}
		})
	}
	callers.Wait()
	if held, waiting := s.Load(); held != 0 || waiting != 0 {
		t.Errorf("%d callers hold the semaphore and %d are waiting, want none", held, waiting)
	}
}

// tokens is a resource of numbered units.
type tokens struct {
	sync.Mutex
	free []int
}

func (r *tokens) Available() int { return len(r.free) }

func (r *tokens) Take(flow) (n int, ok bool) {
	if len(r.free) == 0 {
		return 0, false
	}
	n, r.free = r.free[0], r.free[1:]
	return n, true
}

func (r *tokens) PutBack(n int) { r.free = append(r.free, n) }

func waiting(r *tokens, q *fairqueue.Queue[string, int]) int {
	r.Lock()
	defer r.Unlock()
	return q.Waiting()
}

func TestUrgentCallersGoFirst(t *testing.T) { synctest.Test(t, urgentCallersGoFirst) }

func urgentCallersGoFirst(t *testing.T) {
	r := &tokens{}
	q := fairqueue.New(r, options)
	putBack := func(n int) {
		r.Lock()
		r.PutBack(n)
		q.Dispatch()
		r.Unlock()
	}
	var callers sync.WaitGroup
	served := make(chan string, 3)
	for i, name := range []string{"one", "two", "urgent"} {
		callers.Go(func() {
			n, waited, err := q.Acquire(context.Background(), newFlow("", name), name == "urgent", waitLimit)
			if err != nil || !waited || n != 7 {
				t.Errorf("%s got %d, waited %v, error %v", name, n, waited, err)
			}
			served <- name
			putBack(n)
		})
		synctest.Wait()
		if n := waiting(r, q); n != i+1 {
			t.Fatalf("%d callers are waiting, want %d", n, i+1)
		}
	}
	time.Sleep(fairqueue.HandOverAfter)
	putBack(7)
	callers.Wait()
	if first, second := <-served, <-served; first != "urgent" || second != "one" {
		t.Errorf("served %s, %s; want urgent, one", first, second)
	}
}

func TestCloseRejectsCallers(t *testing.T) { synctest.Test(t, closeRejectsCallers) }

func closeRejectsCallers(t *testing.T) {
	r := &tokens{}
	q := fairqueue.New(r, options)
	closed := errors.New("closed")
	result := make(chan error)
	go func() {
		_, _, err := q.Acquire(context.Background(), flow{}, false, waitLimit)
		result <- err
	}()
	synctest.Wait()
	if n := waiting(r, q); n != 1 {
		t.Fatalf("%d callers are waiting, want 1", n)
	}
	r.Lock()
	q.Close(closed)
	r.PutBack(1)
	r.Unlock()
	if err := <-result; err != closed {
		t.Errorf("a waiting caller: got error %v, want %v", err, closed)
	}
	if _, _, err := q.Acquire(context.Background(), flow{}, false, waitLimit); err != closed {
		t.Errorf("a later caller: got error %v, want %v", err, closed)
	}
}

func TestAcquireDoesNotAllocate(t *testing.T) {
	s := fairqueue.NewSemaphore[string](1, options)
	f := newFlow("group", "member")
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Acquire(ctx, f, waitLimit); err != nil {
			t.Fatal(err)
		}
		s.Release(f, 1)
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
