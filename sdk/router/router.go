// Package router is the SDK for router plugins: a function that decides in which order the gateway tries the targets of
// a request.
//
//	func init() { router.Register(first, nil) }
//
//	func main() {}
//
//	func first(c *router.Choice) error {
//		for i := range c.Targets {
//			c.Candidate(i)
//		}
//		c.Explain("as configured")
//		return nil
//	}
//
// The gateway tries the candidates in order until one succeeds or the client has received part of a response. Targets
// that are not candidates are not tried. A router never sees the contents of requests and responses.
//
// The function handles one request at a time and must not keep state between calls: its result depends only on its
// input. If it returns a *sdk.Failure, the request is rejected; after any other error the gateway uses the configured
// order.
package router

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/internal/summary"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Target is a provider's model that can serve the request, with recent measurements of its performance.
type Target struct {
	Provider []byte
	Model    []byte // the provider's name for the model
	Weight   int64
	Priority int64 // lower is tried first
	Fallback bool  // tried only after the others
	Healthy  bool  // false during a cooldown after repeated failures

	InFlight    int64      // requests in flight
	Latency     int64      // average time to the first event in milliseconds; 0 if unknown
	ErrorRate   float64    // 0 to 1
	InputPrice  float64    // US dollars per million tokens; 0 if unknown
	OutputPrice float64    // US dollars per million tokens; 0 if unknown
	Options     json.Value // the target's options in the configuration

	LimitedFor      int64   // milliseconds until the provider's rate limit ends; 0 if it is not limiting requests
	TokensPerSecond float64 // average speed of the output; 0 if unknown
	CachedShare     float64 // recent share of prompt tokens read from the provider's cache, 0 to 1; 0 if unknown
	CachesPrompts   bool    // the provider is known to cache prefixes of prompts

	// ExpectedCost is what the request probably costs at the target, in US dollars. It is unknown unless Priced is true:
	// for a target without a price, and on hosts before version 1.6 of the ABI.
	ExpectedCost float64
	Priced       bool

	// Measurements are what the provider reports about itself, as far as the configuration reads it (probe) and it is up to
	// date. They are unknown on hosts before version 1.7 of the ABI.
	Measurements []Measurement
}

// Measurement is a metric of a provider.
type Measurement struct {
	Name  []byte
	Value float64
}

// maxMeasurements is the maximum number of measurements of a target.
const maxMeasurements = 16

// Measurement returns the value of a metric of the target's provider. known is false if there is none.
func (t *Target) Measurement(name string) (value float64, known bool) {
	for i := range t.Measurements {
		if string(t.Measurements[i].Name) == name {
			return t.Measurements[i].Value, true
		}
	}
	return 0, false
}

// Choice is a request that needs a target. Its slices are valid until the call returns.
type Choice struct {
	sdk.Summary
	Settings json.Value // the router's settings in the configuration
	Targets  []Target

	Key     []byte     // name of the client's key; empty if the client has none
	Team    []byte     // team that the key belongs to; empty if none
	KeyTags json.Value // object: the key's tags with their values

	// Affinity is a hash that is the same for requests that should go to the same target. HasAffinity is false if the
	// model's affinity is none, or the request lacks the value to hash. All gateways agree on a target if the choice
	// depends only on Affinity; sdk/abi/README.md specifies how.
	Affinity    uint64
	HasAffinity bool

	// Conversation and User are hashes that identify the conversation and the end user named in the request; 0 if
	// unknown.
	Conversation, User uint64

	PromptTokens   int64 // estimated; 0 if unknown
	MaxTokensAsked int64 // the request's limit on completion tokens; 0 if it sets none
	Messages       int64 // number of messages in the request
	Images, Tools  int64 // number of images and of tools in the request

	// Metadata is the request's member metadata, and Headers contains headers of the client under their lower-case
	// names. Both are objects, reduced to what the configuration allows routers to read.
	Metadata, Headers json.Value

	// Unexplained is set if nobody reads the explanation, which then need not be written.
	Unexplained bool
}

