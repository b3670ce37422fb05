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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
)

// logCloseTimeout is how long exiting waits for a log output that blocks.
const logCloseTimeout = 2 * time.Second

// serveOptions are the flags of serve.
type serveOptions struct {
	*options
	listen    string
	quiet     bool
	pluginLog bool
	trace     bool
	watch     bool
	record    recordOptions
	node      *fleet.Node // nil without [bundle]
	started   bool        // the configuration has been read once
}

func newServeCommand(o *options) *cobra.Command {
	s, record := &serveOptions{options: o}, ""
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the gateway",
		Long: "Serve the configured gateway until SIGINT or SIGTERM.\n\n" +
			"Changes to the configuration, and to the plugins and certificates that it names, are applied without a restart.\n" +
			"SIGHUP, or `sluice reload`, reloads at once. Requests in flight finish with the configuration that they started\n" +
			"with. If `sluice check` would reject a configuration, the previous one stays in use, and the log has the errors.\n\n" +
			"A socket opened by a service manager (socket activation) overrides --listen. If $NOTIFY_SOCKET is set, the service\n" +
			"manager is notified when the gateway is ready, has reloaded, or stops.\n\n" +
			"--dev is for authors of plugins: plugin files need no sha256 and are loaded as soon as they are built. If a file\n" +
			"cannot be loaded, the error is reported and the previous one stays in use. Everything that plugins log is printed,\n" +
			"and each trap with its stack; failures do not open a plugin's circuit. The gateway must listen on this machine only.\n\n" +
			"On shutdown, readiness fails at once, the gateway continues to serve for drain_delay, then requests in flight get\n" +
			"shutdown_timeout to finish. A second signal cuts them off, and the exit code is 1.",
		Example: "  sluice serve\n  sluice serve --config /etc/sluice/gateway.toml --listen 127.0.0.1:9000\n  sluice serve --dev",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.listen != "" {
				if err := config.CheckListen(s.listen); err != nil {
					return newUsageError(c, "--listen %q: %w", s.listen, err)
				}
			}
			if s.trace && !s.dev {
				return newUsageError(c, "--trace is for developing plugins: add --dev")
			}
			if record != "" && !s.record.parse(record) {
				return newUsageError(c, "--record %q: want NAME=DIR", record)
			}
			return s.run(c.ErrOrStderr())
		},
	}
	c.Flags().StringVarP(&s.listen, "listen", "l", "", "listen `address`, host:port; overrides the configuration")
	c.Flags().BoolVarP(&s.quiet, "quiet", "q", false, "print only the log")
	c.Flags().BoolVar(&s.pluginLog, "plugin-log", false, "include log lines of plugins, which may contain request content")
	c.Flags().BoolVar(&s.dev, "dev", false, "load plugins as they are built, and print everything they log; on this machine only")
	c.Flags().BoolVar(&s.trace, "trace", false, "with --dev, print what goes in and out of each call of a plugin")
	c.Flags().BoolVar(&s.watch, "watch", true, "reload when files change; =false reloads on SIGHUP only")
	c.Flags().StringVar(&record, "record", "", "write what a provider, router or filter receives to a directory, as `NAME=DIR`; see sluice plugin record")
	return c
}

