package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a position in the configuration. Line and Column start at 1, and Column counts characters. The zero
// Position is the main file as a whole.
type Position struct {
	Line, Column int
	File         string // an included file, or "" for the main file
}

// Error is an error in a configuration. It never contains a credential or the value of a variable.
type Error struct {
	File string
	Position
	Key  string // path of the key, "models[0].targets[1].provider"; "" for syntax errors
	Text string
}

// Error returns "file:line:column: key: text", without unknown parts.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Key != "" {
		b.WriteString(": ")
		b.WriteString(e.Key)
	}
	b.WriteString(": ")
	b.WriteString(e.Text)
	return b.String()
}

// newError returns an error at a position; main is the main file.
func newError(main string, at Position, key, text string) Error {
	file := cmp.Or(at.File, main)
	at.File = ""
	return Error{File: file, Position: at, Key: key, Text: text}
}

// NewError returns an error at a position of the configuration.
func (c *Config) NewError(at Position, key, text string) Error {
	return newError(c.Path, at, key, text)
}

// Errors are all errors in a configuration, sorted by file and position.
type Errors []Error

// Error returns one line per error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each Error.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

func (es Errors) sorted() Errors {
	slices.SortStableFunc(es, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return es
}

// invalid returns the error of a check of a single value, to which the caller adds the position.
func invalid(format string, args ...any) error { return fmt.Errorf(format, args...) }

// suggest returns ", did you mean …?" for the known name closest to name, or "" if none is close.
func suggest(name string, known []string) string {
	best, distance := "", len(name)/3+2
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	if best == "" || distance >= len(best) {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// maxSuggest limits the length of compared names, in bytes, because comparing takes time proportional to the product of
// their lengths.
const maxSuggest = 64

// editDistance returns the number of insertions, deletions, substitutions and transpositions between two names.
func editDistance(a, b string) int {
	if len(a) > maxSuggest || len(b) > maxSuggest {
		return maxSuggest
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
