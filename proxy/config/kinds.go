package config

import "slices"

// Kinds is a set of the kinds of requests that a model serves.
type Kinds uint8

// The kinds. A chat request comes by any of the APIs for conversations.
const (
	KindChat Kinds = 1 << iota
	KindEmbeddings
	KindRerank
	KindCompletions // legacy
	KindModerations

	AllKinds Kinds = 1<<iota - 1
)

var kindNames = []string{"chat", "embeddings", "rerank", "completions", "moderations"}

// ParseKind returns the kind with the name that the configuration, plugins and clients use, or 0 if there is none.
func ParseKind(name string) Kinds {
	i := slices.Index(kindNames, name)
	if i < 0 {
		return 0
	}
	return 1 << i
}

// Names returns the names of the kinds in k, in a fixed order.
func (k Kinds) Names() (names []string) {
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// kinds reads the kinds of a model.
func (t *table) kinds(name string) (all Kinds) {
	elements, there := t.strings(name)
	for _, e := range elements {
		k := ParseKind(e.text)
		if k == 0 {
			t.fail(e, name, "%s is invalid: want %s%s", show(e), alternatives(kindNames), suggest(e.text, kindNames))
		}
		all |= k
	}
	switch {
	case !there:
		return KindChat
	case len(elements) == 0:
		t.fail(t.lookUp(name), name, "must not be empty")
	}
	return all
}
