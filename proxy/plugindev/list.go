package plugindev

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// listFile is the input of a vector of a provider's model list: a page of the upstream's list.
const listFile = "list.json"

// ListPage is a vector of a provider's model list: the plugin builds the request for a page, and reads the page.
type ListPage struct {
	Name string
	Dir  string
	Body []byte
	more struct {
		Settings json.RawMessage   `json:"settings"`
		Cursor   string            `json:"cursor"` // of the page; "" for the first one
		Status   int               `json:"status"`
		Headers  map[string]string `json:"headers"` // of the response, with lower-case names
	}
}

func loadList(base, dir string) (*ListPage, error) {
	name, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, err
	}
	l := &ListPage{Name: filepath.ToSlash(name), Dir: dir}
	if l.Body, err = os.ReadFile(filepath.Join(dir, listFile)); err != nil {
		return nil, err
	}
	more, err := readOptional(dir, "vector.json")
	if err != nil || more == nil {
		return l, err
	}
	if err := decodeStrict(more, &l.more); err != nil {
		return nil, fmt.Errorf("vector.json: %w", err)
	}
	return l, nil
}

func (l *ListPage) name() string              { return l.Name }
func (l *ListPage) dir() string               { return l.Dir }
func (l *ListPage) settings() json.RawMessage { return l.more.Settings }

func (l *ListPage) outcome(b *Binding) (o outcome) {
	used := func(call func() error, input int) error {
		before := b.binding.Plugin().Stats().Fuel
		err := call()
		fuel := b.binding.Plugin().Stats().Fuel - before
		o.cost.Request += fuel
		o.cost.addCall(fuel, plugin.DefaultCallFuel, input)
		return err
	}
	var request ListRequest
	var models, next string
	err := used(func() (err error) { request, err = b.List(l.more.Cursor); return err }, len(l.more.Cursor))
	switch {
	case err != nil:
	case request.Path == "":
		o.problems = append(o.problems, "the plugin has no model list: "+abi.ExportList+" sets no path")
	default:
		o.text = "-- request --\nGET " + request.Path + "\n"
		for _, h := range request.Headers {
			o.text += h.Name + ": " + h.Value + "\n"
		}
		err = used(func() (err error) {
			models, next, err = b.Models(cmp.Or(l.more.Status, 200), l.more.Headers, string(l.Body))
			return err
		}, len(l.Body))
	}
	switch {
	case err != nil:
		o.text += "-- error --\n" + err.Error() + "\n"
		o.failure = callFailure(err)
	case request.Path != "":
		o.text += "-- models --\n"
		if models != "" {
			o.text += strings.ReplaceAll(models, "} {", "}\n{") + "\n"
		}
		if next != "" {
			o.text += "-- next --\n" + next + "\n"
		}
	}
	if o.cost.Share > MaxShare {
		o.problems = append(o.problems, budgetProblem(o.cost.Share))
	}
	return o
}

func (l *ListPage) variants(*Binding, func(variant, want, got string)) {}