// Candidate adds the next target to try, by its index in Targets.
func (c *Choice) Candidate(index int) { host.Candidate(int32(index)) }

// Explain gives operators a short reason for the order.
func (c *Choice) Explain(why string) {
	if !c.Unexplained {
		host.Explain(host.Bytes(why))
	}
}

// Policy is a router with the settings of one use in the configuration.
type Policy interface {
	// Reads returns what Choose reads of a Choice besides its numbers and the targets' names. Less is cheaper: with 0, a
	// Choice has only Stream, IncludeUsage, Random, Flags, BodySize, Affinity, the numbers of tokens, messages, images and
	// tools, and targets without Options, ExpectedCost and Measurements. Gateways before version 1.6 of the ABI provide everything that
	// they know.
	Reads() abi.RouterParts

	// Choose names the candidates.
	Choose(c *Choice) error
}

// The parts of a Choice that a Policy may read.
const (
	Costs    = abi.RouterCosts    // Target.ExpectedCost
	Hashes   = abi.RouterHashes   // Choice.Conversation and Choice.User
	Document = abi.RouterDocument // Target.Options and all other fields of Choice, which the plugin has to parse
	Measured = abi.RouterMeasured // Target.Measurements
)

// RegisterPolicy adds a router that parses its settings once for each use in the configuration. name is as for RegisterAs,
// or empty for a program's only plugin. An error from configure rejects the configuration.
func RegisterPolicy(name string, configure func(settings json.Value) (Policy, error)) {
	guest.Register(name, func() guest.Guest { return &instance{configure: configure} })
}

// Register makes choose the program's plugin. Call it in an init function. check may be nil; otherwise it is called
// with the router's settings before any choice, and an error from it rejects the configuration. RegisterPolicy makes
// calls cheaper.
func Register(choose func(c *Choice) error, check func(settings json.Value) error) {
	RegisterAs("", choose, check)
}

// RegisterAs is like Register, for a program with several plugins: the configuration selects a plugin of the module by
// its name.
func RegisterAs(name string, choose func(c *Choice) error, check func(settings json.Value) error) {
	RegisterPolicy(name, func(settings json.Value) (Policy, error) {
		if check != nil {
			if err := check(settings); err != nil {
				return nil, err
			}
		}
		return function(choose), nil
	})
}

// function is a Policy that may read everything.
type function func(c *Choice) error

func (function) Reads() abi.RouterParts   { return Costs | Hashes | Document | Measured }
func (f function) Choose(c *Choice) error { return f(c) }

// maxBindings is the maximum number of uses of one router in a configuration.
const maxBindings = 1 << 12

// instance is an instance of the plugin with the policies of all its bindings.
type instance struct {
	configure func(settings json.Value) (Policy, error)
	bindings  []binding
	choice    Choice
	summary   summary.Reader
	more      json.Members // the summary's members that sdk.Summary lacks
}

type binding struct {
	policy   Policy // nil if the binding is not configured
	settings json.Value
}

var _ guest.Router = (*instance)(nil)

// Configure is the export sluice_configure.
func (i *instance) Configure(n int32, settings []byte) int32 {
	if n < 0 || n >= maxBindings {
		return guest.Failed
	}
	for int(n) >= len(i.bindings) {
		i.bindings = append(i.bindings, binding{})
	}
	own := append(json.Value{}, settings...)
	policy, err := i.configure(own)
	if err != nil {
		return guest.FinishConfigure(err)
	}
	i.bindings[n] = binding{policy, own}
	return guest.OK
}

// binding returns a configured binding, or nil.
func (i *instance) binding(n int32) *binding {
	if n < 0 || int(n) >= len(i.bindings) || i.bindings[n].policy == nil {
		return nil
	}
	return &i.bindings[n]
}

