// Package config parses gateway.toml into an immutable Config with all defaults filled in, or returns all errors in the
// file at once, each with line, column and key.
//
// It owns the syntax, the expansion of variables, the defaults, the presets, the reference of all keys, and every check
// that needs neither the network nor a plugin. It does not load plugins, open listeners or read the environment:
// variables come from Options.Env.
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
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// maxFile limits the size of a file, in bytes. A hundred thousand keys take 15 MB.
const maxFile = 128 << 20

// Options are the inputs of a configuration besides its text.
type Options struct {
	Env     func(name string) (value string, ok bool) // looks up environment variables; nil means that none is set
	Bundled []string                                  // names of the plugins built into the binary
	Now     time.Time                                 // for warnings about expired keys; zero: time.Now()
	// ReadFile reads certificates and credential files, to check them. nil reads them from disk.
	ReadFile func(name string) ([]byte, error)
	Listen   string // overrides server.listen unless empty
	// Opening is called with each included file, and each folder that is searched for files to include, before it is
	// read.
	Opening func(name string)
	// OptionsSchema returns the JSON Schema of a plugin's options, or nil if it has none. The Config has its Server and
	// Registries. If OptionsSchema is nil, Parse does not check options.
	OptionsSchema func(*Config, *Plugin) []byte
	// ResolveTag returns the digest that a tag names now, for the error about a plugin that is named by tag. The Config
	// has its Server and Registries. ResolveTag may be nil.
	ResolveTag func(c *Config, reference string) (digest string, err error)
	// Bundle returns the bundle that the node runs, nil for none. The Config has its Bundle, Registries and Store. If
	// Bundle is nil, there is none.
	Bundle      func(*Config) (*BundleText, error)
	publishing  bool // see CheckBundle
	Values      bool // whether to fill in Config.Values
	PluginsOnly bool // reads only [plugins] and server.cache_dir; variables and files of other keys may be missing
	// Dev is for authors of plugins: plugin files need no sha256, and listeners must not be reachable from other
	// machines.
	Dev bool
	// Unpinned is for commands that inspect or test plugins: plugin files need no sha256.
	Unpinned bool
}

// Config is a complete configuration. Options and Settings, which plugins can read, contain no credential.
type Config struct {
	Path      string   // as passed to Load or Parse
	Digest    string   // SHA-256 of the main file and the included ones, one after another, in hexadecimal
	Included  []string // included files, in the order in which they are merged, and the price list
	PriceFile string   // the operator's price list; "" if there is none
	Folders   []string // folders that are searched for files to include
	Server    Server
	Admin     Admin
	Responses Responses
	Store     Store
	Telemetry Telemetry
	Alerts    Alerts
	Teams     []Team
	Keys      []Key
	Identification
	Plugins    []Plugin // declared plugins, and bundled plugins that are referred to
	Registries []Registry
	Bundle     *Bundle // nil if the node follows no bundle
	Providers  []Provider
	Models     []Model
	Filters    []Filter // in the order in which they run
	Router     Router
	Warnings   Errors // settings that are valid, but probably not intended
	Values     []Value

	prices priceLists
}

// Server is the table [server]; see Reference for all keys.
type Server struct {
	Listen          string
	Auth            string        // AuthKeys or AuthNone
	KeyHeaders      []string      // headers that may carry a client's key besides Authorization, lower case
	ReasoningKey    Secret        // authenticates reasoning that clients keep; empty for a random key
	TLS             *TLS          // nil for plain HTTP
	MaxBody         int64         // maximum bytes of a request body
	MaxConns        int           // maximum client connections; 0 derives it from the machine
	Strict          bool          // reject a max_tokens above the model's, instead of lowering it
	MaxWrongKeys    int64         // invalid API keys allowed per minute and address; 0 for unlimited
	MaxRequests     int           // maximum chat completions in flight; 0 derives it from the machine
	MaxBodyMemory   int64         // maximum bytes of all large bodies; 0 derives it from the machine
	MaxQueue        int           // maximum plugin calls waiting for an instance
	ReadTimeout     time.Duration // for reading a whole request
	IdleTimeout     time.Duration // between requests on a connection
	WriteTimeout    time.Duration // of each write
	Heartbeat       time.Duration // interval of comments on silent streams; 0 disables them
	DrainDelay      time.Duration // how long the gateway continues to serve during a shutdown, while not ready
	ShutdownTimeout time.Duration // how long requests in flight may take after DrainDelay
	CacheDir        string        // directory of compiled plugins; "" lets the caller choose
	LogFormat       string        // "text" or "json"
	LogLevel        string        // "debug", "info", "warn" or "error"
	AccessLog       string        // file of the access log; "" for the log
}

