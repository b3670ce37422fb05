// Package config parses gateway.toml into an immutable Config with all defaults filled in, or returns all errors in the file at
// once, each with line, column and key.
//
// It owns the syntax, the expansion of variables, the defaults, the presets, the reference of all keys, and every check that needs
// neither the network nor a plugin. It does not load plugins, open listeners or read the environment: variables come from
// Options.Env.
//
// Concurrency: a Config is immutable and may be read from any goroutine.
package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// maxFile bounds the size of the file, in bytes. A hundred thousand keys take 15 MB.
const maxFile = 128 << 20

// Options are the inputs of a configuration besides its text.
type Options struct {
	Env     func(name string) (value string, ok bool) // environment variables; nil: none is set
	Bundled []string                                  // names of the plugins built into the binary
	Now     time.Time                                 // for warnings about expired keys; zero: time.Now()
	// ReadFile reads certificates and credential files, to check them; nil: from disk.
	ReadFile func(name string) ([]byte, error)
	Listen   string // overrides server.listen; "": does not
	// Opening is called with each file that the configuration includes, and each folder in which it looks for them, before it is read.
	Opening func(name string)
	// OptionsSchema returns the JSON Schema of a plugin's options, nil if it has none; nil: options are not checked here.
	OptionsSchema func(*Plugin) []byte
	Values        bool // whether to fill in Config.Values
	// Dev is for the author of a plugin: files of plugins need no sha256, and listeners must not be reachable from other machines.
	Dev bool
}

// Config is a complete configuration. Options and Settings, which plugins read, contain no credential.
type Config struct {
	Path      string   // as passed to Load or Parse
	Included  []string // the files that it includes, in the order in which they are merged
	Folders   []string // in which they are looked up
	Server    Server
	Admin     Admin
	Responses Responses
	Store     Store
	Teams     []Team
	Keys      []Key
	Plugins   []Plugin // the declared ones, and the bundled ones that are referred to
	Providers []Provider
	Models    []Model
	Filters   []Filter // in the order in which they run
	Router    Router
	Warnings  Errors // allowed, but probably not intended
	Values    []Value
}

// Server is the table [server]; see Reference for all keys.
type Server struct {
	Listen          string
	Auth            string        // AuthKeys or AuthNone
	KeyHeaders      []string      // that may have a client's key besides Authorization, lower case
	ReasoningKey    Secret        // authenticates reasoning that clients keep; "": a random key
	TLS             *TLS          // nil: plain HTTP
	MaxBody         int64         // bytes of a request body
	MaxConns        int           // client connections; 0: derived from the machine
	Strict          bool          // reject a max_tokens above the model's, instead of lowering it
	MaxWrongKeys    int64         // invalid API keys per minute and address; 0: unlimited
	MaxRequests     int           // chat completions in flight; 0: derived from the machine
	MaxBodyMemory   int64         // bytes of large bodies; 0: derived from the machine
	MaxQueue        int           // plugin calls waiting for an instance
	ReadTimeout     time.Duration // of a whole request
	IdleTimeout     time.Duration // between requests on a connection
	WriteTimeout    time.Duration // of each write
	Heartbeat       time.Duration // interval of comments on silent streams; 0: none
	DrainDelay      time.Duration // how long a gateway that shuts down serves on while not ready
	ShutdownTimeout time.Duration // how long requests in flight may take after DrainDelay
	CacheDir        string        // of compiled plugins; "": chosen by the caller
	LogFormat       string        // "text" or "json"
	LogLevel        string        // "debug", "info", "warn" or "error"
}

// The values of Server.Auth.
const (
	AuthKeys = "keys" // requests need a client key
	AuthNone = "none" // every request is accepted
)

// Key is an entry of [[keys]]: a client or a group of clients.
type Key struct {
	Name      string
	Secret    Secret // "" if only the digest is configured
	File      string // that Secret was read from; "" for one in the configuration or the environment
	Digest    Digest // SHA-256 of the secret, always set
	Models    []Glob // that it may use; empty: none
	NotBefore time.Time
	Expires   time.Time // end of validity; zero: never
	Disabled  bool
	Limits    Limits
	Budgets   []Budget
	Team      string            // names an entry of Config.Teams; "": none
	Tags      map[string]string // nil if there are none
	Explain   bool              // whether clients may ask how their requests are routed
	Pos       Position
}

// Team is an entry of [[teams]], to which keys belong.
type Team struct {
	Name    string
	Limits  Limits // of all its keys together
	Budgets []Budget
	Pos     Position
}

