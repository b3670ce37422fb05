package proxy

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/statedir"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Options configure a Server.
type Options struct {
	Config *config.Config
	// Bundled has the modules of the bundled plugins: NAME.wasm, or all.wasm for those that have none of their own. It may be
	// a Digester. nil: there are none.
	Bundled fs.FS
	Log     *slog.Logger // nil: nothing is logged
	// CacheDir keeps compiled plugins between starts; Config.Server.CacheDir overrides it. "": they are not kept.
	CacheDir string
	// Offline opens neither the journal nor the store of shared limits: for a Server that serves no requests.
	Offline bool
	// StateDir keeps what must outlive the process; FindStateDir finds it. "": nothing is kept.
	StateDir string
	// Compiled is used in place of CacheDir if it is not nil.
	Compiled *CompiledPlugins
	// PluginLog lets plugins write to Log.
	PluginLog bool
	// Dev is for the author of a plugin: plugins write all that they say to Log, whatever its level, with the stack of each trap,
	// and failures open no plugin's circuit.
	Dev bool
	// PluginWait is how long a request waits for an instance of a plugin before it is rejected; 0 for one second.
	PluginWait time.Duration
	// Recorder takes down what the plugin of a provider is given, with the prompts and responses that this holds; nil: nothing is.
	Recorder *Recorder
	// Version is the gateway's version in metrics and status.
	Version string
	// LogDropped returns how many lines of Log were lost; nil: unknown.
	LogDropped func() int64
	// Now is the clock for logs, metrics and durations; nil: time.Now. Deadlines of connections use the system's.
	Now func() time.Time
	// Random returns the number that a request draws lots with; nil: math/rand/v2.Uint64.
	Random func() uint64
	// RequireCache fails where compiled plugins cannot be kept in CacheDir. Otherwise that is logged.
	RequireCache bool
	// Compiling is called when a module that is not in CacheDir is compiled, which may take seconds, with the plugins in it,
	// separated by ", "; the function that it returns is called when that has ended. Modules are compiled in parallel. nil: not
	// called.
	Compiling func(plugins string) (done func())
}

// Recorder takes down what the plugin of one provider is given. Package plugindev writes it to files.
type Recorder = recording.Recorder

// NewRecorder returns a Recorder of a provider of the configuration.
func NewRecorder(provider string) *Recorder { return recording.New(provider) }

// plugins are the options of the plugin host.
func (o *Options) plugins() plugin.Options {
	p := plugin.Options{
		Engine: engine.Options{CacheDir: o.CacheDir, RequireCache: o.RequireCache, Compiling: o.Compiling},
		Log:    o.Log, Queue: o.Config.Server.MaxQueue, Wait: o.PluginWait,
	}
	if o.Config.Server.CacheDir != "" {
		p.Engine.CacheDir = o.Config.Server.CacheDir
	}
	if o.Compiled != nil {
		p.Shared = o.Compiled.engine
	}
	if o.PluginLog {
		p.PluginLog = o.Log
	}
	if o.Dev {
		p.Dev, p.PluginLog = true, slog.New(everyLevel{o.Log.Handler()})
	}
	return p
}

// everyLevel is a log's handler without its level.
type everyLevel struct{ slog.Handler }

func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }

// CompiledPlugins holds machine code of plugins for the Servers of one process: a module is compiled, or read from the
// cache directory, by the first of them that uses it. It is safe for concurrent use.
type CompiledPlugins struct{ engine *engine.Engine }

// NewCompiledPlugins makes an empty CompiledPlugins. Machine code is also kept in cacheDir, unless that is "". Close it
// after the last Server that uses it.
func NewCompiledPlugins(cacheDir string) (*CompiledPlugins, error) {
	e, err := plugin.NewEngine(engine.Options{CacheDir: cacheDir, Keep: true})
	if err != nil {
		return nil, err
	}
	return &CompiledPlugins{e}, nil
}

// Close frees the machine code.
func (c *CompiledPlugins) Close() error { return c.engine.Close() }

// FindStateDir finds the folder for Options.StateDir: explicit, if it is not empty, else systemd's $STATE_DIRECTORY, else sluice in
// $XDG_STATE_HOME, which is ~/.local/state by default.
func FindStateDir(explicit string, env func(name string) (string, bool)) (string, error) {
	return statedir.Find(explicit, env)
}

// LimitMemory limits the memory of the process by GOMEMLIMIT, or by its control group: it sets the Go runtime's limit to what is left
// after memory that the runtime does not count, that of plugins. It is for the start of a process. It returns the runtime's limit,
// and false where the process has none.
func LimitMemory() (bytes int64, set bool) { return capacity.LimitGo() }

// LogWriter batches log lines to an output on a goroutine of its own: logging never blocks a request, and an output that
// blocks loses lines, which are counted. Close flushes it.
type LogWriter = telemetry.Writer

// NewLogWriter returns a LogWriter to out.
func NewLogWriter(out io.Writer) *LogWriter { return telemetry.NewWriter(out) }

// NewLogger returns a logger that writes the gateway's log format, JSON or text, to w.
func NewLogger(w *LogWriter, json bool, level slog.Leveler) *slog.Logger {
	return telemetry.NewLogger(w, json, level)
}
