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

// models are the ids that the gateway answers for each dialect.
var models = map[string]string{"openai": "gpt-4o-mini", "anthropic": "claude-haiku-4-5"}

// The subjects of the comparison.
const (
	direct = "direct" // the provider itself
	bared  = "bare"
	nginx  = "nginx"
	sluice = "sluice"
)

// stage holds the processes of the comparison. Those that serve for all cases are started when a case first needs them.
type stage struct {
	*options
	ctx      context.Context
	progress io.Writer
	dir      string // for configurations, and what the gateway compiles
	files    int    // the limit of open files
	nginxBin string // "" where there is none
	report   report.Report

	load      *process.Process
	providers map[string]*process.Process // by dialect
	subjects  map[string]*subject         // by name and dialect
	own       []*process.Process          // to be stopped at the end
}

// subject is what a case is measured on.
type subject struct {
	name    string
	dialect string // of its provider
	addr    string
	process *process.Process // what is accounted
	answers string           // dialect of its answers
}

func newStage(ctx context.Context, o *options, progress io.Writer) (*stage, error) {
	s := &stage{options: o, ctx: ctx, progress: progress, providers: map[string]*process.Process{}, subjects: map[string]*subject{}}
	var err error
	if s.files, err = process.Descriptors(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.sluice); err != nil {
		return nil, fmt.Errorf("the gateway's binary: %w; make build builds it", err)
	}
	s.nginxBin, _ = exec.LookPath("nginx")
	if s.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, err
	}
	s.report = report.Report{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Version: version, Rounds: o.rounds, Slice: o.slice.String()}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// begin starts the processes that every case needs.
func (s *stage) begin() error {
	var err error
	if s.load, err = s.role("load"); err != nil {
		return err
	}
	for d := range models {
		if s.providers[d], err = s.role("provider", d); err != nil {
			return err
		}
	}
	return os.WriteFile(s.configuration(), []byte(s.toml()), 0o600)
}

// role starts a role that lives as long as the stage.
func (s *stage) role(name string, args ...string) (*process.Process, error) {
	p, err := process.Role(s.ctx, name, args...)
	if err != nil {
		return nil, err
	}
	s.own = append(s.own, p)
	return p, nil
}

// close ends all processes.
func (s *stage) close() (err error) {
	for _, p := range s.own {
		err = errors.Join(err, p.Stop())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// say tells a person what is going on.
func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.progress, format+"\n", args...) }

// play measures a case.
func (s *stage) play(c aCase, n, of int) error {
	s.say("%d/%d %s", n, of, c.name)
	rows, err := c.measure(s)
	s.report.Rows = append(s.report.Rows, rows...)
	return err
}

// pause waits.
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

func (s *stage) configuration() string { return filepath.Join(s.dir, "bench.toml") }

// toml is the gateway's configuration: the two dialects, the router, a key, and every default but those that end a stream
// which is silent for a minute.
func (s *stage) toml() string {
	cache := s.cache
	if cache == "" {
		cache = filepath.Join(s.dir, "cache")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[server]\ncache_dir = %q\n\n[[keys]]\nname = \"bench\"\nsecret = %q\nmodels = [\"*\"]\n\n[router]\nplugin = \"router\"\n", cache, provider.Credential)
	for _, d := range []string{"openai", "anthropic"} {
		base := "http://" + s.providers[d].Addr
		if d == "openai" {
			base += "/v1"
		}
		fmt.Fprintf(&b, "\n[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = %q }\ntimeout = { idle = \"30m\", total = \"1h\" }\n\n[[models]]\nid = %q\ntargets = [{ provider = %q }]\n", d, d, base, provider.Credential, models[d], d)
	}
	return b.String()
}

// names are the subjects that a case can be measured on.
func (s *stage) names() []string {
	if s.nginxBin == "" {
		return []string{bared, sluice}
	}
	return []string{bared, nginx, sluice}
}

