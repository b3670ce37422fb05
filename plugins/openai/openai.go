package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[openai]() }

func main() {}

// openai is one provider that uses the plugin.
type openai struct {
	modelsPath string
	options    options // of the request at hand; a member so that it is not allocated
}

var (
	_ provider.Configurer = (*openai)(nil)
	_ provider.Lister     = (*openai)(nil)
)

// Configure checks the provider's options. What they say of a request comes again with each request, below the options
// of its target.
func (p *openai) Configure(settings json.Value) error {
	if err := p.options.parse(settings); err != nil {
		return err
	}
	p.modelsPath = "/models"
	if len(p.options.modelsPath) > 0 {
		p.modelsPath = string(p.options.modelsPath)
	}
	return nil
}

// Request edits the client's body for the upstream.
func (p *openai) Request(r *provider.Request) error {
	o := &p.options
	if err := o.parse(r.Options); err != nil {
		return err
	}
	path := "/chat/completions"
	if len(o.path) > 0 {
		path = string(o.path)
	}
	r.SetPath(path)
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.Expect(framing, abi.DialectOpenAI, o.answer)

	r.SetText("/model", r.Target)
	editStream(r, o)
	editMaxTokens(r, o)
	editThinking(r, o)
	editHistory(r, o)
	if len(o.developerRole) > 0 {
		r.Replace("/messages/*/role", `"developer"`, string(json.AppendString(nil, o.developerRole)))
	}
	drop(r, o.drop)
	set(r, o.set)
	return nil
}

// editStream asks for the usage of a stream.
func editStream(r *provider.Request, o *options) {
	switch {
	case !r.Stream:
	case o.noStreamUsage:
		r.Delete("/stream_options") // the gateway counts for itself then
	case r.IncludeUsage:
	case !r.Set("/stream_options/include_usage", []byte("true")):
		r.Set("/stream_options", []byte(`{"include_usage":true}`))
	}
}

// newNames are how the names of OpenAI's models begin that refuse max_tokens.
var newNames = [...]string{"o1", "o3", "o4", "gpt-5"}

func refusesMaxTokens(model []byte) bool {
	for _, name := range newNames {
		if len(model) >= len(name) && string(model[:len(name)]) == name {
			return true
		}
	}
	return false
}

// editMaxTokens leaves one member for the limit of the answer, under the name that the model takes.
func editMaxTokens(r *provider.Request, o *options) {
	wanted := string(o.maxTokensMember)
	if wanted == "" && refusesMaxTokens(r.Target) {
		wanted = "max_completion_tokens"
	}
	limit := r.Get("/max_completion_tokens")
	switch {
	case limit.Kind() == json.Number:
		r.Delete("/max_tokens")
		if wanted == "max_tokens" {
			r.Set("/max_tokens", limit)
			r.Delete("/max_completion_tokens")
		}
	case wanted == "max_completion_tokens" && r.Exists("/max_tokens"):
		// A null beside it would be in the way of the new name.
		if r.Exists("/max_completion_tokens") {
			r.Set("/max_completion_tokens", r.Get("/max_tokens"))
			r.Delete("/max_tokens")
		} else {
			r.Rename("/max_tokens", "max_completion_tokens")
		}
	}
}

// Budgets from which on thinking becomes an effort of medium and of high.
const (
	mediumBudget = 4096
	highBudget   = 16384
)

// editThinking makes a reasoning_effort of thinking.
func editThinking(r *provider.Request, o *options) {
	if o.thinking == thinkingKeep {
		return
	}
	thinking := r.Get("/thinking")
	if !thinking.Exists() {
		return
	}
	r.Delete("/thinking")
	if thinking.Kind() != json.Object {
		return
	}
	if o.thinking == thinkingDrop {
		r.Warn(abi.WarnDropped, "thinking")
		return
	}
	if thinking.Get("type").Is("disabled") {
		r.Warn(abi.WarnDropped, "thinking")
		if r.Delete("/reasoning_effort") {
			r.Warn(abi.WarnDropped, "reasoning_effort")
		}
		return
	}
	r.Warn(abi.WarnChanged, "thinking")
	if thinking.Get("type").Is("adaptive") && r.Has(sdk.FlagReasoning) {
		return // the effort beside it is what the client wants the model to adapt to
	}
	effort := "medium"
	if budget, ok := thinking.Get("budget_tokens").Int(); ok {
		switch {
		case budget < mediumBudget:
			effort = "low"
		case budget >= highBudget:
			effort = "high"
		}
	}
	r.SetText("/reasoning_effort", []byte(effort))
}

// editHistory removes what only the gateway's own convention has in messages.
func editHistory(r *provider.Request, o *options) {
	if r.Has(sdk.FlagReasoningHistory) {
		for i, member := range [...]string{"reasoning_content", "reasoning_details", "thinking_blocks"} {
			if o.keepReasoning&(1<<i) == 0 && r.Delete("/messages/*/"+member) {
				r.Warn(abi.WarnDropped, "messages[]."+member)
			}
		}
	}
	if r.Has(sdk.FlagCacheControl) && !o.cacheControl {
		message := r.Delete("/messages/*/cache_control")
		part := r.Delete("/messages/*/content/*/cache_control")
		tool := r.Delete("/tools/*/cache_control")
		if message || part || tool {
			r.Warn(abi.WarnDropped, "cache_control")
		}
	}
}

// drop removes what the operator says that the upstream does not take.
func drop(r *provider.Request, members json.Value) {
	if !members.Exists() {
		return
	}
	var in json.Reader
	in.Reset(members)
	for a := in.Array(); a.Next(); {
		name := string(in.Text())
		if name == "" {
			continue
		}
		path := name
		if name[0] != '/' {
			path = pointer([]byte(name))
		}
		if r.Delete(path) {
			r.Warn(abi.WarnDropped, name)
		}
	}
}

// set gives members the values that the operator wants.
func set(r *provider.Request, members json.Value) {
	if !members.Exists() {
		return
	}
	var in json.Reader
	in.Reset(members)
	for o := in.Object(); o.Next(); {
		path := pointer(in.Name())
		r.Set(path, in.Raw())
	}
}

// pointer is the JSON pointer of a member of the body.
func pointer(name []byte) string {
	p := []byte{'/'}
	for _, c := range name {
		switch c {
		case '~':
			p = append(p, "~0"...)
		case '/':
			p = append(p, "~1"...)
		default:
			p = append(p, c)
		}
	}
	return string(p)
}
