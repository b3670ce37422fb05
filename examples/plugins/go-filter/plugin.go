// Command go-filter is a filter plugin that replaces words with ***, in requests and responses, even if a stream splits
// a word. The option words lists them. If several words match at the same position, the longest is replaced.
package main

import (
	"bytes"
	"errors"

	"github.com/sluice-gateway/sluice/sdk/filter"
	"github.com/sluice-gateway/sluice/sdk/json"
)

func init() { filter.Register[mask]() }

func main() {}

// mask is an instance of the filter, with the words in its options.
type mask struct{ words [][]byte }

// Configure reads the options, and rejects invalid ones.
func (m *mask) Configure(options json.Value) error {
	var r json.Reader
	r.Reset(options.Get("words"))
	for a := r.Array(); a.Next(); {
		m.words = append(m.words, bytes.Clone(r.Text()))
	}
	for _, word := range m.words {
		if len(word) == 0 || len(word) > 256 {
			return errors.New("words: want words of 1 to 256 bytes")
		}
	}
	if r.End() != nil || len(m.words) == 0 || len(m.words) > 64 {
		return errors.New("words is missing: want an array of 1 to 64 words")
	}
	return nil
}

// Text masks the words in a text, or in the next piece of a stream's text.
func (m *mask) Text(t *filter.Text) error {
	text := t.Bytes()
	for at := 0; at < len(text); {
		rest, longest := text[at:], 0
		for _, word := range m.words {
			switch {
			case bytes.HasPrefix(rest, word):
				longest = max(longest, len(word))
			case !t.Complete() && bytes.HasPrefix(word, rest): // the next piece may complete the word
				t.Hold(len(rest))
				return nil
			}
		}
		if longest > 0 {
			t.Replace(at, at+longest, "***")
		}
		at += max(longest, 1)
	}
	return nil
}
