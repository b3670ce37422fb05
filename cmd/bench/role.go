package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/sluice-gateway/sluice/cmd/bench/bare"
	"github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/cmd/bench/process"
	"github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// Orders to the provider and the load generator.
const (
	orderPlay   = "play"
	orderEnd    = "end"
	orderStart  = "start"
	orderCount  = "count"
	orderFinish = "finish"
	orderWait   = "wait"
)

// order is an order to a role.
type order struct {
	Do       string
	Scenario provider.Scenario `json:",omitzero"`
	Job      load.Job          `json:",omitzero"`
}

// providerCount has the provider's counts.
type providerCount struct{ Events, Rejected int64 }

// role runs this process in a role until its standard input ends.
func role(name string, args []string) error {
	if _, err := process.Descriptors(); err != nil {
		return err
	}
	switch {
	case name == "load" && len(args) == 0:
		return process.Serve(os.Stdin, os.Stdout, process.Ready{}, loadHandler())
	case name == "provider" && len(args) == 1:
		s, err := provider.New(args[0])
		if err != nil {
			return err
		}
		return serveRole(s.Serve, func(line []byte) (any, error) {
			var o order
			if err := json.Unmarshal(line, &o); err != nil {
				return nil, err
			}
			switch o.Do {
			case orderPlay:
				s.Play(o.Scenario)
			case orderEnd:
				s.EndStreams()
			case orderCount:
			default:
				return nil, fmt.Errorf("unknown order %q", o.Do)
			}
			return providerCount{s.Events(), s.Rejected()}, nil
		})
	case name == "bare" && len(args) == 1:
		return serveRole(func(ln net.Listener) error { return bare.Serve(ln, args[0]) }, nil)
	case name == "sluice" && len(args) == 3:
		return gateway(args[0], args[1], args[2])
	}
	return fmt.Errorf("unknown role %q with %d arguments", name, len(args))
}

// serveRole runs a server until standard input ends.
func serveRole(serve func(net.Listener) error, handle func([]byte) (any, error)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	err = process.Serve(os.Stdin, os.Stdout, process.Ready{Addr: ln.Addr().String()}, handle)
	return errors.Join(err, ln.Close(), <-served)
}

// loadHandler returns the handler of orders to the load generator.
func loadHandler() func([]byte) (any, error) {
	var run *load.Run
	return func(line []byte) (any, error) {
		var o order
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, err
		}
		if o.Do == orderStart {
			run = load.Start(o.Job)
			return nil, nil
		}
		if run == nil {
			return nil, errors.New("no job is running")
		}
		switch o.Do {
		case orderCount:
		case orderFinish:
			run.Finish()
		case orderWait:
			return run.Wait(), nil
		default:
			return nil, fmt.Errorf("unknown order %q", o.Do)
		}
		return run.Count(), nil
	}
}

// gateway serves a configuration in this process, so that it can be profiled.
func gateway(file, cpu, mem string) error {
	cfg, err := config.Load(file, config.Options{Env: os.LookupEnv, Bundled: plugins.Names()})
	if err != nil {
		return err
	}
	out := proxy.NewLogWriter(os.Stderr)
	defer out.Close(time.Second)
	s, err := proxy.New(context.Background(), proxy.Options{Config: cfg, Bundled: plugins.FS(), Log: proxy.NewLogger(out, false, slog.LevelInfo)})
	if err != nil {
		return err
	}
	if cpu != "" {
		f, err := os.Create(cpu)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	err = process.Serve(os.Stdin, os.Stdout, process.Ready{Addr: ln.Addr().String()}, nil)
	pprof.StopCPUProfile()
	if mem != "" {
		f, createErr := os.Create(mem)
		if createErr != nil {
			return errors.Join(err, createErr)
		}
		runtime.GC()
		err = errors.Join(err, pprof.WriteHeapProfile(f), f.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Requests still in flight belong to a failed case.
	_ = s.Shutdown(ctx)
	return errors.Join(err, <-served)
}
