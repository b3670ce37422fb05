// Package router is what a router plugin is written with: one function that puts the targets of a request into the
// order in which the gateway tries them.
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
// The gateway tries the first candidate and goes on to the next one where a target fails before anything has been sent
// to the client. A target that is no candidate is not tried. A router never sees what clients and models say.
//
// The function is called with one request at a time and must keep nothing from one call to the next: its answer
// follows from what it is given. An error that is a *sdk.Failure refuses the request; with any other error the gateway
// orders the targets itself.
package router

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/internal/summary"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Target is one of the places that can answer a request, with what the gateway has seen of it lately.
type Target struct {
	Provider []byte
	Model    []byte // as the provider calls it
	Weight   int64
	Priority int64 // smaller is better
	Fallback bool  // only for when the others fail
	Healthy  bool  // false in a pause after repeated failures

	InFlight    int64   // requests that it is answering
	Latency     int64   // milliseconds to the first event, on average; 0 if nothing is known
	ErrorRate   float64 // 0 to 1
	InputPrice  float64 // US dollars for a million tokens; 0 if it is not known
	OutputPrice float64
	Options     json.Value // the target's table in the configuration
}

// Choice is a request that needs a target. Its slices are valid during the call.
type Choice struct {
	sdk.Summary
	Settings json.Value // the router's table in the configuration
	Targets  []Target
}

// Candidate names the target to try next by its index in Targets.
func (c *Choice) Candidate(index int) { host.Candidate(int32(index)) }

// Explain says in a few words why the order is what it is, for the operator.
func (c *Choice) Explain(why string) { host.Explain(host.Bytes(why)) }

// Register makes choose the program's plugin. It is called from an init function. check, which may be nil, is called
// once with the router's settings before any choice; its error keeps the gateway from using the configuration.
func Register(choose func(c *Choice) error, check func(settings json.Value) error) {
	RegisterAs("", choose, check)
}

// RegisterAs is Register for a program of several plugins: the module that is made of it holds all of them, and each is
// chosen by the name that it has in the configuration.
func RegisterAs(name string, choose func(c *Choice) error, check func(settings json.Value) error) {
	guest.Register(name, func() guest.Guest { return &instance{choose: choose, check: check} })
}

// maxBindings is how many times a configuration may use one router.
const maxBindings = 1 << 12

// instance is one instance of the plugin.
type instance struct {
	choose   func(c *Choice) error
	check    func(settings json.Value) error
	settings []json.Value // of each binding; nil if it was not configured
	choice   Choice
	summary  summary.Reader
}

var _ guest.Router = (*instance)(nil)

// Configure is the export sluice_configure.
func (i *instance) Configure(n int32, settings []byte) int32 {
	if n < 0 || n >= maxBindings {
		return guest.Failed
	}
	for int(n) >= len(i.settings) {
		i.settings = append(i.settings, nil)
	}
	own := append(json.Value{}, settings...)
	if i.check != nil {
		if err := i.check(own); err != nil {
			return guest.FinishCall(err, false)
		}
	}
	i.settings[n] = own
	return guest.OK
}

// Choose is the export router_choose.
func (i *instance) Choose(n int32, input []byte) int32 {
	if n < 0 || int(n) >= len(i.settings) || i.settings[n] == nil {
		return guest.Failed
	}
	c := &i.choice
	c.Summary, c.Settings, c.Targets = sdk.Summary{}, i.settings[n], c.Targets[:0]
	var r json.Reader
	r.Reset(input)
	i.read(&r)
	if err := r.End(); err != nil {
		return guest.FinishCall(err, false)
	}
	return guest.FinishCall(i.choose(c), false)
}

func (i *instance) read(r *json.Reader) {
	c := &i.choice
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "summary":
			i.summary.Read(&c.Summary, r)
		case "targets":
			for a := r.Array(); a.Next(); {
				c.Targets = append(c.Targets, Target{})
				c.Targets[len(c.Targets)-1].read(r)
			}
		}
	}
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
		}
	}
}