// subject is one that lives as long as the stage.
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
	if name == sluice {
		// One gateway speaks both dialects.
		for d := range models {
			other := *sub
			other.dialect = d
			s.subjects[name+d] = &other
		}
	}
	return s.subjects[name+dialect], nil
}

// start starts a subject anew.
func (s *stage) start(name, dialect string) (*subject, error) {
	sub := &subject{name: name, dialect: dialect, answers: dialect}
	var err error
	switch name {
	case direct:
		sub.process = s.providers[dialect]
	case bared:
		sub.process, err = process.Role(s.ctx, "bare", s.providers[dialect].Addr)
	case nginx:
		sub.process, err = s.startNginx(dialect)
	case sluice:
		sub.answers = "openai"
		sub.process, err = s.startSluice()
	}
	if err != nil {
		return nil, err
	}
	sub.addr = sub.process.Addr
	return sub, nil
}

// startSluice starts the gateway: the binary, or from within this program where it is to be profiled.
func (s *stage) startSluice() (*process.Process, error) {
	if s.cpuProfile != "" || s.memProfile != "" {
		return process.Role(s.ctx, "sluice", s.configuration(), s.cpuProfile, s.memProfile)
	}
	p, _, err := s.serve(nil, "--config", s.configuration())
	return p, err
}

var listeningAt = regexp.MustCompile(`msg=listening address=(\S+)`)

// serve starts the binary and waits until it says where it listens. took is how long that was from the start of the
// process.
func (s *stage) serve(env []string, args ...string) (p *process.Process, took time.Duration, err error) {
	addr := make(chan string, 1)
	began := time.Now()
	p, err = process.Command(s.ctx, "sluice", env, func(line string) bool {
		m := listeningAt.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		addr <- m[1]
		return true
	}, s.sluice, append([]string{"serve", "--quiet", "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, 0, err
	}
	select {
	case p.Addr = <-addr:
		return p, time.Since(began), nil
	case <-p.Ended():
		return nil, 0, fmt.Errorf("sluice did not start: %s", p.Said())
	}
}

// startNginx starts nginx as one process, with the settings that a gateway for streams needs.
func (s *stage) startNginx(dialect string) (*process.Process, error) {
	addr, err := free()
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
			return nil, fmt.Errorf("nginx did not start: %s", p.Said())
		}
	}
}

// free is an address that nobody listens at.
func free() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// ask gives the load an order.
func (s *stage) ask(do string) (c load.Count, err error) {
	err = s.load.Call(order{Do: do}, &c)
	return c, err
}

// begun starts a job on a subject: the scenario is in force, and requests are on their way.
func (s *stage) begun(sub *subject, sc provider.Scenario, job load.Job) error {
	if err := s.providers[sub.dialect].Call(order{Do: orderPlay, Scenario: sc}, nil); err != nil {
		return err
	}
	job.Addr, job.Dialect, job.Model = sub.addr, sub.answers, models[sub.dialect]
	job.Stream, job.Hold, job.Events = sc.Stream, sc.Hold, sc.Events
	return s.load.Call(order{Do: orderStart, Job: job}, nil)
}

// open waits until so many streams are open.
func (s *stage) open(n int) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		c, err := s.ask(orderCount)
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

// ended ends the job and says what it did. Anything that was wrong with an answer is an error.
func (s *stage) ended(sub *subject) (load.Count, error) {
	if _, err := s.ask(orderFinish); err != nil {
		return load.Count{}, err
	}
	var p counted
	if err := s.providers[sub.dialect].Call(order{Do: orderEnd}, &p); err != nil {
		return load.Count{}, err
	}
	c, err := s.ask(orderWait)
	switch {
	case err != nil:
	case c.Failed > 0:
		err = fmt.Errorf("%s %s: %d answers failed: %s%s", sub.name, sub.dialect, c.Failed, c.Failure, sub.process.Said())
	case p.Refused > 0:
		err = fmt.Errorf("%s %s: the provider was sent %d requests that it does not take", sub.name, sub.dialect, p.Refused)
	}
	return c, err
}
