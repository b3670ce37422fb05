package main

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/cmd/bench/provider"
)

// capability is what a request can need in addition to a plain one: a model, or a client key, with more configuration.
type capability struct {
	name  string
	model string  // keys of the model's table, after its id; %[1]q is the provider, %[2]q the plain model
	extra string  // tables for the model %[1]q
	key   string  // keys of the client key's table; "" for the usual client key
	goal  float64 // maximum ratio to a plain request

	// gateway has tables of a gateway of its own, for what all of its requests need. It replaces adminOff; %[1]q is the base
	// URL of a collector.
	gateway string
}

// adminOff keeps no recent requests.
const adminOff = "[admin]\nlisten = \"\"\n"

const adminOn = "[admin]\nlisten = \"127.0.0.1:0\"\n"

// The prices are those of the model, because each response has its cost, and the load generator expects equal responses.
const threeTargets = "pricing = { input = 1, output = 2 }\n" + `targets = [{ provider = %[1]q, model = %[2]q, weight = 3 }, { provider = %[1]q, model = "second", weight = 2 }, { provider = %[1]q, model = "third" }]` + "\n"

// capabilities are measured one by one.
var capabilities = []capability{
	{name: "three targets", model: "strategy = \"weighted\"\naffinity = \"none\"\n" + threeTargets, goal: 1.15},
	{name: "two rules", model: "strategy = \"weighted\"\naffinity = \"none\"\n" + threeTargets +
		`rules = [{ name = "images", when = { images = true }, targets = ["%[1]s/%[2]s"] }, { name = "long", when = { prompt_tokens = [100000] }, targets = ["%[1]s/second", "%[1]s/third"] }]` + "\n", goal: 1.2},
	{name: "affinity", model: "strategy = \"weighted\"\naffinity = \"conversation\"\n" + threeTargets, goal: 1.2},
	{name: "the filter secrets", extra: "[[filters]]\nplugin = \"secrets\"\non = [\"request\"]\nmodels = [%[1]q]\n", goal: 1.3},
	{name: "the filter blocklist", extra: "[[filters]]\nplugin = \"blocklist\"\non = [\"request\"]\nmodels = [%[1]q]\noptions = { phrases = [\"project x\", \"internal use only\"], action = \"refuse\" }\n", goal: 1.15},
	{name: "a budget", model: "pricing = { input = 1, output = 2 }\n", key: "budgets = [{ usd = 1000000, per = \"day\" }]\n", goal: 1.1},
	{name: "records", gateway: adminOn, goal: 1.02},
	{name: "records and traces", gateway: adminOn + "[telemetry]\notlp = %[1]q\ntraces = { sample = 0.1, per_second = 1000000 }\n", goal: 1.05},
}

// findGateway returns the capability whose gateway has this name, nil if there is none.
func findGateway(name string) *capability {
	for i := range capabilities {
		if c := &capabilities[i]; c.gateway != "" && c.slug() == name {
			return c
		}
	}
	return nil
}

// subject returns the name of the gateway that serves the requests.
func (c *capability) subject() string {
	if c.gateway != "" {
		return c.slug()
	}
	return sluice
}

// slug returns the capability's name as a part of identifiers.
func (c *capability) slug() string { return strings.ReplaceAll(c.name, " ", "-") }

// modelID returns the id of the model that needs the capability.
func (c *capability) modelID(dialect string) string {
	if c.gateway != "" {
		return models[dialect]
	}
	return models[dialect] + "-" + c.slug()
}

// credential returns the client key.
func (c *capability) credential() string {
	if c.key == "" {
		return provider.Credential
	}
	return provider.Credential + "-" + c.slug()
}

// toml returns the configuration of the capability for a provider.
func (c *capability) toml(dialect string) string {
	if c.gateway != "" {
		return ""
	}
	model := c.model
	if !strings.Contains(model, "targets = ") {
		model += "targets = [{ provider = %[1]q, model = %[2]q }]\n"
	}
	text := fmt.Sprintf("\n[[models]]\nid = %q\n", c.modelID(dialect)) + fmt.Sprintf(model, dialect, models[dialect])
	if c.extra != "" {
		text += "\n" + fmt.Sprintf(c.extra, c.modelID(dialect))
	}
	return text
}
