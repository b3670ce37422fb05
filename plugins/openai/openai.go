package openai

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[openai]("openai") }

// openai is a provider that uses the plugin.
type openai struct {
	modelsPath string // path of the model list; empty if the upstream has none
	forms      abi.Forms
	options    options // options of the current request; a field so that it is not allocated
	history    history // likewise

	// For requests that are translated. Only buffers are reused; no data outlives a call.
	translation translation
	reader      json.Reader
}

var (
	_ provider.Configurer    = (*openai)(nil)
	_ provider.Former        = (*openai)(nil)
	_ provider.SummaryReader = (*openai)(nil)
	_ provider.Lister        = (*openai)(nil)
)

// Configure checks the provider's options. Each request contains them again, overridden by the options of its target.
func (p *openai) Configure(settings json.Value) error {
	if err := p.options.read(settings); err != nil {
		return err
	}
	p.forms = p.options.forms
	p.modelsPath = ""
	if !p.options.noList {
		p.modelsPath = p.options.expandPath(p.options.modelsPath, "/models", nil)
	}
	return nil
}

// Forms returns the forms of requests, besides chat completions, that the upstream accepts.
func (p *openai) Forms() abi.Forms { return p.forms }

// SummaryParts returns what requests depend on besides the client's body.
func (p *openai) SummaryParts() abi.SummaryParts { return 0 }

// Request edits the client's body for the upstream.
func (p *openai) Request(r *provider.Request) error {
	o := &p.options
	if err := o.read(r.Options); err != nil {
		return err
	}
	if r.Form == abi.FormResponses {
		return passResponses(r, o)
	}
	if done, err := passCall(r, o); done {
		return err
	}
	if o.responses {
		return p.translateRequest(r, o)
	}
	if err := checkSupported(r, o); err != nil {
		return err
	}
	r.SetPath(o.expandPath(o.path, "/chat/completions", r.Target))
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.Expect(framing, abi.DialectOpenAI, o.answer)

	r.SetText("/model", r.Target)
	editStream(r, o)
	editMaxTokens(r, o)
	editThinking(r, o)
	dropForeign(r, o)
	if r.Has(sdk.FlagTools) && r.Get("/tool_choice").Is("any") && !o.accepts("tool_choice", `"any"`) {
		r.Set("/tool_choice", []byte(`"required"`))
	}
	if len(o.developerRole) > 0 {
		r.Replace("/messages/*/role", `"developer"`, string(json.AppendString(nil, o.developerRole)))
	}
	if err := p.history.edit(r, o); err != nil {
		return err
	}
	renameMembers(r, o.rename)
	dropMembers(r, o.drop)
	setMembers(r, o.set)
	return nil
}

// editStream requests usage for a stream.
func editStream(r *provider.Request, o *options) {
	switch {
	case !r.Stream:
	case o.noStreamUsage:
		r.Delete("/stream_options") // the gateway then counts tokens itself
	case r.IncludeUsage:
	case !r.Set("/stream_options/include_usage", []byte("true")):
		r.Set("/stream_options", []byte(`{"include_usage":true}`))
	}
}

// noMaxTokens are name prefixes of the OpenAI models that reject max_tokens.
var noMaxTokens = [...]string{"o1", "o3", "o4", "gpt-5"}

func rejectsMaxTokens(model []byte) bool {
	for _, name := range noMaxTokens {
		if len(model) >= len(name) && string(model[:len(name)]) == name {
			return true
		}
	}
	return false
}

// editMaxTokens leaves one member for the limit of the response, under the name that the model accepts. It removes -1,
// which means no limit, unless the upstream accepts it.
func editMaxTokens(r *provider.Request, o *options) {
	wanted := string(o.maxTokensMember)
	if wanted == "" && rejectsMaxTokens(r.Target) {
		wanted = "max_completion_tokens"
	}
	limit := r.Get("/max_completion_tokens")
	if !o.accepts("max_tokens", "-1") {
		if string(limit) == "-1" {
			r.Delete("/max_completion_tokens")
			limit = nil
		}
		// Replacing -1 blindly costs less than reading the value first.
		if r.Replace("/max_tokens", "-1", "null") {
			r.Delete("/max_tokens")
			if limit.Kind() != json.Number {
				return
			}
		}
	}
	switch {
	case limit.Kind() == json.Number:
		r.Delete("/max_tokens")
		if wanted == "max_tokens" {
			r.Set("/max_tokens", limit)
			r.Delete("/max_completion_tokens")
		}
	case wanted == "max_completion_tokens" && r.Exists("/max_tokens"):
		// A null under the new name would prevent the rename.
		if r.Exists("/max_completion_tokens") {
			r.Set("/max_completion_tokens", r.Get("/max_tokens"))
			r.Delete("/max_tokens")
		} else {
			r.Rename("/max_tokens", "max_completion_tokens")
		}
	}
}