// The values of Server.Auth.
const (
	AuthKeys = "keys" // requests need a client key
	AuthNone = "none" // every request is accepted
)

// Key is an entry of [[keys]]: a client or a group of clients.
type Key struct {
	Name      string
	Secret    Secret      // "" if only the digest is configured
	File      string      // file that Secret was read from; "" if it is in the configuration or the environment
	Digest    Digest      // SHA-256 of the secret, always set; the first of Digests, if there are any
	Digests   []KeyDigest // of several secrets; empty if the key has one
	Models    []Glob      // models that the key may use; empty for none
	NotBefore time.Time
	Expires   time.Time // end of validity; zero for never
	Disabled  bool
	Limits    Limits
	Budgets   []Budget
	Team      string            // name of an entry of Config.Teams, or "" for none
	Tags      map[string]string // nil if there are none
	Explain   bool              // clients with the key may ask how their requests are routed
	Users     *Users            // nil if the clients of the key are not told apart
	Pos       Position
}

// KeyDigest is the digest of one of several secrets of a key.
type KeyDigest struct {
	Digest  Digest
	Expires time.Time // end of the secret's validity; zero for that of the key
}

// Team is an entry of [[teams]]: a group of client keys.
type Team struct {
	Name    string
	Limits  Limits // for all keys of the team together
	Budgets []Budget
	Pos     Position
}

// Plugin is an entry of [plugins], or a bundled plugin with its defaults.
type Plugin struct {
	Name        string
	File        string        // "" for a bundled plugin; relative paths are joined to the configuration's folder
	Reference   oci.Reference // names the plugin in a registry, and is File as text; the zero value for a file on disk
	SHA256      string        // digest of the file, 64 lower-case hexadecimal digits; "" for a bundled plugin
	Unpinned    bool          // SHA256 is not configured but was computed when the configuration was read; "" if the file could not be read
	Isolation   string        // IsolationShared, IsolationKey or IsolationCall
	MemoryPages uint32        // limit of an instance's memory, in pages of 64 KiB; 0 for the engine's default
	InUse       bool          // the router, a filter or a provider that is on uses the plugin
	Pos         Position
}

// The values of Plugin.Isolation.
const (
	IsolationShared = "shared" // an instance is never reset
	IsolationKey    = "key"    // an instance is reset before it serves another key
	IsolationCall   = "call"   // an instance is reset before every call
)

// Provider is an entry of [providers].
type Provider struct {
	Name          string
	Plugin        string // name of an entry of Config.Plugins
	BaseURL       string // without a trailing slash; "" for a plugin that needs no upstream
	Auth          Auth
	Timeout       Timeout
	Heartbeat     time.Duration // interval of comments on silent streams; 0 disables them
	Pace          time.Duration // pause between the events of a stream that the plugin generates without an upstream; 0 for none
	Breaker       Breaker
	RetryBudget   float64 // retries on another model of this provider, as a share of all requests, 0 to 1
	ListModels    ListModels
	Probe         *Probe   // nil if the provider is not measured
	Direct        bool     // clients may name models that are configured as targets at the provider NAME/MODEL
	Paths         []string // upstream paths that the plugin may request
	Headers       []string // request headers that the plugin may set, lower case
	MaxConns      int
	MaxEvent      int             // maximum bytes of one event of a stream
	CachesPrompts bool            // the upstream caches prompt prefixes, which makes later requests cheaper or faster
	Free          bool            // the plugin responds without an upstream, which costs nothing
	PriceLists    []string        // plugins or presets whose price lists apply to its models; the first one that has a model
	SharedObjects bool            // requests may refer to any object of the account, such as files
	AllowPrivate  bool            // the base URL may resolve to private and loopback addresses
	Trace         bool            // requests carry their trace context
	Options       json.RawMessage // a JSON object: the preset's options, overridden by the plugin's, then by the provider's
	Limits        Limits
	Budgets       []Budget
	Off           string // human-readable reason why the provider is off; "" if it is on
	Pos           Position
}

