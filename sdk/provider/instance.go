package provider

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/summary"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Register makes *T the program's plugin. Call it in an init function. The SDK creates a T for each provider of the
// configuration that uses the plugin.
func Register[T any, P interface {
	*T
	Provider
}]() {
	RegisterAs[T, P]("")
}

// RegisterAs is like Register, for a program with several plugins: the configuration selects a plugin of the module by
// its name.
func RegisterAs[T any, P interface {
	*T
	Provider
}](name string) {
	guest.Register(name, func() guest.Guest { return newInstance(func() Provider { return P(new(T)) }) })
}

// maxBindings is the maximum number of providers that may use one plugin.
const maxBindings = 1 << 12

// binding is one use of the plugin: a configured provider, and the optional interfaces that it implements.
type binding struct {
	provider Provider
	reader   Reader
	ender    Ender
	lister   Lister
}

// instance is an instance of the plugin with all its bindings. It holds the arguments of the current call, so that
// calls do not allocate.
type instance struct {
	newProvider func() Provider
	bindings    []binding

	summary summary.Reader
	request Request
	answer  Answer
	event   Event
	list    List
	models  Models
}

var _ guest.Provider = (*instance)(nil)

func newInstance(newProvider func() Provider) *instance { return &instance{newProvider: newProvider} }

// binding returns a configured binding, or an empty one.
func (i *instance) binding(n int32) *binding {
	if n < 0 || int(n) >= len(i.bindings) {
		return new(binding)
	}
	return &i.bindings[n]
}

// Configure is the export sluice_configure.
func (i *instance) Configure(n int32, settings []byte) int32 {
	if n < 0 || n >= maxBindings {
		return guest.Failed
	}
	for int(n) >= len(i.bindings) {
		i.bindings = append(i.bindings, binding{})
	}
	p := i.newProvider()
	if c, ok := p.(Configurer); ok {
		if err := c.Configure(append(json.Value(nil), settings...)); err != nil {
			return guest.FinishConfigure(err)
		}
	}
	b := &i.bindings[n]
	b.provider = p
	b.reader, _ = p.(Reader)
	b.ender, _ = p.(Ender)
	b.lister, _ = p.(Lister)
	return guest.OK
}

// Forms is the export sluice_forms.
func (i *instance) Forms(n int32) int32 {
	if f, ok := i.binding(n).provider.(Former); ok {
		return int32(f.Forms())
	}
	return int32(abi.FormChat)
}

// SummaryParts is the export provider_reads.
func (i *instance) SummaryParts(n int32) int32 {
	if r, ok := i.binding(n).provider.(SummaryReader); ok {
		return int32(r.SummaryParts())
	}
	return int32(abi.SummaryPartsKnown)
}

// Request is the export provider_request.
func (i *instance) Request(n int32, document []byte) int32 {
	b := i.binding(n)
	if b.provider == nil {
		return guest.Failed
	}
	r := &i.request
	r.reset()
	if err := i.summary.Parse(&r.Summary, document); err != nil {
		return guest.FinishCall(err, false)
	}
	return guest.FinishCall(r.finish(b.provider.Request(r)), false)
}

// Response is the export provider_response.
func (i *instance) Response(n, status int32, body []byte) int32 {
	b := i.binding(n)
	if b.reader == nil {
		return guest.Failed
	}
	i.answer.store = i.answer.store[:0]
	return guest.FinishCall(b.reader.Response(&i.answer, int(status), body), true)
}

// Event is the export provider_event.
func (i *instance) Event(n int32, kind abi.EventKind, name, data []byte) int32 {
	b := i.binding(n)
	if b.reader == nil {
		return guest.Failed
	}
	i.answer.store = i.answer.store[:0]
	i.event = Event{Kind: kind, Name: name, Data: data}
	return guest.FinishCall(b.reader.Event(&i.answer, &i.event), true)
}

// End is the export provider_end.
func (i *instance) End(n int32) int32 {
	b := i.binding(n)
	if b.ender == nil {
		return guest.OK
	}
	i.answer.store = i.answer.store[:0]
	return guest.FinishCall(b.ender.End(&i.answer), true)
}

// List is the export provider_list.
func (i *instance) List(n int32, cursor []byte) int32 {
	b := i.binding(n)
	if b.lister == nil {
		return guest.OK
	}
	i.list = List{}
	return guest.FinishCall(i.list.finish(b.lister.List(&i.list, cursor)), false)
}

// Models is the export provider_models.
func (i *instance) Models(n, status int32, body []byte) int32 {
	b := i.binding(n)
	if b.lister == nil {
		return guest.OK
	}
	i.models.store = i.models.store[:0]
	return guest.FinishCall(b.lister.Models(&i.models, int(status), body), true)
}
