package thinking_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

func call(id string) [2]string { return [2]string{id, "f"} }

func TestMemoryKeyIsClientCallAndName(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	m.Put("a", "up", "[1]", call("t1"), call("t2"))
	m.Put("b", "up", "[2]", call("t1"))
	for _, c := range []struct{ client, id, name, want string }{
		{"a", "t1", "f", "[1]"}, {"a", "t2", "f", "[1]"}, {"b", "t1", "f", "[2]"},
		{"b", "t2", "f", ""}, {"c", "t1", "f", ""}, {"", "t1", "f", ""}, {"a", "t3", "f", ""}, {"a", "t1", "g", ""},
	} {
		if got := m.Get(c.client, c.id, c.name); got != c.want {
			t.Errorf("%q %q %q: got %q, want %q", c.client, c.id, c.name, got, c.want)
		}
	}
}

// If several responses have the same call, the reasoning text that the client returns selects one, so that no
// conversation receives the reasoning of another.
func TestMemoryDistinguishesResponsesByText(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	entry := func(text, signature string) string {
		return `[{"type":"reasoning.text","text":"` + text + `","signature":"` + signature + `"},{"type":"reasoning.summary","summary":"!"}]`
	}
	m.Put("a", "up", entry("one", "s1"), call("call_0"))
	m.Put("a", "up", entry("one", "s1"), call("call_0"))
	if got := m.Get("a", "call_0", "f"); got != entry("one", "s1") {
		t.Errorf("the same response twice: got %q", got)
	}
	m.Put("a", "up", entry("tw\\u006f", "s2"), call("call_0"))
	m.Put("a", "up", entry("one", "s3"), call("call_0"))
	for reasoning, want := range map[string]string{"one!": entry("one", "s3"), "two!": entry("tw\\u006f", "s2"), "three!": "", "": ""} {
		if got := m.GetByText("a", "call_0", "f", reasoning); got != want {
			t.Errorf("%q: got %q, want %q", reasoning, got, want)
		}
	}
	for i := range 10 {
		m.Put("a", "up", entry(fmt.Sprint(i), "s"), call("call_0"))
	}
	if got := m.GetByText("a", "call_0", "f", "one!"); got != "" {
		t.Errorf("after ten others: got %q", got)
	}
	if got := m.GetByText("a", "call_0", "f", "9!"); got != entry("9", "s") {
		t.Errorf("the latest: got %q", got)
	}
}

func TestMemoryEntriesExpire(t *testing.T) {
	now := time.Unix(1700000000, 0)
	m := thinking.NewMemory(0, time.Hour, func() time.Time { return now })
	m.Put("a", "up", "[1]", call("used"))
	m.Put("a", "up", "[2]", call("unused"))
	now = now.Add(59 * time.Minute)
	if m.Get("a", "used", "f") == "" {
		t.Error("an entry expired within the hour")
	}
	now = now.Add(59 * time.Minute)
	if got := m.Get("a", "unused", "f"); got != "" {
		t.Errorf("%q is still stored after two hours", got)
	}
	if m.Get("a", "used", "f") == "" {
		t.Error("an entry expired within an hour of its last use")
	}
	now = now.Add(time.Hour)
	if got := m.Get("a", "used", "f"); got != "" || m.Size() != 0 || m.Clients() != 0 {
		t.Errorf("after an hour: %q, %d bytes, %d clients", got, m.Size(), m.Clients())
	}
}

// Expired entries are removed without any access.
func TestExpiredEntriesAreRemoved(t *testing.T) {
	m := thinking.NewMemory(0, time.Millisecond, nil)
	m.Put("a", "up", "[1]", call("t"))
	deadline := time.After(20 * time.Second)
	for m.Size() > 0 {
		select {
		case <-deadline:
			t.Fatalf("%d bytes are left", m.Size())
		case <-time.After(time.Millisecond):
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const max = 64 << 10
	details := "[" + strings.Repeat("1", 500) + "]"
	m := thinking.NewMemory(max, 0, nil)
	for i := range 1000 {
		m.Put("a", "up", details, call(fmt.Sprint("t", i)))
		if n := m.Size(); n > max {
			t.Fatalf("%d bytes after %d entries", n, i+1)
		}
	}
	if m.Get("a", "t0", "f") != "" || m.Get("a", "t999", "f") == "" {
		t.Error("an entry other than the oldest was displaced")
	}
	if n := m.Size(); n < max/2 {
		t.Errorf("a single client gets only %d bytes", n)
	}
	m.Put("a", "up", "["+strings.Repeat("1", max/8)+"]", call("huge"))
	if m.Get("a", "huge", "f") != "" {
		t.Error("one response may use an eighth of the memory")
	}
}

func TestClientDisplacesOnlyItsOwnEntries(t *testing.T) {
	const max = 64 << 10
	details := "[" + strings.Repeat("1", 500) + "]"
	m := thinking.NewMemory(max, 0, nil)
	for i := range 10 {
		m.Put("modest", "up", details, call(fmt.Sprint("t", i)))
	}
	for i := range 1000 {
		m.Put("greedy", "up", details, call(fmt.Sprint("t", i)))
	}
	for i := range 10 {
		if m.Get("modest", fmt.Sprint("t", i), "f") == "" {
			t.Errorf("call %d was displaced", i)
		}
	}
}

func TestMemoryIsSafeForConcurrentUse(t *testing.T) {
	m := thinking.NewMemory(16<<10, 0, nil)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				id := fmt.Sprint("t", (w+i)%50)
				m.Put(fmt.Sprint("c", i%3), "up", "[1]", call(id))
				m.Get(fmt.Sprint("c", i%3), id, "f")
			}
		})
	}
	wg.Wait()
	if n := m.Size(); n > 16<<10 {
		t.Errorf("%d bytes", n)
	}
}
