// Package config turns gateway.toml into an immutable Config with every default filled in, or into all the errors of
// the file at once, each with line, column and key.
//
// It owns the file's syntax, the expansion of variables, the defaults, the presets of the bundled plugins and every
// rule that can be checked without the network and without running a plugin. It does not load plugins, open listeners
// or read the environment: variables come from Options.Env.
//
// Concurrency: a Config does not change once it is returned and may be read from any goroutine.
package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxFile bounds what Load reads, in bytes. A hundred thousand keys take 15 MB.
const maxFile = 128 << 20

// Options are what a configuration depends on besides its text.
type Options struct {
	Env     func(name string) (value string, ok bool) // nil: no variable is set
	Bundled []string                                  // the names of the plugins that are built into the binary
	Now     time.Time                                 // for warnings about expired keys; zero: time.Now()
	// ReadFile reads a file that a provider's credential may be in, to find out whether it is; nil: from the disk.
	ReadFile func(name string) ([]byte, error)
	Listen   string // what server.listen is, whatever the file says; "": what the file says
}

// Config is a whole configuration. Options and Settings, which plugins read, hold no credential.
type Config struct {
	Path      string // the name of the file, as it was given
	Server    Server
	Admin     Admin
	Keys      []Key
	Plugins   []Plugin // all that are declared, and the bundled ones that are named
	Providers []Provider
	Models    []Model
	Router    Router
	Warnings  Errors // what is allowed but probably not meant
}

// Server is the table [server].
type Server struct {
	Listen          string
	Auth            string        // AuthKeys or AuthNone, never empty
	TLS             *TLS          // nil: plain HTTP
	MaxBody         int64         // bytes of a request's body
	MaxConns        int           // 0: what fits into the machine
	MaxWrongKeys    int64         // a minute from one address; 0: any number
	MaxRequests     int           // chat completions in flight; 0: what fits into the machine
	MaxBodyMemory   int64         // bytes of large bodies that are held; 0: what fits into the machine
	MaxQueue        int           // calls of plugins that wait
	ReadTimeout     time.Duration // for a whole request
	IdleTimeout     time.Duration // between the requests of a connection
	WriteTimeout    time.Duration // for each write
	Heartbeat       time.Duration // silence after which a stream is kept alive; 0: never
	DrainDelay      time.Duration // for which a gateway that ends is not ready any more, and serves on
	ShutdownTimeout time.Duration // what requests in flight may take behind it
	CacheDir        string        // where compiled plugins are kept; "": the caller's choice
	LogFormat       string        // "text" or "json"
	LogLevel        string        // "debug", "info", "warn" or "error"
}

// The values of Server.Auth.
const (
	AuthKeys = "keys" // every request needs a key
	AuthNone = "none" // anyone may do anything
)

// Key is an entry of [[keys]]: one client, or one group of clients.
type Key struct {
	Name      string
	Secret    Secret // "" where only the digest is configured
	Digest    Digest // SHA-256 of the secret, always there
	Models    []Glob // the models that it may use; empty: none
	NotBefore time.Time
	Expires   time.Time // the first moment at which it is no longer good; zero: never
	Disabled  bool
	Limits    KeyLimits
	Pos       Position
}

// KeyLimits are what a key may use; 0 is no limit.
type KeyLimits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrent        int64 // requests at a time
}

// Plugin is an entry of [plugins], or a bundled plugin with its defaults.
type Plugin struct {
	Name        string
	File        string // "" for a bundled plugin; relative paths are joined to the configuration's folder
	SHA256      string // of the file, 64 lower-case hexadecimal digits; "" for a bundled plugin
	Isolation   string // IsolationShared, IsolationKey or IsolationCall
	MemoryPages uint32 // the limit of an instance's memory in pages of 64 KiB; 0: the engine's default
	InUse       bool   // the router, or a provider that is not off, names it
	Pos         Position
}

// The values of Plugin.Isolation.
const (
	IsolationShared = "shared" // an instance serves every key
	IsolationKey    = "key"    // an instance is reset before it serves another key
	IsolationCall   = "call"   // an instance serves one call
)

// Provider is an entry of [providers].
type Provider struct {
	Name         string
	Plugin       string // names an entry of Config.Plugins
	BaseURL      string // without a trailing slash; "" for a plugin that answers by itself
	Auth         Auth
	Timeout      Timeout
	Heartbeat    time.Duration // silence after which a stream is kept alive; 0: never
	Breaker      Breaker
	RetryBudget  float64 // requests that may come back to it for another of its models, as a share of all, 0 to 1
	ListModels   ListModels
	Paths        []string // that the plugin may ask for
	Headers      []string // that the plugin may set, lower case
	MaxConns     int
	AllowPrivate bool            // the upstream may have a private or loopback address
	Options      json.RawMessage // an object, the plugin's settings: the preset's options, the plugin's over them, then the provider's
	Off          string          // why the provider is off, for a person; "" where it is on
	Pos          Position
}

// Auth is a provider's credential: a secret and how it is sent, in a header behind Prefix or in a query member, or what
// requests are signed with, or where a token comes from.
type Auth struct {
	Header string
	Prefix string
	Query  string
	Secret Secret // "": no secret is sent
	AWS    *AWS
	Google *Google
}

