package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

// recordOptions are the options for recording what a plugin receives.
type recordOptions struct {
	name  string // of a provider, or of the plugin of a router or filter; nothing is recorded if it is empty
	dir   string
	count int // vectors after which the gateway shuts down; 0 for no limit
}

// parse reads the value of --record.
func (r *recordOptions) parse(text string) bool {
	var ok bool
	r.name, r.dir, ok = strings.Cut(text, "=")
	return ok && r.name != "" && r.dir != ""
}

func newPluginRecordCommand(o *options) *cobra.Command {
	s := &serveOptions{options: o, watch: true}
	plugin := ""
	c := &cobra.Command{
		Use:   "record {--provider|--plugin} NAME --to DIR",
		Short: "Record what a plugin receives as vectors",
		Long: "Serve the configured gateway, and write the traffic of a provider as test vectors for its plugin: the client's requests,\n" +
			"the provider's responses byte for byte, and the plugin's results as want.txt. `sluice plugin test DIR` runs them. If the\n" +
			"plugin fails on a request, its vector has no want.txt, and fails until the plugin is fixed. With --plugin, a router's\n" +
			"targets or a filter's texts are written.\n\n" +
			"In the folder of a plugin, the name is by default the plugin's, and the directory is recorded. Plugin files need no\n" +
			"sha256.\n\n" +
			"The files contain prompts and responses. Credentials and client keys are removed. Recording never delays a request:\n" +
			"requests that exceed its memory limit are not recorded, and their number is logged at the end.",
		Example: "  sluice plugin record --provider mine --to recorded --count 10\n  sluice plugin test recorded",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			s.record.name = cmp.Or(s.record.name, plugin)
			if p, err := project.Load("."); err == nil {
				s.record.name, s.record.dir = cmp.Or(s.record.name, p.Name), cmp.Or(s.record.dir, "recorded")
			}
			if s.record.name == "" || s.record.dir == "" {
				return newUsageError(c, "want the name of a provider with --provider, or of a router or filter with --plugin, and a directory with --to")
			}
			if s.listen != "" {
				if err := config.CheckListen(s.listen); err != nil {
					return newUsageError(c, "--listen %q: %w", s.listen, err)
				}
			}
			s.unpinned = true
			return s.run(c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&s.record.name, "provider", "", "`name` of the provider in the configuration")
	c.Flags().StringVar(&plugin, "plugin", "", "`name` of the plugin of a router or filter in the configuration")
	c.MarkFlagsMutuallyExclusive("provider", "plugin")
	c.Flags().StringVar(&s.record.dir, "to", "", "`directory` for the vectors; created if it does not exist")
	c.Flags().IntVar(&s.record.count, "count", 0, "number of vectors to record before exiting; 0 for no limit")
	c.Flags().StringVarP(&s.listen, "listen", "l", "", "listen `address`, host:port; overrides the configuration")
	c.Flags().BoolVarP(&s.quiet, "quiet", "q", false, "print only the log")
	return c
}

// recorder writes the requests that a gateway records to a directory of vectors.
type recorder struct {
	from   *proxy.Recorder
	writer *plugindev.RecordWriter
	dir    string
	closed func()
	log    *slog.Logger

	stop context.CancelFunc
	done chan struct{}
}

// newRecorder returns a recorder that is not started, or nil if nothing is to be recorded.
func (s *serveOptions) newRecorder(cfg *config.Config, log *slog.Logger) (*recorder, error) {
	name := s.record.name
	if name == "" {
		return nil, nil
	}
	from, plugin, use := proxy.NewInputRecorder(name), name, plugindev.Use{}
	if p := cfg.Provider(name); p != nil {
		if p.Off != "" {
			return nil, fmt.Errorf("record: provider %s is off: %s", name, p.Off)
		}
		from, plugin, use = proxy.NewRecorder(name), p.Plugin, plugindev.Use{Settings: string(p.Options), Paths: p.Paths, Headers: p.Headers}
	} else if settings, ok := inputSettings(cfg, name); ok {
		use.Settings = string(settings)
	} else {
		return nil, fmt.Errorf("record: the configuration has no provider %s, and no router or filter with such a plugin", name)
	}
	used := cfg.Plugin(plugin)
	module := plugindev.Module{Name: plugin}
	var err error
	if used.File == "" {
		module, err = bundledModule(plugin)
	} else {
		module.Wasm, err = os.ReadFile(used.File)
	}
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	h, closed, err := s.host()
	if err != nil {
		return nil, err
	}
	r := &recorder{from: from, dir: s.record.dir, closed: closed, log: log, done: make(chan struct{})}
	r.writer, err = plugindev.NewRecordWriter(context.Background(), h, plugindev.RecordOptions{
		Dir: s.record.dir, Module: module, File: used.File, Count: s.record.count,
		Use: use,
		Written: func(name, problem string) {
			if problem != "" {
				log.Warn("recorded without want.txt", "vector", name, "problem", problem)
				return
			}
			log.Info("recorded", "vector", name)
		},
	})
	if err != nil {
		closed()
		return nil, fmt.Errorf("record: %w", err)
	}
	log.Warn("recording: prompts and responses are written to files", "of", name, "dir", s.record.dir)
	return r, nil
}

// inputSettings returns the settings of the first router or filter with a plugin.
func inputSettings(cfg *config.Config, plugin string) (settings []byte, ok bool) {
	if cfg.Router.Plugin == plugin {
		return cfg.Router.Settings, true
	}
	for i := range cfg.Filters {
		if f := &cfg.Filters[i]; f.Plugin == plugin {
			return f.Options, true
		}
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Router.Plugin == plugin {
			return m.Router.Settings, true
		}
		for _, r := range m.Rules {
			if r.Router != nil && r.Router.Plugin == plugin {
				return r.Router.Settings, true
			}
		}
	}
	return nil, false
}

// start writes vectors in the background. It calls enough after the requested number of vectors, or when writing fails.
func (r *recorder) start(enough func()) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.done)
		done, err := r.writer.Write(ctx, r.from)
		if err != nil {
			r.log.Error("recording ended", "error", err)
		}
		attrs := []any{"vectors", done.Vectors, "dir", r.dir}
		if done.Left > 0 {
			attrs = append(attrs, "client_left", done.Left)
		}
		if done.Dropped > 0 {
			attrs = append(attrs, "dropped", done.Dropped)
		}
		r.log.Info("recorded vectors", attrs...)
		if ctx.Err() == nil {
			enough()
		}
	}()
}

// close writes what is left of the recording, and releases the recorder's resources.
func (r *recorder) close() {
	if r == nil {
		return
	}
	if r.stop != nil {
		r.stop()
		<-r.done
	}
	r.writer.Close()
	r.closed()
}