func (s *serveOptions) run(stderr io.Writer) (err error) {
	// SIGHUP must not end the process from here on: systemd may send it while plugins are compiled.
	hangup := newHangup()
	files, watchErr := s.watchFiles()
	defer files.Close()
	files.Add(s.config)
	s.opening, s.pull = func(name string) { files.Add(name) }, true
	ln, err := inheritedListener()
	if err != nil {
		return err
	}
	if ln != nil {
		// The configuration is checked against the address that clients connect to.
		s.listen = ln.Addr().String()
	}
	s.bundle = s.openNode
	cfg, err := s.load(s.listen)
	s.started = true
	if s.node != nil {
		defer s.node.Close()
	}
	if err != nil {
		return err
	}
	files.Add(cfg.Files()...)

	// Writing to a log whose reader has exited must not end the process.
	signal.Ignore(syscall.SIGPIPE)
	out := proxy.NewLogWriter(stderr)
	level := new(slog.LevelVar)
	log := newLogger(out, level, cfg.Server)
	defer func() { closeLog(out, stderr, level, cfg.Server) }()
	access, err := openAccessLog(cfg.Server)
	if err != nil {
		return fmt.Errorf("server.access_log: %w", err)
	}
	defer access.close()
	console, progress := io.Writer(out), io.Writer(out)
	if cfg.Server.LogFormat == "json" {
		// Every line of output is JSON, so messages for people are logged instead of printed.
		console, progress = io.Discard, lineLogger{log}
		defer func() { err = logError(log, err) }()
	}
	if s.quiet {
		console, progress = io.Discard, io.Discard
	}

	// Listen before compiling plugins, so that a port in use is reported at once.
	if ln == nil {
		if ln, err = listen(cfg.Server.Listen); err != nil {
			return err
		}
	}
	adminListener, adminInUse, err := listenAdmin(cfg.Admin)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	logWarnings(log, cfg)
	if s.dev {
		log.Warn("development mode: plugins need no sha256, and everything they log is printed, which may include prompts and responses")
	}
	manager := newServiceManager(log)
	defer manager.close()
	manager.notify("", "loading plugins")
	if bytes, set := proxy.LimitMemory(); set {
		log.Info("Go memory limit set; the rest is left to plugins", "go_bytes", bytes)
	}
	began := time.Now()
	o := s.proxyOptions(cfg, progress, log)
	o.PluginLog, o.Dev, o.Version, o.AccessLog = s.pluginLog, s.dev, versionText(), access.logger(level, cfg.Server)
	o.LogDropped = func() int64 { return out.Dropped() + access.dropped() }
	if s.trace {
		o.PluginTrace = out
	}
	if s.node != nil {
		o.Node = s.node.Status
	}
	dir, stateErr := proxy.FindStateDir(cfg.Store.Journal, os.LookupEnv)
	if o.StateDir = dir; stateErr != nil && !cfg.Budgeted() {
		log.Warn("no state is kept across restarts", "error", stateErr)
	}
	recording, err := s.newRecorder(cfg, log)
	defer recording.close()
	if err == nil && stateErr != nil && cfg.Budgeted() {
		err = fmt.Errorf("budgets: %w", stateErr)
	}
	var gateway *proxy.Server
	if err == nil {
		if recording != nil {
			o.Recorder = recording.from
		}
		gateway, err = proxy.New(context.Background(), o)
	}
	if err != nil {
		if adminListener != nil {
			err = errors.Join(err, adminListener.Close())
		}
		return errors.Join(err, ln.Close())
	}
	// Until here a signal ends the process, since there is nothing to finish.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	printBanner(console, cfg, ln.Addr(), adminListener, time.Since(began))
	if console == io.Discard {
		logProviders(log, cfg)
	}
	if recording != nil {
		recording.start(func() {
			select {
			case signals <- os.Interrupt:
			default: // the process is already shutting down
			}
		})
	}
	log.Info("listening", "address", ln.Addr().String(), "ready_after_ms", time.Since(began).Milliseconds())
	serveAdmin(gateway, adminListener, adminInUse, log)

	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ln) }()
	out.Flush() // scripts wait for the "listening" line
	manager.notify("READY=1", "%s", servingStatus(cfg, ln.Addr()))
	r := &reloader{
		serveOptions: s, gateway: gateway, address: ln.Addr(), manager: manager,
		files: files, watchErr: watchErr, level: level, log: log, requested: make(chan struct{}, 1), read: make(chan change), bundles: make(chan bundleRequest),
	}
	r.current.Store(cfg)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go r.run(ctx)
	if s.node != nil {
		s.node.SetLog(log)
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			s.node.Run(ctx, r)
		}()
		defer func() {
			stop()
			<-followed
		}()
	}
	for {
		select {
		case err := <-served:
			gateway.Close()
			return err
		case <-hangup.signals:
			if !hangup.terminalClosed() {
				if err := access.reopen(); err != nil {
					log.Error("access log not opened again; keeping the open file", "error", err)
				}
				r.request()
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
		log.Warn("configuration warning", "warning", w.Error())
	}
}

// logProviders logs which providers are off, in place of the banner.
func logProviders(log *slog.Logger, cfg *config.Config) {
	for _, p := range offProviders(cfg) {
		log.Info("provider is off", "provider", p.Name, "reason", p.Off)
	}
}

// lineLogger is a writer that logs each line. Every Write must consist of whole lines.
type lineLogger struct{ log *slog.Logger }

func (l lineLogger) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimSpace(line); line != "" {
			l.log.Info(line)
		}
	}
	return len(p), nil
}

// loggedError is an error that ends the process and has already been logged.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// logError logs the error that ends the process, with the texts that would otherwise be printed.
func logError(log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	for _, text := range errorTexts(err) {
		log.Error("exiting", "error", text)
	}
	return loggedError{err}
}

// closeLog flushes the log, and logs how many lines were dropped. If the output blocks, it takes up to twice
// logCloseTimeout.
func closeLog(out *proxy.LogWriter, stderr io.Writer, level *slog.LevelVar, server config.Server) {
	written := out.Close(logCloseTimeout)
	if n := out.Dropped(); n > 0 && written {
		last := proxy.NewLogWriter(stderr)
		newLogger(last, level, server).Warn("log lines dropped: the output blocked or failed", "lines", n)
		last.Close(logCloseTimeout)
	}
}

func listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use, perhaps by another sluice; stop it or choose another address with --listen", address)
	}
	return ln, err
}

// listenAdmin listens at the admin address. ln is nil if the configuration disables it, or if it is the default address
// and already in use, which must not keep the gateway from starting; inUse reports the latter.
func listenAdmin(cfg config.Admin) (ln net.Listener, inUse bool, err error) {
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

// serveAdmin serves health, metrics and status on ln until the gateway is closed. A nil ln does nothing; inUse is from
// listenAdmin.
func serveAdmin(gateway *proxy.Server, ln net.Listener, inUse bool, log *slog.Logger) {
	if inUse {
		log.Warn("no health, metrics and status: the default address is in use; set listen in [admin]")
	}
	if ln == nil {
		return
	}
	log.Info("serving health, metrics and status", "address", ln.Addr().String())
	go func() {
		if err := gateway.ServeAdmin(ln); err != nil {
			log.Error("stopped serving health, metrics and status", "error", err)
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