// Probe reads metrics of a provider, for routers.
type Probe struct {
	Path  string // from the root of the host in the base URL
	Every time.Duration
	Read  []string // names of the metrics; at least one
}

// Auth is a provider's credential. It is one of: secrets, with the header and its prefix or the query parameter that
// carries one of them; the keys for an AWS signature; or the source of a Google token.
type Auth struct {
	Header  string
	Prefix  string
	Query   string
	Secrets []FileSecret // one per account; if empty, no credential is sent
	AWS     *AWS
	Google  *Google
}

// FileSecret is a secret that may come from a file.
type FileSecret struct {
	Secret
	File string // "" if the secret is in the configuration or the environment
}

// AWS configures AWS signatures. The keys are configured here or in the profile. Otherwise the SDK's default credential
// chain finds them.
type AWS struct {
	Region          string // not empty if the provider is on
	Service         string
	Profile         string
	AccessKeyID     Secret
	SecretAccessKey Secret
	SessionToken    Secret   // may be empty
	Files           []string // files from which keys and token were read
}

// Google is the source of a Google token.
type Google struct {
	File     string   // credentials file; "" for the metadata server
	Metadata string   // host of the metadata server; "" for the default
	Scopes   []string // empty means cloud-platform
}

// Timeout holds the timeouts of one attempt at a provider. All but Event are positive.
type Timeout struct {
	Connect   time.Duration
	TLS       time.Duration
	FirstByte time.Duration
	Idle      time.Duration // between two reads of the response
	Event     time.Duration // between two complete events of a stream; 0 disables it
	Total     time.Duration
	Write     time.Duration // of each write
}

// Breaker configures the circuit breaker of each target of a provider.
type Breaker struct {
	Failures int     // consecutive failures that open the circuit; 0 disables the breaker
	Share    float64 // share of failed attempts within Window that opens the circuit, 0 to 1
	Window   time.Duration
	Pause    time.Duration // how long the circuit stays open at first
	MaxPause time.Duration
}

// ListModels configures whether clients are offered the models that a provider lists.
type ListModels struct {
	Enabled bool
	Every   time.Duration // how long a list is fresh
	Only    []Glob        // models to offer; empty for all
	Direct  bool          // clients may also name them NAME/MODEL
}

// Model is an entry of [[models]].
type Model struct {
	ID               string
	DisplayName      string
	OwnedBy          string
	Created          int64   // Unix seconds
	Pricing          Pricing // shown to clients; each target has its own
	MaxTokens        int64   // 0 if unknown
	MaxImageTokens   int64   // maximum tokens of one image; 0 derives it from the name of the target's model
	TokensPerByte    float64 // maximum tokens of a byte of a prompt's text, above 0 and at most 1
	DefaultMaxTokens int64   // max_tokens to request if the provider requires it and the client sent none; 0 for none
	Thinking         bool
	Kinds            Kinds    // kinds of requests that it serves
	Targets          []Target // at least one
	Off              string   // human-readable reason why no target is available; "" if one is
	Router           ModelRouter
	Affinity         Affinity // never AffinityDefault
	Rules            []Rule   // the first match applies
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
	Input, Output float64 // rounded, and without the tiers for long prompts
	Known         bool
	Prices        *cost.Prices // all prices, exact; nil if not Known
	Source        PriceSource
}

// Target is a provider's model that serves a model.
type Target struct {
	Provider string // name of an entry of Config.Providers
	Model    string // the provider's name for the model
	Weight   int
	Priority int // smaller values are tried first
	Fallback bool
	Pricing  Pricing         // what the provider charges: the target's, the model's, or a price list's
	Options  json.RawMessage // a JSON object: the provider's options, overridden by the target's
	When     *When           // nil matches every request
}