// Plugin is an entry of [plugins], or a bundled plugin with its defaults.
type Plugin struct {
	Name        string
	File        string // "" for a bundled plugin; relative paths are joined to the configuration's folder
	SHA256      string // of the file, 64 lower-case hexadecimal digits; "" for a bundled plugin
	Unpinned    bool   // SHA256 is what the file had when the configuration was read, "" if it could not be read
	Isolation   string // IsolationShared, IsolationKey or IsolationCall
	MemoryPages uint32 // limit of an instance's memory, in pages of 64 KiB; 0: the engine's default
	InUse       bool   // the router, a filter or a provider that is on refers to it
	Pos         Position
}

// The values of Plugin.Isolation.
const (
	IsolationShared = "shared" // an instance is never reset
	IsolationKey    = "key"    // an instance is reset before it serves another key
	IsolationCall   = "call"   // an instance is reset after every call
)

// Provider is an entry of [providers].
type Provider struct {
	Name          string
	Plugin        string // names an entry of Config.Plugins
	BaseURL       string // without a trailing slash; "" for a plugin that needs no upstream
	Auth          Auth
	Timeout       Timeout
	Heartbeat     time.Duration // interval of comments on silent streams; 0: none
	Pace          time.Duration // between the events of a stream that the plugin makes without an upstream; 0: none
	Breaker       Breaker
	RetryBudget   float64 // retries on another model of this provider, as a share of all requests, 0 to 1
	ListModels    ListModels
	Direct        bool     // models that are configured as its targets have direct names, NAME/MODEL
	Paths         []string // that the plugin may request
	Headers       []string // that the plugin may set, lower case
	MaxConns      int
	MaxEvent      int             // bytes of one event of a stream
	CachesPrompts bool            // the upstream reuses what prompts begin with, at a lower price or faster
	AllowPrivate  bool            // the base URL may resolve to private and loopback addresses
	Options       json.RawMessage // an object: the preset's options, overridden by the plugin's, then by the provider's
	Limits        Limits
	Budgets       []Budget
	Off           string // why the provider is off, for people; "" if it is on
	Pos           Position
}

// Auth is a provider's credential: secrets and the header, with a prefix, or the query parameter that carries one; or the keys of
// an AWS signature; or the source of a Google token.
type Auth struct {
	Header  string
	Prefix  string
	Query   string
	Secrets []FileSecret // of one account each; empty: none is sent
	AWS     *AWS
	Google  *Google
}

// FileSecret is a secret that may come from a file.
type FileSecret struct {
	Secret
	File string // "" for one in the configuration or the environment
}

// AWS configures AWS signatures. The keys are configured here, or those of the profile, or else found by the SDK's default chain.
type AWS struct {
	Region          string // not empty if the provider is on
	Service         string
	Profile         string
	AccessKeyID     Secret
	SecretAccessKey Secret
	SessionToken    Secret   // may be empty
	Files           []string // that hold these
}

// Google is the source of a Google token.
type Google struct {
	File     string   // credentials file; "": the metadata server
	Metadata string   // host of the metadata server; "": the default
	Scopes   []string // empty: cloud-platform
}

// Timeout holds the timeouts of one attempt at a provider. All but Event are positive.
type Timeout struct {
	Connect   time.Duration
	TLS       time.Duration
	FirstByte time.Duration
	Idle      time.Duration // between two reads of the response
	Event     time.Duration // between two complete events of a stream; 0: none
	Total     time.Duration
	Write     time.Duration // of each write
}

// Breaker configures the circuit breaker of each target of a provider.
type Breaker struct {
	Failures int     // consecutive; 0: the breaker is disabled
	Share    float64 // of failed attempts within Window, 0 to 1
	Window   time.Duration
	Pause    time.Duration // how long the circuit is open at first
	MaxPause time.Duration
}

// ListModels configures whether the models that a provider lists are offered.
type ListModels struct {
	Enabled bool
	Every   time.Duration // how long a list is fresh
	Only    []Glob        // models to offer; empty: all
	Direct  bool          // they have direct names, NAME/MODEL, too
}

// Model is an entry of [[models]].
type Model struct {
	ID               string
	DisplayName      string
	OwnedBy          string
	Created          int64 // Unix seconds
	Pricing          Pricing
	MaxTokens        int64 // 0: unknown
	MaxImageTokens   int64 // the most tokens of one image; 0: by the name of the target's model
	DefaultMaxTokens int64 // if the provider needs a number and the client sent none; 0: none
	Thinking         bool
	Kinds            Kinds    // of requests that it serves
	Targets          []Target // at least one
	Off              string   // why no target is available, for people; "" if one is
	Router           ModelRouter
	Affinity         Affinity // never AffinityDefault
	Rules            []Rule   // the first that matches counts
	Retry            Retry
	Hedge            *Hedge
	Shadows          []Shadow
	Canary           *Canary
	Limits           Limits
	Budgets          []Budget
	Pos              Position
}

