package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/cmd/bench/process"
	"github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/cmd/bench/report"
)

// models are the model ids by dialect.
var models = map[string]string{"openai": "gpt-4o-mini", "anthropic": "claude-haiku-4-5"}

// The subjects.
const (
	direct    = "direct" // the provider itself
	bareProxy = "bare"
	nginx     = "nginx"
	base      = "base"  // the gateway of another version
	plain     = "plain" // the gateway, with requests that need no capability
	sluice    = "sluice"
)

// stage holds the processes of the benchmark. Subjects shared by several cases are started when first needed.
type stage struct {
	*options
	ctx      context.Context
	progress io.Writer
	dir      string // temporary directory for configurations and compiled plugins
	files    int    // limit of open files
	nginxBin string // "" if nginx is not installed
	report   report.Report

	load      *process.Process
	providers map[string]*process.Process // by dialect
	subjects  map[string]*subject         // by name and dialect
	own       []*process.Process          // stopped by close
}

// subject is a server that a case measures.
type subject struct {
	name      string
	dialect   string // dialect of its provider
	addr      string
	process   *process.Process // the measured process
	responses string           // dialect of its responses
}

func newStage(ctx context.Context, o *options, progress io.Writer) (*stage, error) {
	s := &stage{options: o, ctx: ctx, progress: progress, providers: map[string]*process.Process{}, subjects: map[string]*subject{}}
	var err error
	if s.files, err = process.Descriptors(); err != nil {
		return nil, err
	}
	for _, binary := range []string{o.sluice, o.base} {
		if _, err := os.Stat(binary); err != nil && binary != "" {
			return nil, fmt.Errorf("gateway binary: %w; run make build", err)
		}
	}
	s.nginxBin, _ = exec.LookPath("nginx")
	if s.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, err
	}
	s.report = report.Report{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Version: version, Rounds: o.rounds, Slice: o.slice.String()}
	if err := s.startRoles(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// startRoles starts the processes that every case needs.
func (s *stage) startRoles() error {
	var err error
	if s.load, err = s.role("load"); err != nil {
		return err
	}
	for d := range models {
		if s.providers[d], err = s.role("provider", d); err != nil {
			return err
		}
	}
	return nil
}

// role starts a role that runs until the stage is closed.
func (s *stage) role(name string, args ...string) (*process.Process, error) {
	p, err := process.Role(s.ctx, name, args...)
	if err != nil {
		return nil, err
	}
	s.own = append(s.own, p)
	return p, nil
}

// close stops all processes.
func (s *stage) close() (err error) {
	for _, p := range s.own {
		err = errors.Join(err, p.Stop())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// logf reports progress.
func (s *stage) logf(format string, args ...any) { fmt.Fprintf(s.progress, format+"\n", args...) }

// runCase runs the n-th of all cases.
func (s *stage) runCase(c benchCase, n, total int) error {
	s.logf("%d/%d %s", n, total, c.name)
	rows, err := c.measure(s)
	s.report.Rows = append(s.report.Rows, rows...)
	return err
}

// pause waits for a duration, or until the context is done.
func (s *stage) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// configure writes the configuration of a gateway, and returns its file: two providers, the router, keys, and the models
// of all capabilities, with defaults except for the timeouts that would end a silent stream. Each process has a journal
// of its own.
func (s *stage) configure(name string) (file string, err error) {
	dir, err := os.MkdirTemp(s.dir, name+"-")
	if err != nil {
		return "", err
	}
	cache := s.cache
	if cache == "" {
		cache = filepath.Join(s.dir, name+"-cache")
	}
	file = filepath.Join(dir, "bench.toml")
	return file, os.WriteFile(file, []byte(s.toml(name, cache, filepath.Join(dir, "state"))), 0o600)
}

func (s *stage) toml(name, cache, journal string) string {
	var b strings.Builder
	own := adminOff
	if c := findGateway(name); c != nil {
		if own = c.gateway; strings.Contains(own, "%[1]q") {
			own = fmt.Sprintf(own, "http://"+s.providers["openai"].Addr+"/collector")
		}
	}
	fmt.Fprintf(&b, "[server]\ncache_dir = %q\n\n[store]\njournal = %q\n\n%s\n[router]\nplugin = \"router\"\n", cache, journal, own)
	fmt.Fprintf(&b, "\n[[keys]]\nname = \"bench\"\nsecret = %q\nmodels = [\"*\"]\n", provider.Credential)
	for _, d := range []string{"openai", "anthropic"} {
		base := "http://" + s.providers[d].Addr
		if d == "openai" {
			base += "/v1"
		}
		fmt.Fprintf(&b, "\n[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = %q }\ntimeout = { idle = \"30m\", total = \"1h\" }\n\n[[models]]\nid = %q\ntargets = [{ provider = %q }]\n", d, d, base, provider.Credential, models[d], d)
		for i := range capabilities {
			b.WriteString(capabilities[i].toml(d))
		}
	}
	for i := range capabilities {
		if c := &capabilities[i]; c.key != "" {
			fmt.Fprintf(&b, "\n[[keys]]\nname = %q\nsecret = %q\nmodels = [\"*\"]\n%s", c.slug(), c.credential(), c.key)
		}
	}
	return b.String()
}

// names returns the subjects of most cases.
func (s *stage) names() []string {
	names := []string{bareProxy, sluice}
	if s.nginxBin != "" {
		names = append(names, nginx)
	}
	if s.base != "" {
		names = append(names, base)
	}
	return names
}

// subject returns a subject that runs until the stage is closed, and starts it if needed.
func (s *stage) subject(name, dialect string) (*subject, error) {
	if sub := s.subjects[name+dialect]; sub != nil {
		return sub, nil
	}
	sub, err := s.start(name, dialect)
	if err != nil {
		return nil, err
	}
	s.own = append(s.own, sub.process)
	s.subjects[name+dialect] = sub
	if name == sluice || name == base || findGateway(name) != nil {
		// One gateway serves both dialects.
		for d := range models {
			other := *sub
			other.dialect = d
			s.subjects[name+d] = &other
		}
	}
	return s.subjects[name+dialect], nil
}

// start starts a new subject.
func (s *stage) start(name, dialect string) (*subject, error) {
	sub := &subject{name: name, dialect: dialect, responses: dialect}
	var err error
	switch name {
	case direct:
		sub.process = s.providers[dialect]
	case bareProxy:
		sub.process, err = process.Role(s.ctx, "bare", s.providers[dialect].Addr)
	case nginx:
		sub.process, err = s.startNginx(dialect)
	default:
		sub.responses = "openai"
		sub.process, err = s.startSluice(name)
	}
	if err != nil {
		return nil, err
	}
	sub.addr = sub.process.Addr
	return sub, nil
}

// startSluice starts the gateway: a binary, or this program in a role if it is to be profiled.
func (s *stage) startSluice(name string) (*process.Process, error) {
	file, err := s.configure(name)
	if err != nil {
		return nil, err
	}
	binary := s.sluice
	switch {
	case name == base:
		binary = s.base
	case s.cpuProfile != "" || s.memProfile != "":
		return process.Role(s.ctx, "sluice", file, s.cpuProfile, s.memProfile)
	}
	p, _, err := s.serve(binary, nil, "--config", file)
	return p, err
}

var listeningAt = regexp.MustCompile(`msg=listening address=(\S+)`)

// serve starts the binary and waits until it logs its address. took is the time since the start of the process.
func (s *stage) serve(binary string, env []string, args ...string) (p *process.Process, took time.Duration, err error) {
	addr := make(chan string, 1)
	began := time.Now()
	p, err = process.Command(s.ctx, "sluice", env, func(line string) bool {
		m := listeningAt.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		addr <- m[1]
		return true
	}, binary, append([]string{"serve", "--quiet", "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, 0, err
	}
	select {
	case p.Addr = <-addr:
		return p, time.Since(began), nil
	case <-p.Ended():
		return nil, 0, fmt.Errorf("sluice did not start: %s", p.Stderr())
	}
}

// startNginx starts nginx as one process, configured for streams.
func (s *stage) startNginx(dialect string) (*process.Process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	conf := fmt.Sprintf(`daemon off;
master_process off;
worker_rlimit_nofile %d;
error_log stderr error;
pid %s/pid;
events { worker_connections %d; }
http {
  access_log off;
  client_body_temp_path %[2]s/body;
  proxy_temp_path %[2]s/proxy;
  fastcgi_temp_path %[2]s/fastcgi;
  uwsgi_temp_path %[2]s/uwsgi;
  scgi_temp_path %[2]s/scgi;
  client_max_body_size 8m;
  client_body_buffer_size 256k;
  keepalive_requests 1000000000;
  upstream provider { server %[4]s; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen %[5]s backlog=4096;
    location / {
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 15m;
    }
  }
}
`, s.files, dir, s.files-64, s.providers[dialect].Addr, addr)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	p, err := process.Command(s.ctx, "nginx", nil, nil, s.nginxBin, "-p", dir, "-e", "stderr", "-c", file)
	if err != nil {
		return nil, err
	}
	p.Addr = addr
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			return p, c.Close()
		}
		select {
		case <-t.C:
		case <-p.Ended():
			return nil, fmt.Errorf("nginx did not start: %s", p.Stderr())
		}
	}
}

// freeAddress returns an unused address.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// loadOrder sends an order to the load generator.
func (s *stage) loadOrder(do string) (c load.Count, err error) {
	err = s.load.Call(order{Do: do}, &c)
	return c, err
}

// startJob starts a scenario and a job on a subject.
func (s *stage) startJob(sub *subject, sc provider.Scenario, job load.Job) error {
	if err := s.providers[sub.dialect].Call(order{Do: orderPlay, Scenario: sc}, nil); err != nil {
		return err
	}
	job.Addr, job.Dialect = sub.addr, sub.responses
	if job.Model == "" {
		job.Model, job.Credential = models[sub.dialect], provider.Credential
	}
	job.Stream, job.Hold, job.Events = sc.Stream, sc.Hold, sc.Events
	return s.load.Call(order{Do: orderStart, Job: job}, nil)
}

// awaitOpen waits until n streams are open.
func (s *stage) awaitOpen(n int) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		c, err := s.loadOrder(orderCount)
		if err != nil {
			return err
		}
		if c.Failed > 0 {
			return errors.New(c.Failure)
		}
		if c.Open >= int64(n) {
			return nil
		}
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// finishJob ends the job and returns its counts. Any invalid response or request is an error.
func (s *stage) finishJob(sub *subject) (load.Count, error) {
	if _, err := s.loadOrder(orderFinish); err != nil {
		return load.Count{}, err
	}
	var p providerCount
	if err := s.providers[sub.dialect].Call(order{Do: orderEnd}, &p); err != nil {
		return load.Count{}, err
	}
	c, err := s.loadOrder(orderWait)
	switch {
	case err != nil:
	case c.Failed > 0:
		err = fmt.Errorf("%s %s: %d responses failed: %s%s", sub.name, sub.dialect, c.Failed, c.Failure, sub.process.Stderr())
	case p.Rejected > 0:
		err = fmt.Errorf("%s %s: the provider received %d invalid requests", sub.name, sub.dialect, p.Rejected)
	}
	return c, err
}
