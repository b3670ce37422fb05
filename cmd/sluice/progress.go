package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// noticeable is how long a plugin may take to be loaded before a person is told. From the cache it takes a tenth of it.
const noticeable = 300 * time.Millisecond

// progress tells a person which plugins are being loaded: those that are not in the cache are compiled, which takes
// seconds, and a screen on which nothing moves looks broken. It is safe for concurrent use.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// loading is told that a plugin begins to be loaded, and by what it returns that this has ended.
func (p *progress) loading(plugin string) (ended func()) {
	began := time.Now()
	said, over := false, false // both under mu
	t := time.AfterFunc(noticeable, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !over {
			said = true
			fmt.Fprintf(p.out, "Loading plugin %s (the first time it is compiled, which takes a while) …\n", plugin)
		}
	})
	return func() {
		t.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		if said {
			fmt.Fprintf(p.out, "Plugin %s took %s\n", plugin, time.Since(began).Round(100*time.Millisecond))
		}
	}
}
