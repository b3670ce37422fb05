package plugindev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// textFile is the input of a filter's vector: a text of a request or a response.
const textFile = "text.json"

// FilteredText is a vector of a filter: a text that the filter passes, changes or rejects.
type FilteredText struct {
	Name string
	Dir  string
	What abi.What
	Text string
	Tags []string // tags that the filter may set

	own json.RawMessage // settings of the vector
}

// textKinds are the names of texts in text.json.
var textKinds = map[string]abi.What{
	"": abi.WhatText, "text": abi.WhatText, "refusal": abi.WhatRefusal, "reasoning": abi.WhatReasoning, "tool_arguments": abi.WhatToolArguments,
	"system": abi.WhatSystem, "user": abi.WhatUser, "assistant": abi.WhatAssistant, "tool_result": abi.WhatToolResult,
	"sent_arguments": abi.WhatSentArguments, "other": abi.WhatOther,
}

// textKind returns the name of a kind of text.
func textKind(what abi.What) string {
	for name, kind := range textKinds {
		if kind == what && name != "" {
			return name
		}
	}
	return "other"
}

func loadText(base, dir string) (*FilteredText, error) {
	name, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(dir, textFile))
	if err != nil {
		return nil, err
	}
	t, err := ReadText(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", textFile, err)
	}
	t.Name, t.Dir = filepath.ToSlash(name), dir
	return t, nil
}

// ReadText returns the text in a document in the format of text.json.
func ReadText(document []byte) (*FilteredText, error) {
	var in struct {
		What     string          `json:"what"`
		Text     string          `json:"text"`
		Tags     []string        `json:"tags"`
		Settings json.RawMessage `json:"settings"`
	}
	if err := decodeStrict(bytes.TrimSpace(document), &in); err != nil {
		return nil, err
	}
	what, ok := textKinds[in.What]
	if !ok {
		return nil, fmt.Errorf("unknown kind of text %q", in.What)
	}
	if len(in.Tags) > plugin.MaxTags {
		return nil, fmt.Errorf("more than %d tags", plugin.MaxTags)
	}
	return &FilteredText{What: what, Text: in.Text, Tags: in.Tags, own: in.Settings}, nil
}

func (t *FilteredText) name() string              { return t.Name }
func (t *FilteredText) dir() string               { return t.Dir }
func (t *FilteredText) settings() json.RawMessage { return t.own }

func (t *FilteredText) outcome(b *Binding) outcome {
	filtering := plugin.Filtering{Tags: t.Tags}
	text, cost, err := t.pass(b, &filtering, t.Text)
	o := outcome{text: text, mistakes: filtering.Mistakes, cost: cost, failure: callFailure(err)}
	if cost.Share > MaxShare {
		o.problems = append(o.problems, budgetProblem(cost.Share))
	}
	return o
}

// filter passes the text to the filter in pieces, and returns the outcome.
func (t *FilteredText) filter(b *Binding, pieces ...string) string {
	text, _, _ := t.pass(b, &plugin.Filtering{Tags: t.Tags}, pieces...)
	return text
}

// pass passes the text to the filter in pieces.
func (t *FilteredText) pass(b *Binding, filtering *plugin.Filtering, pieces ...string) (outcome string, cost Cost, err error) {
	var out strings.Builder
	var held []byte
	for i, piece := range pieces {
		flags := abi.TextStreamed
		if len(pieces) == 1 {
			flags = 0
		}
		if t.What >= abi.WhatSystem {
			flags |= abi.TextOfRequest
		}
		if i == len(pieces)-1 {
			flags |= abi.TextComplete
		}
		before := filtering.Fuel
		var f plugin.Filtered
		f, err = b.binding.FilterText(context.Background(), filtering, &plugin.Text{What: t.What, Flags: flags, Held: held, New: []byte(piece)})
		cost.Reads++
		cost.addCall(filtering.Fuel-before, plugin.DefaultEventFuel, len(held)+len(piece))
		if err != nil {
			break
		}
		out.Write(f.Out)
		all := slices.Concat(held, []byte(piece))
		held = all[len(all)-f.Held:]
	}
	cost.Reading = filtering.Fuel
	outcome = "-- text --\n" + out.String() + "\n"
	if err != nil {
		// The text that was passed on before the error depends on the pieces.
		outcome = "-- error --\n" + err.Error() + "\n"
	}
	for set := filtering.Set; set != 0; set &= set - 1 {
		outcome += "-- tag --\n" + t.Tags[bits.TrailingZeros64(set)] + "\n"
	}
	return outcome, cost, err
}

// variants passes the text of a response in pieces, as a stream does. Pieces do not split a character.
func (t *FilteredText) variants(b *Binding, differs func(variant, want, got string)) {
	if t.What >= abi.WhatSystem {
		return
	}
	want := t.filter(b, t.Text)
	check := func(variant string, pieces ...string) {
		if got := t.filter(b, pieces...); got != want {
			differs(variant, want, got)
		}
	}
	check("text in pieces of 1 character", append(strings.Split(t.Text, ""), "")...)
	for _, cut := range spread(len(t.Text)-1, maxCuts) {
		if utf8.RuneStart(t.Text[cut]) {
			check(fmt.Sprintf("text cut at byte %d", cut), t.Text[:cut], t.Text[cut:])
		}
	}
}
