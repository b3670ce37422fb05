package plugindev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// targetsFile is the input of a router's vector: the document that router_choose gets.
const targetsFile = "targets.json"

// Route is a vector of a router: a request's summary and its targets, which the router orders.
type Route struct {
	Name    string
	Dir     string
	Input   []byte
	targets int
	more    struct {
		Settings json.RawMessage `json:"settings"`
	}
}

func loadRoute(base, dir string) (*Route, error) {
	name, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, err
	}
	r := &Route{Name: filepath.ToSlash(name), Dir: dir}
	if r.Input, err = os.ReadFile(filepath.Join(dir, targetsFile)); err != nil {
		return nil, err
	}
	if err := r.parse(); err != nil {
		return nil, fmt.Errorf("%s: %w", targetsFile, err)
	}
	more, err := readOptional(dir, "vector.json")
	if err != nil || more == nil {
		return r, err
	}
	if err := decodeStrict(more, &r.more); err != nil {
		return nil, fmt.Errorf("vector.json: %w", err)
	}
	return r, nil
}

// ReadRoute returns a route for the document that a router gets.
func ReadRoute(document []byte) (*Route, error) {
	r := &Route{Input: document}
	return r, r.parse()
}

// parse counts the targets in the document.
func (r *Route) parse() error {
	var document struct {
		Targets []json.RawMessage `json:"targets"`
	}
	if err := json.Unmarshal(r.Input, &document); err != nil {
		return err
	}
	r.Input, r.targets = bytes.TrimSpace(r.Input), len(document.Targets)
	return nil
}

func (r *Route) name() string              { return r.Name }
func (r *Route) dir() string               { return r.Dir }
func (r *Route) settings() json.RawMessage { return r.more.Settings }

func (r *Route) outcome(b *Binding) outcome {
	p := b.binding.Plugin()
	before := p.Stats().Fuel
	order, why, err := b.binding.Choose(context.Background(), r.Input, r.targets)
	cost := Cost{Request: p.Stats().Fuel - before}
	cost.addCall(cost.Request, plugin.DefaultEventFuel, len(r.Input))
	if err != nil {
		return outcome{text: "-- error --\n" + err.Error() + "\n", failure: callFailure(err), cost: cost}
	}
	text := "-- order --\n" + strings.Trim(fmt.Sprint(order), "[]") + "\n"
	if why != "" {
		text += "-- explain --\n" + why + "\n"
	}
	o := outcome{text: text, cost: cost}
	if len(order) == 0 && r.targets > 0 {
		o.mistakes = append(o.mistakes, abi.ExportChoose+": no target was named, so the gateway uses the configured order, or rejects the request if on_failure is \"refuse\": call candidate for each target to try")
	}
	if cost.Share > MaxShare {
		o.problems = append(o.problems, budgetProblem(cost.Share))
	}
	return o
}

func (r *Route) variants(*Binding, func(variant, want, got string)) {}
