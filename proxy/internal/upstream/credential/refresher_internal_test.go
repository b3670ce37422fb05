package credential

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// source issues consecutive numbers, each valid for life. Each fetch waits for the result that the test sends to gate.
type source struct {
	life     time.Duration // 0 means forever
	gate     chan error
	attempts atomic.Int32
}

func (s *source) fetch(ctx context.Context) (int, time.Time, error) {
	n := int(s.attempts.Add(1))
	select {
	case err := <-s.gate:
		if err != nil {
			return 0, time.Time{}, err
		}
	case <-ctx.Done():
		return 0, time.Time{}, ctx.Err()
	}
	if s.life == 0 {
		return n, time.Time{}, nil
	}
	return n, time.Now().Add(s.life), nil
}

func newSource(t *testing.T, life time.Duration) (*source, *refresher[int]) {
	s := &source{life: life, gate: make(chan error)}
	r := newRefresher(time.Now, s.fetch)
	t.Cleanup(r.close)
	return s, r
}

// all starts n goroutines that get the value. It returns a function that waits for them and returns their results.
func all(r *refresher[int], n int) func() map[string]int {
	results := make(chan string, n)
	for range n {
		go func() {
			v, err := r.get(context.Background(), time.Now().Add(24*time.Hour))
			results <- fmt.Sprint(v, " ", err)
		}()
	}
	return func() map[string]int {
		got := map[string]int{}
		for range n {
			got[<-results]++
		}
		return got
	}
}

func TestExpiredValueIsFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(t, time.Hour)
		for round := 1; round <= 3; round++ {
			wait := all(r, 100)
			synctest.Wait() // all goroutines wait for the same fetch
			if got := int(s.attempts.Load()); got != round {
				t.Fatalf("round %d: %d fetches, want %d", round, got, round)
			}
			s.gate <- nil
			if got := wait(); got[fmt.Sprint(round, " <nil>")] != 100 {
				t.Fatalf("round %d: %v", round, got)
			}
			pass(time.Hour)
		}
	})
}

func TestValueIsRenewedBeforeExpiry(t *testing.T) {
	for life, early := range map[time.Duration]time.Duration{time.Hour: maxRefreshLead, 100 * time.Second: 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s, r := newSource(t, life)
			wait := all(r, 1)
			s.gate <- nil
			wait()
			pass(life - early - 1)
			all(r, 100)()
			if s.attempts.Load() != 1 {
				t.Fatalf("lifetime %v: renewed too early", life)
			}
			pass(1)
			if got := all(r, 100)(); got["1 <nil>"] != 100 {
				t.Fatalf("during the renewal: got %v, want the current value without waiting", got)
			}
			synctest.Wait()
			if s.attempts.Load() != 2 {
				t.Fatalf("got %d attempts", s.attempts.Load())
			}
			s.gate <- nil
			synctest.Wait()
			if got := all(r, 100)(); got["2 <nil>"] != 100 {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func TestFailedRenewalKeepsValueUntilExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(t, time.Hour)
		wait := all(r, 1)
		s.gate <- nil
		wait()
		pass(time.Hour - maxRefreshLead)
		bad := errors.New("bad")
		all(r, 1)()
		s.gate <- bad
		synctest.Wait()
		if got := all(r, 10)(); got["1 <nil>"] != 10 || s.attempts.Load() != 2 {
			t.Fatalf("after a failure: got %v after %d attempts", got, s.attempts.Load())
		}
		pass(retryDelay) // the next attempt comes after retryDelay
		all(r, 1)()
		s.gate <- bad
		synctest.Wait()
		if s.attempts.Load() != 3 {
			t.Fatalf("got %d attempts", s.attempts.Load())
		}
		pass(maxRefreshLead - expiryMargin - retryDelay)
		wait = all(r, 10)
		synctest.Wait()
		s.gate <- bad
		if got := wait(); got["0 bad"] != 10 || s.attempts.Load() != 4 {
			t.Fatalf("after expiry: got %v after %d attempts", got, s.attempts.Load())
		}
		if got := all(r, 10)(); got["0 bad"] != 10 || s.attempts.Load() != 4 {
			t.Fatalf("shortly after: got %v after %d attempts", got, s.attempts.Load())
		}
		pass(retryDelay)
		wait = all(r, 10)
		s.gate <- nil
		if got := wait(); got["5 <nil>"] != 10 {
			t.Fatalf("after a successful fetch: got %v", got)
		}
	})
}

func TestValueWithoutExpiry(t *testing.T) {
	for _, refreshEvery := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s, r := newSource(t, 0)
			r.refreshEvery = refreshEvery
			wait := all(r, 1)
			s.gate <- nil
			wait()
			pass(24 * time.Hour)
			if got := all(r, 10)(); got["1 <nil>"] != 10 {
				t.Fatalf("got %v", got)
			}
			synctest.Wait()
			want := int32(1)
			if refreshEvery > 0 {
				want = 2
				s.gate <- nil
				synctest.Wait()
			}
			if got := all(r, 10)(); got[fmt.Sprint(want, " <nil>")] != 10 || s.attempts.Load() != want {
				t.Fatalf("got %v after %d attempts", got, s.attempts.Load())
			}
		})
	}
}

func TestWaitEndsOnCancelAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(t, time.Hour)
		start := time.Now()
		if _, err := r.get(context.Background(), start.Add(time.Second)); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("got error %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := r.get(ctx, start.Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Fatalf("got error %v after %v", err, time.Since(start))
		}
		// The fetch continues for other callers.
		wait := all(r, 1)
		synctest.Wait()
		s.gate <- nil
		if got := wait(); got["1 <nil>"] != 1 || s.attempts.Load() != 1 {
			t.Fatalf("got %v after %d attempts", got, s.attempts.Load())
		}
		pass(time.Hour)
		wait = all(r, 10)
		synctest.Wait()
		r.close()
		if got := wait(); got["0 context canceled"] != 10 {
			t.Fatalf("after close: %v", got)
		}
		if _, err := r.get(context.Background(), time.Now().Add(24*time.Hour)); !errors.Is(err, context.Canceled) || s.attempts.Load() != 2 {
			t.Fatalf("got error %v after %d attempts", err, s.attempts.Load())
		}
	})
}

func TestFetchTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := newSource(t, time.Hour)
		start := time.Now()
		if _, err := r.get(context.Background(), time.Now().Add(24*time.Hour)); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != fetchTimeout {
			t.Fatalf("got error %v after %v", err, time.Since(start))
		}
	})
}

// pass advances the clock of the synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestFetchPanics(t *testing.T) {
	r := newRefresher(time.Now, func(context.Context) (int, time.Time, error) { panic("library") })
	defer r.close()
	_, err := r.get(t.Context(), time.Now().Add(time.Minute))
	if _, ok := errors.AsType[*rescue.Error](err); !ok {
		t.Errorf("got %v", err)
	}
}