// Reads is the export router_reads.
func (i *instance) Reads(n int32) int32 {
	b := i.binding(n)
	if b == nil {
		return -1
	}
	return int32(b.policy.Reads())
}

// Choose is the export router_choose.
func (i *instance) Choose(n int32, input []byte) int32 {
	b := i.binding(n)
	if b == nil {
		return guest.Failed
	}
	c := &i.choice
	*c = Choice{Settings: b.settings, Targets: c.Targets[:0]}
	document := input
	if isCompact(input) {
		var ok bool
		if document, ok = c.readCompact(input); !ok {
			return guest.FinishCall(errCompact, false)
		}
	}
	if len(document) > 0 {
		var r json.Reader
		r.Reset(document)
		i.read(&r)
		if err := r.End(); err != nil {
			return guest.FinishCall(err, false)
		}
	}
	return guest.FinishCall(b.policy.Choose(c), false)
}

func (i *instance) read(r *json.Reader) {
	c := &i.choice
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "summary":
			i.readSummary(r)
		case "targets":
			for a := r.Array(); a.Next(); {
				c.Targets = append(c.Targets, Target{})
				c.Targets[len(c.Targets)-1].read(r)
			}
		}
	}
}

// The members of a router's summary that sdk.Summary lacks.
const (
	key = iota
	team
	keyTags
	affinity
	conversation
	user
	promptTokens
	maxTokensAsked
	messages
	images
	tools
	metadata
	headers
)

var shape = json.NewShape("key", "team", "key_tags", "affinity", "conversation", "user", "prompt_tokens", "max_tokens_asked", "messages", "images",
	"tools", "metadata", "headers")

func (i *instance) readSummary(r *json.Reader) {
	c, m, again := &i.choice, &i.more, *r
	i.summary.Read(&c.Summary, r)
	again.Members(m, shape)
	c.Key, c.Team, c.KeyTags = m.Text(key), m.Text(team), m.Raw(keyTags)
	c.HasAffinity = m.Has(affinity)
	c.Affinity, c.Conversation, c.User = summary.ParseHex(m.Inside(affinity)), summary.ParseHex(m.Inside(conversation)), summary.ParseHex(m.Inside(user))
	c.PromptTokens, _ = m.Int(promptTokens)
	c.MaxTokensAsked, _ = m.Int(maxTokensAsked)
	c.Messages, _ = m.Int(messages)
	c.Images, _ = m.Int(images)
	c.Tools, _ = m.Int(tools)
	c.Metadata, c.Headers = m.Raw(metadata), m.Raw(headers)
}

func (t *Target) read(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "provider":
			t.Provider = r.Text()
		case "model":
			t.Model = r.Text()
		case "weight":
			t.Weight, _ = r.Int()
		case "priority":
			t.Priority, _ = r.Int()
		case "fallback":
			t.Fallback, _ = r.Bool()
		case "healthy":
			t.Healthy, _ = r.Bool()
		case "inflight":
			t.InFlight, _ = r.Int()
		case "latency_ms":
			t.Latency, _ = r.Int()
		case "error_rate":
			t.ErrorRate, _ = r.Float()
		case "input_price":
			t.InputPrice, _ = r.Float()
		case "output_price":
			t.OutputPrice, _ = r.Float()
		case "options":
			t.Options = r.Raw()
		case "limited_for_ms":
			t.LimitedFor, _ = r.Int()
		case "tokens_per_second":
			t.TokensPerSecond, _ = r.Float()
		case "cached_share":
			t.CachedShare, _ = r.Float()
		case "caches_prompts":
			t.CachesPrompts, _ = r.Bool()
		case "expected_cost":
			t.ExpectedCost, t.Priced = r.Float()
		case "measurements":
			for m := r.Object(); m.Next(); {
				name := r.Name()
				if value, ok := r.Float(); ok && len(t.Measurements) < maxMeasurements {
					t.Measurements = append(t.Measurements, Measurement{name, value})
				}
			}
		}
	}
}
