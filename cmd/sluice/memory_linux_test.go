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

// anonymousMemory returns a process's resident memory that is not backed by a file, in bytes: heap, machine code and the memories of
// plugins.
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

// TestMemoryLimitHolds sends large bodies and many requests to a gateway with GOMEMLIMIT=100MiB. The memory of the whole process stays
// below the limit, and requests that fit into it are served.
//
// covers: F8
func TestMemoryLimitHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("makes load for some seconds")
	}
	const limit = 100 << 20
	p := start(t, t.TempDir(), []string{"GOMEMLIMIT=100MiB"}, "serve", "--config", writeConfig(t, demoConfig("", testKey)))
	largest, err := strconv.Atoi(logAttr(p.await("msg=limits"), "body"))
	if err != nil || largest < 4<<20 {
		t.Fatalf("the largest body has %d bytes, %v", largest, err)
	}
	base := p.ready()
	go func() {
		for range p.lines { // the log of thousands of requests
		}
	}()
	client := newClient(t)
	ask := func(text, rest string) int {
		status, _, err := complete(t, client, base, testKey, `{"model":"demo","max_tokens":5`+rest+`,"messages":[{"role":"user","content":"`+text+`"}]}`)
		if err != nil {
			t.Error(err)
		}
		return status
	}
	peak := int64(0)
	for _, load := range []struct {
		name           string
		text, rest     string
		clients, times int
	}{
		{"small", "Hello", "", 30, 100},
		{"streams", "Hello", `,"stream":true`, 30, 50},
		{"1 MiB", strings.Repeat("x", 1<<20), "", 8, 20},
		{"as large as they may be", strings.Repeat("x", largest-200), "", 8, 10},
		{"escaped", strings.Repeat(`\n\"`, (largest-200)/4), "", 8, 10},
		{"larger", strings.Repeat("x", 31<<20), "", 2, 4},
	} {
		counts := map[int]int{}
		var mu sync.Mutex
		var clients sync.WaitGroup
		for range load.clients {
			clients.Go(func() {
				for range load.times {
					status := ask(load.text, load.rest)
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
		t.Logf("%s: %v, %d MiB so far", load.name, counts, peak>>20)
		if want := http.StatusOK; load.name != "larger" && counts[want] == 0 || load.name == "larger" && counts[http.StatusRequestEntityTooLarge] != load.clients*load.times {
			t.Errorf("%s: statuses %v", load.name, counts)
		}
	}
	if peak > limit {
		t.Errorf("%d MiB of memory were used", peak>>20)
	}
}
