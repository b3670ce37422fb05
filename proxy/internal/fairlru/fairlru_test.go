package fairlru_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
)

func always(string, int) bool { return true }

func TestValueIsFoundByEachKey(t *testing.T) {
	c := fairlru.New[string](1<<20, time.Hour, nil)
	c.Put("a", []string{"k1", "k2"}, "one", 3, 2, func(string, int) bool { return false })
	c.Put("b", []string{"k2"}, "two", 3, 2, func(string, int) bool { return false })
	for key, want := range map[string]string{"k1": "one", "k2": "two", "k3": ""} {
		if got, ok := c.Latest(key); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", key, got, ok, want)
		}
	}
	if got, ok := c.Get("k2", func(values []string) int { return 0 }); !ok || got != "one" {
		t.Errorf("the first value of k2: got %q, %v", got, ok)
	}
	if _, ok := c.Get("k2", func([]string) int { return -1 }); ok {
		t.Error("Get returned a value although none was chosen")
	}
	if !c.Delete("k2") || c.Delete("k2") || c.Size() != 0 || c.Clients() != 0 {
		t.Errorf("after Delete: %d bytes, %d clients", c.Size(), c.Clients())
	}
	if _, ok := c.Latest("k1"); ok {
		t.Error("a deleted value is found by its other key")
	}
}

func TestReplacedValuesAreDropped(t *testing.T) {
	c := fairlru.New[string](1<<20, time.Hour, nil)
	c.Put("a", []string{"k"}, "old", 3, 2, always)
	c.Put("a", []string{"k"}, "new", 3, 2, always)
	if got, _ := c.Latest("k"); got != "new" || c.Size() != fairlru.Weigh(3, []string{"k"}) {
		t.Errorf("got %q in %d bytes", got, c.Size())
	}
}

func TestShareOfOneValueIsBounded(t *testing.T) {
	c := fairlru.New[string](10_000, time.Hour, nil)
	overhead := fairlru.Weigh(0, []string{"k"})
	if !c.Put("a", []string{"k"}, "", 1000-overhead, 10, always) || c.Put("a", []string{"k"}, "", 1001-overhead, 10, always) {
		t.Error("the maximum size of a value is not a tenth of the cache")
	}
}

func TestLeastRecentlyUsedIsEvicted(t *testing.T) {
	c := fairlru.New[int](6*fairlru.Weigh(0, []string{"k0"}), time.Hour, nil)
	for i := range 6 {
		c.Put("a", []string{fmt.Sprint("k", i)}, i, 0, 1, func(int, int) bool { return true })
	}
	c.Latest("k0")
	c.Put("b", []string{"k6"}, 6, 0, 1, func(int, int) bool { return true })
	for i, want := range []bool{true, false, true, true, true, true, true} {
		if _, ok := c.Latest(fmt.Sprint("k", i)); ok != want {
			t.Errorf("k%d: got %v, want %v", i, ok, want)
		}
	}
	// Client a has five of six entries, so its own are evicted first.
	for i := range 20 {
		c.Put("a", []string{fmt.Sprint("n", i)}, i, 0, 1, func(int, int) bool { return true })
	}
	if _, ok := c.Latest("k6"); !ok {
		t.Error("a client that uses more than its share has evicted another's entry")
	}
}

func TestTimeToLive(t *testing.T) {
	now := time.Unix(1700000000, 0)
	c := fairlru.New[string](1<<20, time.Hour, func() time.Time { return now })
	c.Put("a", []string{"used"}, "u", 1, 2, always)
	c.Put("a", []string{"unused"}, "v", 1, 2, always)
	now = now.Add(40 * time.Minute)
	c.Latest("used")
	now = now.Add(40 * time.Minute)
	if _, ok := c.Latest("used"); !ok {
		t.Error("dropped within an hour of its use")
	}
	if _, ok := c.Latest("unused"); ok {
		t.Error("not dropped after 80 minutes without use")
	}
}

func TestConcurrentUse(t *testing.T) {
	const max = 16 << 10
	c := fairlru.New[int](max, time.Hour, nil)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 300 {
				key := fmt.Sprint("k", (w*7+i)%50)
				c.Put(fmt.Sprint("c", i%3), []string{key}, i, i%100, 10, func(int, int) bool { return i%2 == 0 })
				c.Latest(key)
				if i%5 == 0 {
					c.Delete(key)
				}
				if n := c.Size(); n > max {
					t.Errorf("%d bytes", n)
				}
			}
		})
	}
	wg.Wait()
}
