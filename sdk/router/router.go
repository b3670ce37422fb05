// Package router is the SDK for router plugins: a function that decides in which order the gateway tries the targets of a request.
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
// The gateway tries the candidates in order, until one succeeds or the client has received something. Targets that are not
// candidates are not tried. A router never sees the content of requests and responses.
//
// The function handles one request at a time and must not keep anything between calls: its result depends only on its input.
// If it returns a *sdk.Failure, the request is rejected; with any other error the gateway uses the configured order.
package router

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/internal/summary"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Target is a provider's model that can serve the request, with recent measurements.
type Target struct {
	Provider []byte
	Model    []byte // the provider's name for the model
	Weight   int64
	Priority int64 // lower is tried first
	Fallback bool  // tried only after the others
	Healthy  bool  // false during a cooldown after repeated failures

	InFlight    int64   // requests in flight
	Latency     int64   // average time to the first event in milliseconds; 0 if unknown
	ErrorRate   float64 // 0 to 1
	InputPrice  float64 // US dollars per million tokens; 0 if unknown
	OutputPrice float64
	Options     json.Value // the target's options in the configuration
}

// Choice is a request that needs a target. Its slices are valid during the call.
type Choice struct {
	sdk.Summary
	Settings json.Value // the router's settings in the configuration
	Targets  []Target
}

// Candidate adds the next target to try, by its index in Targets.
func (c *Choice) Candidate(index int) { host.Candidate(int32(index)) }

// Explain gives the operator a short reason for the order.
func (c *Choice) Explain(why string) { host.Explain(host.Bytes(why)) }

// Register makes choose the program's plugin. Call it in an init function. check may be nil; it is called once with the
// router's settings before any choice, and its error rejects the configuration.
func Register(choose func(c *Choice) error, check func(settings json.Value) error) {
	RegisterAs("", choose, check)
}

// RegisterAs is Register for a program with several plugins. The configuration selects a plugin of the module by its name.
func RegisterAs(name string, choose func(c *Choice) error, check func(settings json.Value) error) {
	guest.Register(name, func() guest.Guest { return &instance{choose: choose, check: check} })
}

// maxBindings is the maximum number of uses of one router in a configuration.
const maxBindings = 1 << 12

// instance is one instance of the plugin.
type instance struct {
	choose   func(c *Choice) error
	check    func(settings json.Value) error
	settings []json.Value // by binding; nil if not configured
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
