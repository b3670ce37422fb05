package config

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/glob"
)

// Glob is a pattern of model ids in which * matches any number of characters, including "/".
type Glob string

// maxStars bounds the stars in a pattern.
const maxStars = 8

// Match reports whether the pattern covers the whole of id. It does not allocate.
func (g Glob) Match(id string) bool { return glob.Match(string(g), id, 0) }

func checkGlob(s string) error {
	switch {
	case s == "":
		return rule("a pattern must not be empty")
	case len(s) > maxID:
		return rule("a pattern has at most %d bytes", maxID)
	case strings.ContainsAny(s, `?[]{}\!`):
		return rule("a pattern supports only *, not ? [ ] { } ! or \\")
	case strings.Contains(s, "**"):
		return rule("one * matches everything, including /")
	case strings.Count(s, "*") > maxStars:
		return rule("a pattern has at most %d stars", maxStars)
	}
	return checkPrintable(s)
}

// checkPrintable rejects what cannot be in a header or a log line.
func checkPrintable(s string) error {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return rule("must have only printable ASCII characters and no spaces")
		}
	}
	return nil
}
