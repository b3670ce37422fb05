package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// anonymousMemory returns a process's resident memory that is not backed by a file, in bytes: the heap, compiled
// plugins and their memories.
func anonymousMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Anonymous:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Skip("the kernel does not report anonymous memory")
	return 0
}

// TestMemoryLimitHolds sends large bodies and many requests to a gateway with GOMEMLIMIT=100MiB. The memory of the
// whole process must stay below the limit, and requests that fit into it must be served.
//
// covers: F8
func TestMemoryLimitHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("sends requests for several seconds")
	}
	const limit = 100 << 20
	p := start(t, t.TempDir(), []string{"GOMEMLIMIT=100MiB"}, "serve", "--config", writeConfig(t, demoConfig("", testKey)))
	largest, err := strconv.Atoi(logAttr(p.await("msg=limits"), "body"))
	if err != nil || largest < 4<<20 {
		t.Fatalf("limit on bodies: %d bytes, %v", largest, err)
	}
	base := p.ready()
	go func() {
		for range p.lines { // discard the log of thousands of requests
		}
	}()
	client := newClient(t)
	request := func(prompt, members string) int {
		status, _, err := complete(t, client, base, testKey, `{"model":"demo","max_tokens":5`+members+`,"messages":[{"role":"user","content":"`+prompt+`"}]}`)
		if err != nil {
			t.Error(err)
		}
		return status
	}
	peak := int64(0)
	for _, load := range []struct {
		name            string
		prompt, members string
		clients, times  int
	}{
		{"small", "Hello", "", 30, 100},
		{"streams", "Hello", `,"stream":true`, 30, 50},
		{"1 MiB", strings.Repeat("x", 1<<20), "", 8, 20},
		{"largest", strings.Repeat("x", largest-200), "", 8, 10},
		{"escaped", strings.Repeat(`\n\"`, (largest-200)/4), "", 8, 10},
		{"too large", strings.Repeat("x", 31<<20), "", 2, 4},
	} {
		counts := map[int]int{}
		var mu sync.Mutex
		var clients sync.WaitGroup
		for range load.clients {
			clients.Go(func() {
				for range load.times {
					status := request(load.prompt, load.members)
					mu.Lock()
					counts[status]++
					mu.Unlock()
				}
			})
		}
		done := make(chan struct{})
		go func() { clients.Wait(); close(done) }()
		for sampling := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-sampling.C:
				peak = max(peak, anonymousMemory(t, p.cmd.Process.Pid))
				continue
			case <-done:
				sampling.Stop()
			}
			break
		}
		t.Logf("%s: %v, peak %d MiB so far", load.name, counts, peak>>20)
		ok := counts[http.StatusOK] > 0
		if load.name == "too large" {
			ok = counts[http.StatusRequestEntityTooLarge] == load.clients*load.times
		}
		if !ok {
			t.Errorf("%s: responses by status: %v", load.name, counts)
		}
	}
	if peak > limit {
		t.Errorf("the process used %d MiB, want at most %d", peak>>20, limit>>20)
	}
}
