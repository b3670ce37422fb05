// Package redistest starts Redis servers for tests, with redis-server from the PATH, on free ports of the loopback
// address.
//
// Concurrency: a Server must be used from one goroutine.
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

// Options are the options of a server. The zero value has neither persistence nor passwords.
type Options struct {
	Args    []string // more arguments of redis-server
	Config  string   // configuration file, for persistence and users; "" means none
	Cluster bool     // enable Cluster mode
	TLS     *TLS     // nil means plain TCP

	// Sentinel, if not "", starts a Sentinel. It is "NAME HOST PORT QUORUM" of the server to monitor.
	Sentinel string
}

// TLS has the names of a server's PEM files.
type TLS struct{ Cert, Key, CA string }

// Server is a redis-server.
type Server struct {
	Addr string // host:port
	Dir  string // working directory, which is kept after Kill

	tb      testing.TB
	options Options
	process *exec.Cmd
	output  *output
	exited  chan struct{}
}

// Need skips the test with -short, or if there is no redis-server. If the environment variable REDIS is "required", a
// missing redis-server fails the test.
func Need(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs redis-server")
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	if os.Getenv("REDIS") == "required" {
		tb.Fatal("REDIS=required, but redis-server is not on the PATH")
	}
	tb.Skip("redis-server is not on the PATH")
}

// Start starts a server, which is killed at the end of the test.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	Need(tb)
	s := &Server{tb: tb, options: o, Dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	for range 20 { // retry, because another process may take the port first
		s.Addr = freeAddr(tb)
		if s.start() {
			return s
		}
	}
	tb.Fatalf("redis-server did not start:\n%s", s.output)
	return nil
}

// URL returns the URL of the server for [store].
func (s *Server) URL() string {
	if s.options.TLS != nil {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Restart starts a killed server again, with the same address and directory.
func (s *Server) Restart() {
	s.tb.Helper()
	if !s.start() {
		s.tb.Fatalf("redis-server did not start again:\n%s", s.output)
	}
}

// Kill kills the server and waits until the process has ended.
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

// Do sends a command on a new connection and returns the values of its reply. Arrays are flattened.
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
		s.tb.Fatalf("command %s: %v", args, err)
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
	n, _ := strconv.Atoi(text) // length of a string or array
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

// start starts the process and waits until it accepts connections. It returns false if the process ends instead.
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
		s.tb.Fatalf("redis-server did not accept connections within %v:\n%s", startTimeout, s.output)
	}
	return false
}

// freeAddr returns an unused address.
func freeAddr(tb testing.TB) string {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr)
		_ = l.Close()
		if addr.Port+10000 <= 65535 { // the cluster bus port of a Cluster node
			return addr.String()
		}
	}
}

// output records the output of a server.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	ready   chan struct{} // closed when the server accepts connections
	isReady bool          // ready is closed
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if text := o.text.Bytes(); !o.isReady && (bytes.Contains(text, []byte("Ready to accept connections")) || bytes.Contains(text, []byte("Sentinel ID is"))) {
		o.isReady = true
		close(o.ready)
	}
	return len(p), nil
}

// String returns all output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
