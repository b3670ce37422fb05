// Package redistest starts Redis servers for tests: redis-server of the PATH, on free ports of the loopback address.
//
// Concurrency: a Server belongs to its test.
package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout is how long a server may take to accept connections, on a loaded machine.
const startTimeout = time.Minute

// Options are how a server is started. The zero value has neither persistence nor passwords.
type Options struct {
	Args    []string // of redis-server, besides those of the package
	Config  string   // a file, whose persistence and users count; "": there is none
	Cluster bool
	TLS     *TLS // nil: plain TCP

	// Sentinel makes it a sentinel: "NAME HOST PORT QUORUM" of what it monitors.
	Sentinel string
}

// TLS are the PEM files of a server.
type TLS struct{ Cert, Key, CA string }

// Server is a redis-server.
type Server struct {
	Addr string // host:port
	Dir  string // its working directory, which outlives a Kill

	tb      testing.TB
	options Options
	process *exec.Cmd
	output  *output
	exited  chan struct{}
}

// Need skips the test with -short, and where there is no redis-server, or fails it if REDIS is "required".
func Need(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs redis-server")
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	if os.Getenv("REDIS") == "required" {
		tb.Fatal("REDIS is required, and there is no redis-server on the PATH")
	}
	tb.Skip("there is no redis-server on the PATH")
}

// Start starts a server, which ends with the test.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	Need(tb)
	s := &Server{tb: tb, options: o, Dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	for range 20 { // another process may take the port first
		s.Addr = freeAddr(tb)
		if s.start() {
			return s
		}
	}
	tb.Fatalf("redis-server does not start:\n%s", s.output)
	return nil
}

// URL returns the URL of the server for [store].
func (s *Server) URL() string {
	if s.options.TLS != nil {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Restart starts a server that was killed, at the same address and in the same directory.
func (s *Server) Restart() {
	s.tb.Helper()
	if !s.start() {
		s.tb.Fatalf("redis-server does not start again:\n%s", s.output)
	}
}

// Kill ends the server at once, and waits for its end.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.exited
	s.process = nil
}

// Pid returns the ID of the process.
func (s *Server) Pid() int { return s.process.Process.Pid }

// Do sends a command by a connection of its own, and returns the lines of its reply without their types: of an array all elements.
func (s *Server) Do(args ...string) []string {
	s.tb.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, startTimeout)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(startTimeout))
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := conn.Write(b.Bytes()); err != nil {
		s.tb.Fatal(err)
	}
	lines, err := readReply(bufio.NewReader(conn))
	if err != nil {
		s.tb.Fatalf("%s: %v", args, err)
	}
	return lines
}

func readReply(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	kind, text := line[0], line[1:]
	n, _ := strconv.Atoi(text)
	switch {
	case kind == '-':
		return nil, fmt.Errorf("redis: %s", text)
	case kind == '$' && n >= 0:
		data := make([]byte, n+2)
		for read := 0; read < len(data); {
			m, err := r.Read(data[read:])
			if err != nil {
				return nil, err
			}
			read += m
		}
		return []string{string(data[:n])}, nil
	case kind == '$':
		return []string{""}, nil
	case kind == '*':
		var all []string
		for range n {
			lines, err := readReply(r)
			if err != nil {
				return nil, err
			}
			all = append(all, lines...)
		}
		return all, nil
	}
	return []string{text}, nil
}

// start starts the process, and waits until it accepts connections. It returns false if it ends instead.
func (s *Server) start() bool {
	s.tb.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	args := []string{"--bind", "127.0.0.1", "--dir", s.Dir, "--daemonize", "no", "--logfile", "", "--loglevel", "notice"}
	if s.options.Config != "" {
		args = append([]string{s.options.Config}, args...)
	} else {
		args = append(args, "--save", "", "--appendonly", "no")
	}
	if t := s.options.TLS; t != nil {
		args = append(args, "--port", "0", "--tls-port", port, "--tls-cert-file", t.Cert, "--tls-key-file", t.Key, "--tls-ca-cert-file", t.CA, "--tls-auth-clients", "no")
	} else {
		args = append(args, "--port", port)
	}
	if s.options.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(s.Dir, "nodes.conf"), "--cluster-node-timeout", "5000")
	}
	if m := s.options.Sentinel; m != "" {
		file := filepath.Join(s.Dir, "sentinel.conf")
		name, _, _ := strings.Cut(m, " ")
		lines := []string{
			"port " + port, "bind 127.0.0.1", "dir " + s.Dir, "sentinel monitor " + m,
			"sentinel down-after-milliseconds " + name + " 500", "sentinel failover-timeout " + name + " 1000",
		}
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			s.tb.Fatal(err)
		}
		args = []string{file, "--sentinel"}
	}
	s.output = &output{ready: make(chan struct{})}
	s.process = exec.Command("redis-server", append(args, s.options.Args...)...)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.exited = make(chan struct{})
	go func(p *exec.Cmd, exited chan struct{}) {
		_ = p.Wait()
		close(exited)
	}(s.process, s.exited)
	select {
	case <-s.output.ready:
		return true
	case <-s.exited:
		s.process = nil
		return false
	case <-time.After(startTimeout):
		s.tb.Fatalf("redis-server does not accept connections:\n%s", s.output)
	}
	return false
}

// freeAddr returns an address that nobody listens on.
func freeAddr(tb testing.TB) string {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr)
		_ = l.Close()
		if addr.Port+10000 <= 65535 { // a node of a Cluster needs that one as well
			return addr.String()
		}
	}
}

// output is what a server writes.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ready chan struct{} // closed once it accepts connections
	is    bool
}

// Write takes what the server writes.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if text := o.text.Bytes(); !o.is && (bytes.Contains(text, []byte("Ready to accept connections")) || bytes.Contains(text, []byte("Sentinel ID is"))) {
		o.is = true
		close(o.ready)
	}
	return len(p), nil
}

// String returns all of it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
