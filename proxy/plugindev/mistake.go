package plugindev

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/pclntab"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// appendNew appends the texts that are not in the list yet.
func appendNew(list []string, more ...string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// mistakes collects what vectors show of a plugin's mistakes: each once, with the name of the first vector.
type mistakes struct {
	texts  []string
	places []string
}

func (m *mistakes) add(vector string, texts ...string) {
	for _, text := range texts {
		if !slices.Contains(m.texts, text) {
			m.texts, m.places = append(m.texts, text), append(m.places, vector)
		}
	}
}

// list returns the mistakes, with the places where they were first made.
func (m *mistakes) list() (list []string) {
	for i, text := range m.texts {
		if m.places[i] != "" {
			text = m.places[i] + ": " + text
		}
		list = append(list, text)
	}
	return list
}

// warnings returns what is most likely a mistake in a plugin that breaks no rule: in its module, and in what its
// vectors show.
func warnings(m Module, tested []Tested, more *mistakes) []string {
	var all mistakes
	all.add("", moduleMistakes(m.Wasm)...)
	for _, t := range tested {
		all.add(t.Name, t.Warnings...)
	}
	for i, text := range more.texts {
		all.add(more.places[i], text)
	}
	return all.list()
}

// moduleMistakes returns what is most likely a mistake in a module: a Go plugin that links code for which the sandbox
// has no use.
func moduleMistakes(module []byte) []string {
	m, err := wasm.Parse(module)
	if err != nil {
		return nil
	}
	for _, d := range m.Data {
		at := pclntab.Index(d.Bytes)
		if at < 0 {
			continue
		}
		table, ok := pclntab.New(d.Bytes[at:])
		if !ok {
			continue
		}
		for i := range table.Len() {
			if f, ok := table.At(i); ok && strings.HasPrefix(f.Name, "net.") {
				return []string{fmt.Sprintf("package net is linked, although a plugin has no network: it makes the module larger and each instance slower to start (%s); `go list -deps -f '{{.ImportPath}}: {{.Imports}}' .` shows what imports it", f.Name)}
			}
		}
	}
	return nil
}