// Pricing is in US dollars per million tokens. If it is not Known, both numbers are 0.
type Pricing struct {
	Input, Output float64 // of small prompts, rounded
	Known         bool
	Prices        *cost.Prices // all prices, exact; nil if not Known
}

// Target is a provider's model that serves a model.
type Target struct {
	Provider string // names an entry of Config.Providers
	Model    string // the provider's name for the model
	Weight   int
	Priority int // smaller is tried first
	Fallback bool
	Pricing  Pricing         // what the provider charges; if Known it overrides the model's
	Options  json.RawMessage // an object: the provider's options, overridden by the target's
	When     *When           // nil: for every request
}

// Empty reports whether there are neither providers nor models.
func (c *Config) Empty() bool { return len(c.Providers) == 0 && len(c.Models) == 0 }

// Provider returns the provider with that name, nil if there is none.
func (c *Config) Provider(name string) *Provider {
	if i := slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == name }); i >= 0 {
		return &c.Providers[i]
	}
	return nil
}

// Plugin returns the plugin with that name, nil if there is none.
func (c *Config) Plugin(name string) *Plugin {
	if i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == name }); i >= 0 {
		return &c.Plugins[i]
	}
	return nil
}

// Load reads the file at path. Errors in its contents are an Errors.
func Load(path string, o Options) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, o)
}

// readAll reads a file of up to maxFile bytes, or one more. It allocates what the file needs, which may be large.
func readAll(f *os.File) ([]byte, error) {
	var b bytes.Buffer
	if s, err := f.Stat(); err == nil && s.Mode().IsRegular() {
		b.Grow(int(min(s.Size(), maxFile)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(f, maxFile+1))
	return b.Bytes(), err
}

// Parse parses a configuration, and reads the files that it includes. name is the file name in errors, and relative paths are joined to
// its directory. The error is an Errors. data is not retained.
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
	if o.Opening == nil {
		o.Opening = func(string) {}
	}
	d := &document{file: name, env: o.Env}
	root, whole := d.readTree(data, o.Opening)
	if !whole {
		return nil, d.failed()
	}
	l := newLoader(d, o)
	if o.Values {
		l.secrets = make(map[*node]bool)
	}
	l.load(table{d: d, n: root, path: &keyPath{}})
	if o.Values {
		l.cfg.Values = l.values(root, &keyPath{}, nil)
	}
	if len(d.errs) > 0 {
		return nil, d.failed()
	}
	l.cfg.Warnings, l.cfg.Included, l.cfg.Folders = d.warnings.sorted(), d.files, d.folders
	return l.cfg, nil
}

// loader builds a Config section by section.
type loader struct {
	d   *document
	o   Options
	cfg *Config

	teamNames       map[string]int // indexes into cfg.Teams
	plugins         map[string]int // indexes into cfg.Plugins
	providers       map[string]int // indexes into cfg.Providers
	pluginOptions   map[string]object
	providerOptions map[string]object
	targetOptions   []object  // of the model that is being read
	routerUse       routerUse // of [router]
	credentials     []credential
	listenAt        int // offset of server.listen
	optionTables    []optionTable
	scopes          []scope // with limits or budgets
	storeTable      table
	hasStore        bool           // store.url is in the file; it may be empty
	secrets         map[*node]bool // values that are credentials; nil unless Options.Values
}

func newLoader(d *document, o Options) *loader {
	return &loader{
		d: d, o: o, cfg: &Config{Path: d.file},
		teamNames: map[string]int{}, plugins: map[string]int{}, providers: map[string]int{}, pluginOptions: map[string]object{}, providerOptions: map[string]object{},
	}
}

// load reads the sections in the order in which they refer to each other. Free tables are searched for credentials last, when all
// credentials are known.
func (l *loader) load(root table) {
	root.look(includeKey) // readTree has read it
	l.server(root.table("server"))
	l.admin(root.table("admin"))
	l.responses(root.table("responses"))
	l.store(root.table("store"))
	l.teams(root.tables("teams"))
	l.keys(root.tables("keys"))
	l.pluginTables(root.table("plugins"))
	l.providerTables(root.table("providers"))
	l.router(root.table("router"))
	l.models(root.tables("models"))
	l.filters(root.tables("filters"))
	root.finish()
	l.checkOptions()
	l.access()
	l.checkScopes()
	l.searchCredentials()
	l.useless()
}

// relative joins a relative path, the value of n, to the folder of the file in which it is written.
func (l *loader) relative(n *node, file string) string {
	if n == nil {
		return file
	}
	return resolve(l.d.sourceOf(n.offset).file, file)
}
