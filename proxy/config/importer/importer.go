// Package importer translates the configurations of other gateways, LiteLLM and Bifrost, to a gateway.toml.
//
// Each member of the foreign file is translated, or gets a comment in the part of the result to which it belongs, with
// its line, what has become of it and what to do instead. Readers of the file mark the values that they use; what is
// not marked in the end gets its comment from a table of notes, or is called unknown. So no member can be forgotten.
//
// The result is always valid: a key that package config rejects, such as a model's id with a space, is commented out
// with the reason. Credentials are never copied; they become variables.
//
// Concurrency: all functions may be called from any goroutine.
package importer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Result is a translated configuration.
type Result struct {
	Text      string     // of gateway.toml
	Variables []Variable // that the configuration needs, in the order of their use
}

// Variable is an environment variable that has to be set.
type Variable struct {
	Name string
	Kind string // what it has: "secret", "url", "redis", "host", "port", "file", "region" or "text"
	Text string // where it comes from
}

// LiteLLM translates the configuration of a LiteLLM proxy (config.yaml).
func LiteLLM(data []byte) (*Result, error) {
	root, err := readYAML(data)
	if err != nil {
		return nil, err
	}
	if !root.object {
		return nil, errors.New("not a mapping")
	}
	d := newDocument("LiteLLM", "os.environ/", root)
	translateLiteLLM(d, root)
	return d.result(root, litellmNotes())
}

// Bifrost translates the configuration of a Bifrost gateway (config.json).
func Bifrost(data []byte) (*Result, error) {
	root, err := readJSON(data)
	if err != nil {
		return nil, err
	}
	if !root.object {
		return nil, errors.New("not an object")
	}
	d := newDocument("Bifrost", "env.", root)
	translateBifrost(d, root)
	return d.result(root, bifrostNotes())
}

// note is what happens to members that are not translated.
type note struct {
	part part
	text string
}

// parseNotes parses lines "part path: text". A path may end with *.
func parseNotes(text string) map[string]note {
	names := map[string]part{"server": partServer, "store": partStore, "clients": partClients, "providers": partProviders, "models": partModels, "routing": partRouting, "other": partOther}
	all := map[string]note{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		paths, text, ok := strings.Cut(rest, ": ")
		p, known := names[name]
		if !ok || !known {
			panic("importer: invalid note: " + line)
		}
		for path := range strings.SplitSeq(paths, " ") {
			all[path] = note{p, text}
		}
	}
	return all
}

// noteOf returns the note on a path: the one with the path itself, or with the longest beginning of it.
func noteOf(notes map[string]note, path string) (n note, ok bool) {
	if n, ok = notes[path]; ok {
		return n, true
	}
	for i := len(path); i >= 0; i-- {
		if n, ok = notes[path[:i]+"*"]; ok {
			return n, true
		}
	}
	return note{part: partOther}, false
}

// explain adds comments on the values below n that were not used.
func (d *document) explain(n *node, notes map[string]note) {
	for i, c := range n.nodes {
		if c.used {
			d.explain(c, notes)
			continue
		}
		home, text := c.homeTable(), c.why
		found, known := noteOf(notes, c.kind)
		for _, later := range n.nodes[i+1:] {
			if n.object && later.name == c.name {
				text = fmt.Sprintf("is written again on line %d, which counts.", later.line)
			}
		}
		switch {
		case text != "":
		case known:
			text = found.text
		case c.scalar || len(c.nodes) == 0:
			text = "unknown here, and not translated."
		default:
			text = "unknown here; neither it nor what is below it was translated."
		}
		if home == nil {
			home = &d.notes[found.part]
		}
		home.about(c, text)
	}
}

// homeTable returns the table for comments on a value, or nil.
func (n *node) homeTable() *table {
	for ; n != nil; n = n.up {
		if n.home != nil {
			return n.home
		}
	}
	return nil
}

// bundled are the bundled plugins that a translation uses.
var bundled = []string{"openai", "anthropic", "gemini", "bedrock", "cohere", "router"}

// maxRounds limits how often the result is checked. One round suffices, unless a key was left out on which others
// depend.
const maxRounds = 20

// result adds the missing comments, and leaves out what would be rejected.
func (d *document) result(root *node, notes map[string]note) (*Result, error) {
	d.explain(root, notes)
	for range maxRounds {
		w := d.render()
		_, err := config.Parse("gateway.toml", []byte(w.b.String()), config.Options{Env: d.sample, Bundled: bundled, ReadFile: sampleFile})
		list, invalid := err.(config.Errors)
		if err == nil {
			return &Result{w.b.String(), d.vars}, nil
		}
		changed := false
		for _, e := range list {
			changed = w.leaveOut(e) || changed
		}
		if !invalid || !changed {
			return nil, fmt.Errorf("the translation is invalid: %w", err)
		}
	}
	return nil, errors.New("the translation is invalid")
}

// leaveOut comments out the key at which an error is. Without one of its keys, a table may mean something else: a
// provider would send its credential to another address, and a client key could use all models. So those tables are left
// out as a whole, unless a limit or a budget is wrong, which then could never apply.
func (w *writer) leaveOut(e config.Error) bool {
	t, k := w.owner[e.Line], w.key[e.Line]
	switch {
	case t == nil || t.off != "" || k != nil && k.off != "":
		return false
	case k == nil || k.name == "id" || k.name == "name" || k.name == "targets",
		k.name != "limits" && k.name != "budgets" && (strings.HasPrefix(t.header, "[providers.") || t.header == "[[keys]]"):
		t.off = e.Text + "."
	default:
		k.off = e.Text + "."
	}
	return true
}

// sample returns a value for each variable of the configuration, to check it.
func (d *document) sample(name string) (string, bool) {
	for _, v := range d.vars {
		if v.Name == name {
			return v.Sample(), true
		}
	}
	return "", false
}

// Sample returns a value of the variable's kind, with which the configuration is valid.
func (v Variable) Sample() string {
	switch v.Kind {
	case "url":
		return "https://host.example"
	case "redis":
		return "redis://host.example:6379"
	case "host":
		return "host.example"
	case "port":
		return "6379"
	case "region":
		return "us-east-1"
	}
	return "sample-" + v.Name
}

func sampleFile(string) ([]byte, error) { return []byte(`{"type":"service_account"}`), nil }
