package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progressDelay is how long loading a plugin may take before a message is printed. From the cache it takes a tenth of that.
const progressDelay = 300 * time.Millisecond

// progress reports plugins that take long to load: those that are not in the cache are compiled first, for seconds. It is
// safe for concurrent use.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// startLoading starts a timer for the plugins of one module; the caller calls done when they are loaded.
func (p *progress) startLoading(plugins []string) (done func()) {
	began := time.Now()
	subject, state := "plugin "+plugins[0], "it is compiled"
	if len(plugins) > 1 {
		subject, state = "plugins "+strings.Join(plugins, ", "), "they are compiled"
	}
	reported, finished := false, false // both under mu
	t := time.AfterFunc(progressDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !finished {
			reported = true
			fmt.Fprintf(p.out, "Loading %s (the first time %s, which takes a while) …\n", subject, state)
		}
	})
	return func() {
		t.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		finished = true
		if reported {
			fmt.Fprintf(p.out, "Loaded %s in %s\n", subject, time.Since(began).Round(100*time.Millisecond))
		}
	}
}
