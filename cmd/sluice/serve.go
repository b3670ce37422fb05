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

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/telemetry"
)

// logPatience is how long the end of the process waits for a log output that blocks.
const logPatience = 2 * time.Second

func serveCommand(o *options) *cobra.Command {
	var quiet, pluginLog bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the gateway",
		Long: "Serve the gateway that the configuration describes, until SIGINT or SIGTERM. Requests in flight get the\n" +
			"configuration's shutdown_timeout to finish; a second signal ends the process at once.",
		Example: "  sluice serve\n  sluice serve --config /etc/sluice/gateway.toml",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(o)
			if err != nil {
				return err
			}
			return serve(c.Context(), o, cfg, c.ErrOrStderr(), quiet, pluginLog)
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing on start")
	c.Flags().BoolVar(&pluginLog, "plugin-log", false, "let plugins write to the log (at level debug)")
	return c
}

func serve(ctx context.Context, o *options, cfg *config.Config, stderr io.Writer, quiet, pluginLog bool) error {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	// The port first: whoever started a second gateway should know before anything is compiled.
	ln, err := net.Listen("tcp", cfg.Server.Listen)
	if err != nil {
		return err
	}
	out := telemetry.NewWriter(stderr)
	defer out.Close(logPatience)
	log := newLogger(out, cfg.Server)
	for _, w := range cfg.Warnings {
		log.Warn("configuration", "text", w.Error())
	}
	began := time.Now()
	if !quiet {
		fmt.Fprintf(stderr, "Sluice %s, loading plugins (the first start compiles them) …\n", versionText())
	}
	s, err := proxy.New(ctx, proxy.Options{Config: cfg, Bundled: plugins.FS(), Log: log, CacheDir: o.cache, PluginLog: pluginLog})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if !quiet {
		banner(stderr, cfg, ln.Addr(), time.Since(began))
	}
	log.Info("listening", "address", ln.Addr().String(), "ready_after", time.Since(began))

	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	select {
	case err := <-served:
		s.Close()
		return err
	case <-ctx.Done():
	}
	// From here on a second signal has its default effect.
	stop()
	log.Info("shutting down", "patience", cfg.Server.ShutdownTimeout)
	patience, cancel := context.WithTimeout(context.Background(), cfg.Server.ShutdownTimeout)
	defer cancel()
	if err := s.Shutdown(patience); err != nil {
		log.Warn("requests were cut off", "error", err)
	}
	return nil
}

// load reads the configuration.
func load(o *options) (*config.Config, error) {
	return config.Load(o.config, config.Options{Env: os.LookupEnv, Bundled: plugins.Names()})
}

func newLogger(out io.Writer, s config.Server) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments\nTry `%s --help`", c.CommandPath(), c.CommandPath())}
	}
	return nil
}
