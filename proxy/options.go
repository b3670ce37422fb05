package proxy

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/statedir"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Options configure a Server.
type Options struct {
	Config *config.Config
	// Bundled holds the modules of the bundled plugins: NAME.wasm, or all.wasm for plugins without a file of their own.
	// It may implement Digester. It may be nil.
	Bundled fs.FS
	Log     *slog.Logger // nil disables logging
	// AccessLog receives the access log; nil means Log.
	AccessLog *slog.Logger
	// CacheDir is where compiled plugins, and modules from registries, are cached between starts; "" disables the cache.
	// Config.Server.CacheDir overrides it.
	CacheDir string
	// Offline leaves the journal and the store of shared limits closed, for a Server that serves no requests.
	Offline bool
	// StateDir is the folder for state that must outlive the process, as found by FindStateDir; "" keeps none.
	StateDir string
	// Compiled, if not nil, replaces CacheDir for compiled plugins.
	Compiled *CompiledPlugins
	// PluginLog lets plugins write to Log.
	PluginLog bool
	// Dev is for plugin authors. Plugins write everything they log to Log, whatever its level, with a stack trace of
	// each trap, and failures do not open a plugin's circuit.
	Dev bool
	// PluginTrace receives, with Dev, what goes in and out of each call of a plugin, with prompts and responses; nil
	// disables it.
	PluginTrace io.Writer
	// PluginWait is how long a request waits for an instance of a plugin before it is rejected; 0 means one second.
	PluginWait time.Duration
	// Recorder records what a plugin receives, including prompts and responses; nil disables it.
	Recorder *Recorder
	// Version is the gateway's version in metrics and status.
	Version string
	// LogDropped returns how many log lines were lost; it may be nil.
	LogDropped func() int64
	// Node returns the state of the node whose bundles the Server serves; nil if it serves none.
	Node func() fleet.Status
	// Now is the clock for logs, metrics and durations; nil means time.Now. Deadlines of connections use the system
	// clock.
	Now func() time.Time
	// Random returns the random number of a request, which random choices of its routing are based on; nil means
	// math/rand/v2.Uint64.
	Random func() uint64
	// RequireCache makes it an error if compiled plugins cannot be cached in CacheDir. Without it, this is only logged.
	RequireCache bool
	// Compiling is called before a module that is not in CacheDir is compiled, which may take seconds. plugins are the
	// names of the plugins in it, separated by ", ". The function it returns is called when the compilation has ended.
	// Modules are compiled in parallel. Compiling may be nil.
	Compiling func(plugins string) (done func())
}

// Recorder records what the plugin of one provider, a router or a filter receives. Package plugindev writes the recording to files.
type Recorder = recording.Recorder

// NewRecorder returns a Recorder for a configured provider.
func NewRecorder(provider string) *Recorder { return recording.New(provider) }

// NewInputRecorder returns a Recorder for a plugin that is a router or a filter.
func NewInputRecorder(plugin string) *Recorder { return recording.NewInputs(plugin) }

// plugins returns the options of the plugin host.
func (o *Options) plugins() plugin.Options {
	p := plugin.Options{
		Replay: true,
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
		p.Trace = o.PluginTrace
		p.Dev, p.PluginLog = true, slog.New(everyLevel{o.Log.Handler()})
	}
	return p
}

// sources returns where the modules of plugins come from.
func (o *Options) sources() modules.Sources {
	return modules.Sources{Bundled: o.Bundled, CacheDir: o.CacheDir, Log: o.Log}
}

// everyLevel is a log handler that is enabled at every level.
type everyLevel struct{ slog.Handler }

func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }

// CompiledPlugins shares the machine code of plugins between the Servers of one process: the first Server that uses a
// module compiles it or reads it from the cache directory. It is safe for concurrent use.
type CompiledPlugins struct{ engine *engine.Engine }

// NewCompiledPlugins returns empty CompiledPlugins. Machine code is also cached in cacheDir unless that is "". Close it
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

// FindStateDir returns the folder for Options.StateDir: explicit if it is not empty, else systemd's $STATE_DIRECTORY,
// else the folder sluice in $XDG_STATE_HOME, which defaults to ~/.local/state.
func FindStateDir(explicit string, env func(name string) (string, bool)) (string, error) {
	return statedir.Find(explicit, env)
}

// LimitMemory applies the limit of GOMEMLIMIT, or of the control group, to the whole process: it sets the Go runtime's
// limit to what remains after the memory of plugins, which the runtime does not count. Call it at the start of the
// process. It returns the runtime's limit, and false if the process has none.
func LimitMemory() (bytes int64, set bool) { return capacity.LimitGo() }

// LogWriter batches log lines and writes them to an output on its own goroutine, so that logging never blocks a
// request. If the output blocks, lines are dropped and counted. Close flushes it.
type LogWriter = telemetry.Writer

// NewLogWriter returns a LogWriter that writes to out.
func NewLogWriter(out io.Writer) *LogWriter { return telemetry.NewWriter(out) }

// NewLogger returns a logger that writes the gateway's log format, JSON or text, to w.
func NewLogger(w *LogWriter, json bool, level slog.Leveler) *slog.Logger {
	return telemetry.NewLogger(w, json, level)
}
