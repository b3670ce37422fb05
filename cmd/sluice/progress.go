package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progressDelay is how long compiling a plugin may take before a message is printed. Small plugins take a tenth of it.
const progressDelay = 300 * time.Millisecond

// progress prints which plugins are being compiled, since that may take seconds. It is safe for concurrent use.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// startCompiling starts a timer for the plugins of one module. The caller calls done when compiling has succeeded or
// failed.
func (p *progress) startCompiling(plugins string) (done func()) {
	began := time.Now()
	subject := "plugin " + plugins
	if strings.Contains(plugins, ", ") {
		subject = "plugins " + plugins
	}
	reported, finished := false, false // both under mu
	t := time.AfterFunc(progressDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !finished {
			reported = true
			fmt.Fprintf(p.out, "Compiling %s …\n", subject)
		}
	})
	return func() {
		t.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		finished = true
		if reported {
			fmt.Fprintf(p.out, "Compiled %s in %s\n", subject, time.Since(began).Round(100*time.Millisecond))
		}
	}
}
