package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// noticeable is how long plugins may take to be loaded before a person is told. From the cache it takes a tenth of it.
const noticeable = 300 * time.Millisecond

// progress tells a person which plugins are being loaded: those that are not in the cache are compiled, which takes
// seconds, and a screen on which nothing moves looks broken. It is safe for concurrent use.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// loading is told that the plugins of a module begin to be loaded, and by what it returns that this has ended.
func (p *progress) loading(plugins []string) (ended func()) {
	began := time.Now()
	who, compiled := "plugin "+plugins[0], "it is compiled"
	if len(plugins) > 1 {
		who, compiled = "plugins "+strings.Join(plugins, ", "), "they are compiled"
	}
	said, over := false, false // both under mu
	t := time.AfterFunc(noticeable, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !over {
			said = true
			fmt.Fprintf(p.out, "Loading %s (the first time %s, which takes a while) …\n", who, compiled)
		}
	})
	return func() {
		t.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		if said {
			fmt.Fprintf(p.out, "Loaded %s in %s\n", who, time.Since(began).Round(100*time.Millisecond))
		}
	}
}