// Empty reports whether there are neither providers nor models, nor a bundle that will have them.
func (c *Config) Empty() bool { return len(c.Providers) == 0 && len(c.Models) == 0 && c.Bundle == nil }

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

// Load reads and parses the file at path. If its contents are invalid, the error is an Errors.
func Load(path string, o Options) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, o)
}

// readAll reads up to maxFile+1 bytes of a file, so that the caller notices a larger one. It allocates the file's size
// at once.
func readAll(f *os.File) ([]byte, error) {
	var b bytes.Buffer
	if s, err := f.Stat(); err == nil && s.Mode().IsRegular() {
		b.Grow(int(min(s.Size(), maxFile)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(f, maxFile+1))
	return b.Bytes(), err
}

// Parse parses a configuration, and reads the files that it includes. name is the file name in errors, and relative
// paths are relative to its directory. The error is an Errors. Parse does not retain data.
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
	d := &document{file: name, env: o.Env, pluginsOnly: o.PluginsOnly}
	root, complete := d.readTree(data, o.Opening)
	if !complete {
		return nil, d.sortedErrors()
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
		return nil, d.sortedErrors()
	}
	l.cfg.Warnings, l.cfg.Included, l.cfg.Folders, l.cfg.Digest = d.warnings.sorted(), d.files, d.folders, d.digest()
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
	targetOptions   []object  // options of the targets of the model that is being read
	routerUse       routerUse // plugin and settings of [router]
	credentials     []credential
	listenAt        int // offset of server.listen
	optionTables    []optionTable
	optionSets      []optionSet
	scopes          []scope                   // scopes that have limits or budgets
	keyTargets      map[string][]pricedTarget // results of targetsOf for keys, by their patterns
	storeTable      table
	pseudonyms      []table        // tables with pseudonym = true
	hasStore        bool           // store.url is in the file; it may be empty
	secrets         map[*node]bool // values that are credentials; nil unless Options.Values
}

func newLoader(d *document, o Options) *loader {
	return &loader{
		d: d, o: o, cfg: &Config{Path: d.file},
		teamNames: map[string]int{}, plugins: map[string]int{}, providers: map[string]int{}, pluginOptions: map[string]object{}, providerOptions: map[string]object{},
		keyTargets: map[string][]pricedTarget{},
	}
}

// load reads each section after those that it refers to. Free tables are searched for credentials last, when all
// credentials are known.
func (l *loader) load(root table) {
	if l.o.PluginsOnly {
		server := root.table("server")
		l.cacheDir(&server)
		l.registries(root.table("registries"))
		l.pluginTables(root.table("plugins"))
		return
	}
	root.lookUp(includeKey) // marks it as known; readTree has read it
	l.registries(root.table("registries"))
	l.store(root.table("store"))
	l.bundle(&root)
	l.server(root.table("server"))
	l.admin(root.table("admin"))
	l.responses(root.table("responses"))
	l.telemetry(root.table("telemetry"))
	l.alerts(root.table("alerts"))
	l.teams(root.tables("teams"))
	l.keys(root.tables("keys"))
	l.issuers(root.tables("issuers"))
	l.identities(root.tables("identities"))
	l.authorization(root.table("authorization"))
	l.pluginTables(root.table("plugins"))
	providers := root.table("providers")
	l.providerTables(providers)
	l.checkSecretHosts(providers)
	l.router(root.table("router"))
	l.checkPseudonyms()
	l.models(root.tables("models"))
	l.priceFile(root.table("pricing"))
	l.priceTargets()
	l.filters(root.tables("filters"))
	root.finish()
	l.checkOptions()
	l.resolveAuth()
	l.checkScopes()
	l.searchCredentials()
	l.warnUselessKeys()
}

// relative resolves a relative path, the value of n, against the folder of the file that contains it.
func (l *loader) relative(n *node, file string) string {
	if n == nil {
		return file
	}
	return resolve(l.d.sourceOf(n.offset).file, file)
}