// AWS is a signature of AWS. Its keys are these, or those of the profile, or where there is neither, those that the
// SDK's default chain finds.
type AWS struct {
	Region          string // never empty where the provider is on
	Service         string
	Profile         string
	AccessKeyID     Secret
	SecretAccessKey Secret
	SessionToken    Secret // may be empty
}

// Google says where a token of Google comes from.
type Google struct {
	File     string   // of credentials; "": the machine's metadata server
	Metadata string   // the metadata server's host; "": the usual one
	Scopes   []string // empty: the usual one
}

// Timeout holds the limits of one attempt at a provider. All but Event are positive.
type Timeout struct {
	Connect   time.Duration
	TLS       time.Duration
	FirstByte time.Duration
	Idle      time.Duration // between two pieces of an answer
	Event     time.Duration // between two whole events of a stream; 0: none
	Total     time.Duration
	Write     time.Duration // for each write
}

// Breaker says when a target of a provider is left alone for its failures.
type Breaker struct {
	Failures int     // in a row; 0: the breaker is off
	Share    float64 // that they must be of all attempts within Window, 0 to 1
	Window   time.Duration
	Pause    time.Duration // the first one
	MaxPause time.Duration // the longest one
}

// ListModels says whether a provider's own list of models is offered.
type ListModels struct {
	Enabled bool
	Every   time.Duration // how long a list is good for
	Only    []Glob        // the models to take from it; empty: all
}

// Model is an entry of [[models]].
type Model struct {
	ID               string
	DisplayName      string
	OwnedBy          string
	Created          int64 // Unix seconds
	Pricing          Pricing
	MaxTokens        int64 // 0: not said
	DefaultMaxTokens int64 // what a provider is sent where it needs a number and the client gave none; 0: not said
	Thinking         bool
	Targets          []Target // at least one
	Off              string   // why none of its targets can be used, for a person; "" where one can
	Pos              Position
}

// Pricing is in US dollars per million tokens. Where it is not known, both numbers are 0.
type Pricing struct {
	Input, Output float64
	Known         bool
}

// Target is one way to answer a model.
type Target struct {
	Provider string // names an entry of Config.Providers
	Model    string // the provider's own name for the model
	Weight   int
	Priority int // smaller is tried first
	Fallback bool
	Pricing  Pricing         // where it is Known it counts for routing in place of the model's
	Options  json.RawMessage // an object: the provider's options, with this target's over them
}

// Router is the table [router]. Plugin is "" where the order of the configuration is used.
type Router struct {
	Plugin   string
	Settings json.RawMessage // an object: every other member of the table, over the plugin's options
	Pos      Position
}

// Empty tells whether there is nothing that a request could be answered with.
func (c *Config) Empty() bool { return len(c.Providers) == 0 && len(c.Models) == 0 }

// Provider returns the provider of that name, nil where there is none.
func (c *Config) Provider(name string) *Provider {
	if i := slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == name }); i >= 0 {
		return &c.Providers[i]
	}
	return nil
}

// Plugin returns the plugin of that name, nil where there is none.
func (c *Config) Plugin(name string) *Plugin {
	if i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == name }); i >= 0 {
		return &c.Plugins[i]
	}
	return nil
}

// Load reads the file at path. An error about what is in it is an Errors.
func Load(path string, o Options) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, Errors{{File: path, Text: fmt.Sprintf("the file is larger than %d MiB", maxFile>>20)}}
	}
	return Parse(path, data, o)
}

// Parse reads a configuration from data; name stands for the file in errors, and relative paths are joined to its
// folder. The error is an Errors. data is not kept.
func Parse(name string, data []byte, o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	if o.ReadFile == nil {
		o.ReadFile = readCredentialFile
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	d := &document{file: name, data: bytes.TrimPrefix(data, []byte("\ufeff")), env: o.Env}
	root := d.parse()
	if root == nil {
		return nil, d.failed()
	}
	l := newLoader(d, o)
	l.load(table{d: d, n: root, path: &keyPath{}})
	d.judge()
	if len(d.errs) > 0 {
		return nil, d.failed()
	}
	l.cfg.Warnings = d.warnings.sorted()
	return l.cfg, nil
}

// loader fills a Config section by section.
type loader struct {
	d   *document
	o   Options
	cfg *Config

	plugins         map[string]int // indexes into cfg.Plugins
	providers       map[string]int // indexes into cfg.Providers
	pluginOptions   map[string]object
	providerOptions map[string]object
	credentials     []credential
	listenAt        int // the offset of server.listen
}

func newLoader(d *document, o Options) *loader {
	return &loader{
		d: d, o: o, cfg: &Config{Path: d.file},
		plugins: map[string]int{}, providers: map[string]int{}, pluginOptions: map[string]object{}, providerOptions: map[string]object{},
	}
}

// load reads the sections in the order in which they refer to each other. The free tables are searched for credentials
// last, when all credentials are known.
func (l *loader) load(root table) {
	l.server(root.table("server"))
	l.admin(root.table("admin"))
	l.keys(root.tables("keys"))
	l.pluginTables(root.table("plugins"))
	l.providerTables(root.table("providers"))
	l.models(root.tables("models"))
	l.router(root.table("router"))
	root.finish()
	l.access()
	l.searchCredentials()
	l.useless()
}

// relative joins a path of the file to the file's folder.
func (l *loader) relative(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(l.cfg.Path), file)
}
