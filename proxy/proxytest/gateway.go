// Package proxytest runs a complete gateway in process for tests: a real listener on 127.0.0.1, the real plugins as
// WebAssembly, and a configuration as in gateway.toml. Subpackage upstreamtest provides scripted providers.
//
// It is for tests of behaviour that clients and operators can observe.
//
// Concurrency: a Gateway may be used from any goroutine of its test.
package proxytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// EventTimeout is how long a test waits for an event. It is long because it only elapses in failing tests.
const EventTimeout = 20 * time.Second

// Gateway is a running gateway.
type Gateway struct {
	URL    string // http://127.0.0.1:port, or https:// if the configuration has a certificate
	Addr   string
	TLS    *tls.Config // client configuration that trusts the certificate; nil for plain HTTP
	Server *proxy.Server
	Log    *Log

	served   chan error
	stopOnce sync.Once
}

// Start serves a configuration, given as the text of gateway.toml, until the test ends. Its listen address is ignored.
func Start(tb testing.TB, toml string) *Gateway {
	tb.Helper()
	return StartWith(tb, toml, func(*proxy.Options) {})
}

// StartWith is like Start, with options modified by change.
func StartWith(tb testing.TB, toml string, change func(*proxy.Options)) *Gateway {
	tb.Helper()
	cfg := Parse(tb, toml)
	var err error
	g := &Gateway{Log: &Log{}, served: make(chan error, 1)}
	log := slog.New(g.Log)
	switch tb.(type) {
	case *testing.B, *testing.F:
		// Recording the log would distort benchmarks, and fill the memory while fuzzing.
		log = slog.New(slog.DiscardHandler)
	}
	options := proxy.Options{Config: cfg, Bundled: Bundled(tb), Log: log, CacheDir: CacheDir()}
	change(&options)
	if options.CacheDir == CacheDir() && cfg.Server.CacheDir == "" {
		if options.Compiled, err = compiled(); err != nil {
			tb.Fatal(err)
		}
	}
	g.Server, err = proxy.New(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g.Addr = ln.Addr().String()
	g.URL = "http://" + g.Addr
	if files := cfg.Server.TLS; files != nil {
		g.URL, g.TLS = "https://"+g.Addr, trust(tb, files.CertFile)
	}
	go func() { g.served <- g.Server.Serve(ln) }()
	tb.Cleanup(func() {
		if err := g.Stop(EventTimeout); err != nil {
			tb.Errorf("shut down the gateway: %v", err)
		}
	})
	return g
}

// compiled returns the compiled plugins that all gateways of this process share, because reading 20 MB of machine code
// takes longer than most tests.
var compiled = sync.OnceValues(func() (*proxy.CompiledPlugins, error) { return proxy.NewCompiledPlugins(CacheDir()) })

// trust returns a client configuration that trusts the self-signed certificate in a file.
func trust(tb testing.TB, file string) *tls.Config {
	tb.Helper()
	cert, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		tb.Fatalf("%s contains no certificate", file)
	}
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// Parse parses a configuration as Start does.
func Parse(tb testing.TB, toml string) *config.Config {
	tb.Helper()
	cfg, err := config.Parse("gateway.toml", []byte(toml), config.Options{Bundled: plugins.Names()})
	if err != nil {
		tb.Fatal(err)
	}
	return cfg
}

// Reload replaces the configuration.
func (g *Gateway) Reload(tb testing.TB, toml string) error {
	tb.Helper()
	return g.Server.Reload(tb.Context(), Parse(tb, toml))
}

// Stop shuts the gateway down and returns the errors of Shutdown and Serve. Further calls do nothing.
func (g *Gateway) Stop(timeout time.Duration) (err error) {
	g.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		err = errors.Join(g.Server.Shutdown(ctx), <-g.served)
	})
	return err
}

// Log records the gateway's log.
type Log struct {
	mu    sync.Mutex
	lines []Line
	more  chan struct{} // closed on the next line
}

// Line has the attributes of a log line, and its "level" and "msg".
type Line map[string]string

// Enabled implements slog.Handler.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler. The gateway uses neither attributes nor groups of a logger.
func (l *Log) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	line := Line{"level": r.Level.String(), "msg": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return nil
}

// Lines returns all lines so far.
func (l *Log) Lines() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Line(nil), l.lines...)
}

// String returns the whole log.
func (l *Log) String() string {
	var b strings.Builder
	for _, line := range l.Lines() {
		for name, value := range line {
			b.WriteString(name + "=" + value + " ")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Await waits for the first line with the attributes, given as name, value, ….
func (l *Log) Await(tb testing.TB, attrs ...string) Line {
	tb.Helper()
	t := time.NewTimer(EventTimeout)
	defer t.Stop()
	for from := 0; ; {
		l.mu.Lock()
		for ; from < len(l.lines); from++ {
			if l.lines[from].has(attrs) {
				defer l.mu.Unlock()
				return l.lines[from]
			}
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-t.C:
			tb.Fatalf("no log line with %v:\n%s", attrs, l)
		}
	}
}

// Request waits for the access log line of a request.
func (l *Log) Request(tb testing.TB, id string) Line {
	tb.Helper()
	return l.Await(tb, "msg", "request", "request", id)
}

func (line Line) has(attrs []string) bool {
	for i := 0; i+1 < len(attrs); i += 2 {
		if v, ok := line[attrs[i]]; !ok || v != attrs[i+1] {
			return false
		}
	}
	return true
}
