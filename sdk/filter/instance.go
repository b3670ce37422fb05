package filter

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/summary"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Register makes *T the program's plugin. Call it in an init function. The SDK creates a T for each [[filters]] table
// that uses the plugin.
func Register[T any, P interface {
	*T
	Filter
}]() {
	RegisterAs[T, P]("")
}

// RegisterAs is like Register, for a program with several plugins: the configuration selects a plugin of the module by
// its name.
func RegisterAs[T any, P interface {
	*T
	Filter
}](name string) {
	guest.Register(name, func() guest.Guest { return &instance{newFilter: func() Filter { return P(new(T)) }} })
}

// maxBindings is the maximum number of uses of one filter in a configuration.
const maxBindings = 1 << 12

// binding is one use of the plugin: a configured filter, and the optional interface that it implements.
type binding struct {
	filter    Filter
	requester Requester // nil if the filter does not implement it
}

// instance is an instance of the plugin with all its bindings. It holds the arguments of the current call, so that
// calls do not allocate.
type instance struct {
	newFilter func() Filter
	bindings  []binding

	summary summary.Reader
	request Request
	text    Text
}

var _ guest.Filter = (*instance)(nil)

// Configure is the export sluice_configure.
func (i *instance) Configure(n int32, settings []byte) int32 {
	if n < 0 || n >= maxBindings {
		return guest.Failed
	}
	for int(n) >= len(i.bindings) {
		i.bindings = append(i.bindings, binding{})
	}
	f := i.newFilter()
	if c, ok := f.(Configurer); ok {
		if err := c.Configure(append(json.Value(nil), settings...)); err != nil {
			return guest.FinishConfigure(err)
		}
	}
	b := &i.bindings[n]
	b.filter = f
	b.requester, _ = f.(Requester)
	return guest.OK
}

// binding returns a configured binding, or an empty one.
func (i *instance) binding(n int32) *binding {
	if n < 0 || int(n) >= len(i.bindings) {
		return new(binding)
	}
	return &i.bindings[n]
}

// FilterParts is the export filter_reads.
func (i *instance) FilterParts(n int32) int32 {
	if i.binding(n).requester == nil {
		return 0
	}
	return int32(abi.FilterRequest)
}

// FilterRequest is the export filter_request.
func (i *instance) FilterRequest(n int32, document []byte) int32 {
	b := i.binding(n)
	if b.filter == nil {
		return guest.Failed
	}
	if b.requester == nil {
		return guest.OK
	}
	i.request = Request{}
	r := &i.request
	var in json.Reader
	in.ResetChecked(document)
	for o := in.Object(); o.Next(); {
		if string(in.Name()) == "summary" {
			s := in.Raw()
			if err := i.summary.Parse(&r.Summary, s); err != nil {
				return guest.FinishCall(err, false)
			}
			r.Key = json.Value(s).Get("key").Text()
		}
	}
	if err := in.End(); err != nil {
		return guest.FinishCall(err, false)
	}
	return guest.FinishCall(b.requester.Request(r), false)
}

// FilterText is the export filter_text.
func (i *instance) FilterText(n int32, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32 {
	b := i.binding(n)
	if b.filter == nil {
		return guest.Failed
	}
	t := &i.text
	*t = Text{What: what, Choice: choice, Flags: flags, Held: int(held), text: text}
	err := b.filter.Text(t)
	if err == nil && t.rejected != "" {
		err = rejectedImport(t.rejected)
	}
	return guest.FinishCall(err, false)
}
