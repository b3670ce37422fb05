package config

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/glob"
)

// Glob is a pattern, such as of model ids, in which * matches any number of characters, including "/".
type Glob string

// maxStars limits the number of stars in a pattern.
const maxStars = 8

// Match reports whether the pattern matches the whole id. It does not allocate.
func (g Glob) Match(id string) bool { return glob.Match(string(g), id, 0) }

func checkGlob(s string) error {
	switch {
	case s == "":
		return invalid("a pattern must not be empty")
	case len(s) > maxID:
		return invalid("a pattern has at most %d bytes", maxID)
	case strings.ContainsAny(s, `?[]{}\!`):
		return invalid("a pattern supports only *, not ? [ ] { } ! or \\")
	case strings.Contains(s, "**"):
		return invalid("one * matches everything, including /")
	case strings.Count(s, "*") > maxStars:
		return invalid("a pattern has at most %d stars", maxStars)
	}
	return checkPrintable(s)
}

// checkPrintable rejects characters that must not be in a header or a log line.
func checkPrintable(s string) error {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return invalid("must have only printable ASCII characters and no spaces")
		}
	}
	return nil
}
