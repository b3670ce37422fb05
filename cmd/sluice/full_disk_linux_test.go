package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestJournalOnFullDisk serves with the state folder on a file system that is full, kills the gateway, starts it again,
// and frees the disk. What the provider has served is in the ledger after each kill.
//
// covers: F84
func TestJournalOnFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes and fills a disk with requests")
	}
	sluice := buildSluice(t, true)
	for _, onFailure := range []string{"serve", "refuse"} {
		t.Run(onFailure, func(t *testing.T) {
			disk := t.TempDir()
			if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
				t.Skipf("cannot mount a disk here: %v", err)
			}
			defer syscall.Unmount(disk, syscall.MNT_DETACH)
			var served atomic.Int64 // each for 0.01 dollars
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				served.Add(1)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":1000,"total_tokens":1000}}`)
			}))
			defer upstream.Close()
			dir := t.TempDir()
			text := fmt.Sprintf(journalConfig, filepath.Join(disk, "state"), upstream.URL)
			text = strings.Replace(text, "[store]", "[store]\non_failure = \""+onFailure+"\"", 1)
			text += "[[keys]]\nname = \"free\"\nsecret = \"sk-free-0123456789abc\"\nmodels = [\"*\"]\n"
			write(t, filepath.Join(dir, "gateway.toml"), []byte(text))

			client := newClient(t)
			request := func(base, key string) int {
				t.Helper()
				status, body, err := complete(t, client, base, key, `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"x"}]}`)
				if err != nil || status != 200 && !strings.Contains(body, "store_unavailable") {
					t.Fatalf("%d %s %v", status, body, err)
				}
				return status
			}
			// drain sends requests with a budget until they are rejected.
			drain := func(base string) (n int64) {
				for request(base, "sk-journal-0123456789") == 200 {
					if n++; n > 10_000 {
						t.Fatal("requests are served for ever on a full disk")
					}
				}
				return n
			}
			spent := func() int64 {
				t.Helper()
				r := run(t, sluice, dir, nil, []string{"budget", "--format", "json"})
				var list struct{ Budgets []budgetRow }
				if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.exit != 0 || len(list.Budgets) != 1 {
					t.Fatal(err, r)
				}
				return int64(list.Budgets[0].Spent*100 + 0.5)
			}

			p := start(t, dir, nil, "serve", "--quiet")
			base := p.ready()
			if status := request(base, "sk-journal-0123456789"); status != 200 {
				t.Fatal(status)
			}
			fillDisk(t, disk)
			paid := 1 + drain(base)
			if onFailure == "serve" && paid < 500 {
				t.Errorf("%d requests were served from the reserved room, want more", paid)
			}
			for range 2 {
				if status := request(base, "sk-free-0123456789abc"); status != 200 {
					t.Errorf("without a budget: %d", status)
				}
				p.signal(syscall.SIGKILL)
				p.wait()
				if got := spent(); got != paid {
					t.Errorf("after a kill: spent on %d requests, the provider has served %d", got, paid)
				}
				fillDisk(t, disk)
				p = start(t, dir, nil, "serve", "--quiet")
				base = p.ready()
				paid += drain(base)
			}
			ballast, _ := filepath.Glob(filepath.Join(disk, "ballast*"))
			for _, name := range ballast {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "requests with a budget are served again", func() bool { return request(base, "sk-journal-0123456789") == 200 })
			paid++
			p.signal(syscall.SIGTERM)
			if exit := p.wait(); exit != 0 {
				t.Errorf("exit %d", exit)
			}
			if got := spent(); got != paid || served.Load() != paid+2 {
				t.Errorf("spent on %d requests, served %d with a budget, %d in all", got, paid, served.Load())
			}
			t.Logf("%d requests with a budget were served in all", paid)
		})
	}
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, disk string) {
	t.Helper()
	f, err := os.CreateTemp(disk, "ballast")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 512); err == nil; {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
