package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// logPatience is how long the end of the process waits for a log output that blocks.
const logPatience = 2 * time.Second

// serving is what serve does besides what the configuration says.
type serving struct {
	*options
	listen    string
	quiet     bool
	pluginLog bool
	watch     bool
}

func serveCommand(o *options) *cobra.Command {
	s := &serving{options: o}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the gateway",
		Long: "Serve the gateway that the configuration describes, until SIGINT or SIGTERM.\n\n" +
			"A change of the configuration, or of a plugin or certificate that it names, is put in place while the gateway\n" +
			"serves, and so is what SIGHUP finds; requests in flight end as they began. What `sluice check` would refuse\n" +
			"leaves everything as it was, and the log says why.\n\n" +
			"At the end the gateway is not ready any more, serves on for the configuration's drain_delay, and gives requests\n" +
			"in flight its shutdown_timeout to finish. A second signal cuts them off at once, and the exit code is 1.",
		Example: "  sluice serve\n  sluice serve --config /etc/sluice/gateway.toml --listen 127.0.0.1:9000",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.listen != "" {
				if err := config.CheckListen(s.listen); err != nil {
					return usage(c, "--listen %q: %w", s.listen, err)
				}
			}
			return s.run(c.ErrOrStderr())
		},
	}
	c.Flags().StringVarP(&s.listen, "listen", "l", "", "`address` to listen on, in place of the configuration's")
	c.Flags().BoolVarP(&s.quiet, "quiet", "q", false, "print nothing but the log")
	c.Flags().BoolVar(&s.pluginLog, "plugin-log", false, "let plugins write to the log, each line at the level that it says")
	c.Flags().BoolVar(&s.watch, "watch", true, "put changes of files in place; =false for SIGHUP only")
	return c
}

func (s *serving) run(stderr io.Writer) error {
	// From the first moment on SIGHUP must not end the process: systemd may send it while plugins are compiled.
	hangup := newHangup()
	files, blind := s.watchFiles()
	defer files.Close()
	files.Add(s.config)
	cfg, err := s.load(s.listen)
	if err != nil {
		return err
	}
	files.Add(cfg.Files()...)

	// The port first: whoever starts a second gateway should know before anything is compiled.
	ln, err := listen(cfg.Server.Listen)
	if err != nil {
		return err
	}
	adminListener, adminTaken, err := listenAdmin(cfg.Admin)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	// A log that nobody reads any more is no reason to stop serving.
	signal.Ignore(syscall.SIGPIPE)
	out := proxy.NewLogWriter(stderr)
	level := new(slog.LevelVar)
	log := newLogger(out, level, cfg.Server)
	defer func() { endLog(out, stderr, level, cfg.Server) }()
	logWarnings(log, cfg)
	if bytes, set := proxy.LimitMemory(); set {
		log.Info("memory limit set to nine tenths of the control group's", "bytes", bytes)
	}
	person := io.Writer(out)
	if s.quiet {
		person = io.Discard
	}
	began := time.Now()
	o := s.proxy(cfg, person, log)
	o.PluginLog, o.LogDropped, o.Version = s.pluginLog, out.Dropped, versionText()
	gateway, err := proxy.New(context.Background(), o)
	if err != nil {
		if adminListener != nil {
			err = errors.Join(err, adminListener.Close())
		}
		return errors.Join(err, ln.Close())
	}
	// Until here a signal ends the process: there is nothing to finish.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	banner(person, cfg, ln.Addr(), time.Since(began))
	log.Info("listening", "address", ln.Addr().String(), "ready_after", time.Since(began))
	serveAdmin(gateway, adminListener, adminTaken, person, log)

	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ln) }()
	out.Flush() // whoever has started the gateway waits for that line
	r := &reloader{serving: s, gateway: gateway, files: files, blind: blind, level: level, log: log, now: make(chan struct{}, 1)}
	r.current.Store(cfg)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go r.run(ctx)
	for {
		select {
		case err := <-served:
			gateway.Close()
			return err
		case <-hangup.signals:
			if !hangup.terminalGone() {
				r.reloadNow()
				continue
			}
			signals <- syscall.SIGHUP
		case sig := <-signals:
			stop()
			return r.shutdown(sig, signals)
		}
	}
}

func logWarnings(log *slog.Logger, cfg *config.Config) {
	for _, w := range warnings(cfg) {
		log.Warn("configuration", "text", w.Error())
	}
}

// endLog writes what is left of the log, and how many lines of it nobody will read. An output that blocks costs some
// seconds.
func endLog(out *proxy.LogWriter, stderr io.Writer, level *slog.LevelVar, server config.Server) {
	written := out.Close(logPatience)
	if n := out.Dropped(); n > 0 && written {
		last := proxy.NewLogWriter(stderr)
		newLogger(last, level, server).Warn("lines of the log were lost, its output was blocked or failed", "lines", n)
		last.Close(logPatience)
	}
}

func listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use, perhaps by another sluice: stop that one, or choose another address with --listen", address)
	}
	return ln, err
}

// listenAdmin takes the address of health, metrics and status; there is no listener where there is none to take, and
// where another gateway on the machine has the default address: nobody has asked for that one.
func listenAdmin(cfg config.Admin) (ln net.Listener, taken bool, err error) {
	if cfg.Listen == "" {
		return nil, false, nil
	}
	ln, err = net.Listen("tcp", cfg.Listen)
	switch {
	case err == nil:
		return ln, false, nil
	case errors.Is(err, syscall.EADDRINUSE) && cfg.Default:
		return nil, true, nil
	}
	return nil, false, fmt.Errorf("[admin]: %w", err)
}

// serveAdmin serves health, metrics and status, where there is a listener for them, until the gateway is closed.
func serveAdmin(gateway *proxy.Server, ln net.Listener, taken bool, person io.Writer, log *slog.Logger) {
	if taken {
		log.Warn("no health, metrics and status: their default address is in use; choose another one in [admin]")
	}
	if ln == nil {
		return
	}
	fmt.Fprintf(person, "Health, metrics and status: http://%s/\n\n", reachable(ln.Addr()))
	log.Info("health, metrics and status", "address", ln.Addr().String())
	go func() {
		if err := gateway.ServeAdmin(ln); err != nil {
			log.Error("health, metrics and status", "error", err)
		}
	}()
}

func newLogger(out *proxy.LogWriter, level *slog.LevelVar, s config.Server) *slog.Logger {
	setLevel(level, s)
	return proxy.NewLogger(out, s.LogFormat == "json", level)
}

func setLevel(level *slog.LevelVar, s config.Server) {
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level.Set(slog.LevelInfo)
	}
}
