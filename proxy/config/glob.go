package config

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/glob"
)

// Glob is a pattern of model ids in which * stands for any run of characters, none included, and "/" is a character as
// any other.
type Glob string

// maxStars bounds the stars of a pattern.
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

// checkPrintable refuses what cannot stand in a header or on a line of a log.
func checkPrintable(s string) error {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return rule("must have only printable ASCII characters and no spaces")
		}
	}
	return nil
}
